#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# absent.sh BIN PROGRAMS: verbs that are not emulated yet fail with EOPNOTSUPP, and with SIMHCA_LOG=1 each says so.
programs=$2
. "$(dirname "$0")/lib.sh"

run "$simhca" run -p e810 -s log=1 -- "$programs/cli_absent"
status 0
calls=$(wc -l <"$work/out")
check "verbs are called" test "$calls" -ge 15
for verb in $(cat "$work/out"); do
	err "^simhca: $verb on e810: .* not emulated yet: EOPNOTSUPP\$"
done
check "one line a call" test "$(wc -l <"$work/err")" = "$calls"
run "$simhca" run -p e810 -- "$programs/cli_absent"
status 0
check "silent without being asked" test ! -s "$work/err"
empty_dir
finish
