#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# preload.sh BIN TEST_BIN: the preload, in programs that are picky about it.
. "$(dirname "$0")/lib.sh"
tests=$2

run "$simhca" run -- "$tests/cli_paths" on
status 0
cp "$work/out" "$work/paths"
run "$simhca" run -s enable=0 -- "$tests/cli_paths" off
status 0
run "$simhca" run -- env -u SIMHCA_FABRIC_DIR "$tests/cli_paths" off
status 0
cat "$work/paths"

# What was preloaded before stays, in front; a second run adds nothing.
other=$(ls /lib/*/libutil.so.1 /lib*/libutil.so.1 2>/dev/null | head -1)
# (A sanitizer build of the command itself must not mind.)
relaxed=ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
run env "$relaxed" LD_PRELOAD="$other" "$simhca" run -- env
out "^LD_PRELOAD=\(.*:\)\{0,1\}$other:/.*/libsimhca-host.so\$"
run "$simhca" run -- "$simhca" run -- sh -c 'echo $LD_PRELOAD | grep -o libsimhca-host | wc -l; echo $RDMAV_DRIVERS | grep -o libsimhca | wc -l'
check "named once each" test "$(tr '\n' ' ' <"$work/out")" = '1 1 '

run "$simhca" run -- "$tests/cli_count"
status 0
out '^2 devices$'
run "$simhca" run -s enable=0 -- "$tests/cli_count"
out '^0 devices$'
run env SIMHCA_ENABLE=0 "$simhca" run -- "$tests/cli_count"
out '^0 devices$'

# Programs with a shared sanitizer runtime, started by us, and started by a script that we start.
for sanitizer in asan tsan; do
	program=$tests/cli_count_$sanitizer
	if [ ! -x "$program" ]; then
		skip "no $sanitizer program was built"
		continue
	fi
	run "$simhca" run -- "$program"
	status 0
	out '^2 devices$'
	check "the runtime says nothing" test ! -s "$work/err"
	run env LD_PRELOAD="$other" "$simhca" run -- "$program"
	out '^2 devices$'
done
if [ -x "$tests/cli_count_asan" ]; then
	run "$simhca" run -- sh -c "$tests/cli_count_asan"
	status 0
	out '^2 devices$'
fi
empty_dir
finish
