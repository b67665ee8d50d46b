#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The command as such: help, version, wrong words, and what the listings print.
. "$(dirname "$0")/lib.sh"

run "$simhca" --help
status 0
commands=$(sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' "$work/out")
check "commands are listed" test "$(echo "$commands" | wc -w)" -ge 9

for word in -h help '-?'; do
	run "$simhca" $word
	status 0
	out '^Usage: simhca COMMAND'
done
run "$simhca" help nosuch
refused "no command 'nosuch'"

run "$simhca" --version
status 0
out '^simhca [0-9]'

for c in $commands; do
	run "$simhca" "$c" --help
	status 0
	out "^Usage: simhca $c"
	run "$simhca" "$c" -h
	status 0
	out "^Usage: simhca $c"
	run "$simhca" help "$c"
	status 0
	out "^Usage: simhca $c"
	run "$simhca" "$c" --version
	status 0
	out '^simhca [0-9]'
	run "$simhca" "$c" --no-such-option
	status 2
	err 'unrecognized option'
	[ "$c" = run ] && continue
	run "$simhca" "$c" surplus
	status 2
done

run "$simhca"
status 2
run "$simhca" frobnicate
refused "no command 'frobnicate'"

run "$simhca" profiles
status 0
out '^connectx6dx .*mlx5 .*0x0002c9'
out '^e810 '
run "$simhca" profiles --dump nosuch
refused "profile 'nosuch' not found"
run "$simhca" probe -p E810
refused 'simhca profiles. lists them'
run "$simhca" profiles --dump e810
out '^vendor_id = 0x8086$'

# A dumped profile can be used as it is.
"$simhca" profiles --dump e810 >"$work/mine.ini"
run "$simhca" probe -p "$work/mine.ini" -i 101
status 0
out '^  *101  *101'
run "$simhca" probe -p "$work/mine.ini" -i 102
out '^  *102  *EINVAL'
echo 'nonsense = 1' >>"$work/mine.ini"
run "$simhca" probe -p "$work/mine.ini"
refused "mine.ini:[0-9]*: .*nonsense"

# The figures of the adapters' own rules.
run "$simhca" probe -p connectx6dx
for pair in '0 60' '61 124' '220 252' '828 828'; do
	out "^  *${pair% *}  *${pair#* } "
done
out '^  *829  *EINVAL'
out '^Only RC '
run "$simhca" probe -p erdma -i 64
no_out '^Only RC '
run "$simhca" probe -p e810 -i 64 -n 100000
out 'EINVAL  (max_send_wr)$'
run "$simhca" probe -i twelve
refused 'a number expected'

run "$simhca" config
status 0
out '^SIMHCA_LOG=0'
out '-s log=1'
run env SIMHCA_LOG=2 "$simhca" config
out '^SIMHCA_LOG=2 .*environment'
run env SIMHCA_LOG=9 "$simhca" config
refused 'SIMHCA_LOG=9: accepted: 0 to 3'

run "$simhca" devices
refused "fabric 'default'"
run "$simhca" stat --explain
status 0
out '^inline_posts  *hw_counters  *send work requests'
run "$simhca" stat -f nowhere
refused "fabric 'nowhere'"
run "$simhca" run -- "$simhca" stat -d nosuch
refused "no device 'nosuch'"
run "$simhca" run -d a=e810,b -- "$simhca" devices
status 0
out '^a  *1  *e810  *ACTIVE  *Ethernet'
out '^b  *1  *generic  *ACTIVE'
run "$simhca" run -- "$simhca" devices --gids
out '^simhca0  *1  *3  *RoCE v2 .*::ffff:127'
run "$simhca" run -- "$simhca" stat --all
out '^simhca1 (generic)'
out '^  inline_posts  *0'
empty_dir
finish
