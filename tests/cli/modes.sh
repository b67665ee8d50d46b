#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The three ways to run, with stock programs; and what remains of them, which is nothing.
. "$(dirname "$0")/lib.sh"
for p in ibv_devices ibv_devinfo ibv_rc_pingpong; do
	command -v $p >/dev/null || { echo "skipped: no $p"; exit 77; }
done

# devices MODE: lists, queries and talks in this mode
devices() {
	run "$simhca" run --mode "$1" -p connectx6dx -- ibv_devices
	status 0
	out '^ *simhca0 '
	out '^ *simhca1 '
	empty_dir
	run "$simhca" run --mode "$1" -d mlx5_0=connectx6dx -- ibv_devinfo -v
	status 0
	out 'hca_id:.*mlx5_0$'
	out 'vendor_part_id:.*4125'
	out 'state:.*PORT_ACTIVE'
	out 'GID\[ *3\]:.*::ffff:127.47.1.1'
	empty_dir
	run "$simhca" run --mode "$1" -p e810 -- sh -c '
		ibv_rc_pingpong -g 3 -n 100 -p '"$2"' & server=$!
		for i in 1 2 3 4 5 6 7 8 9 10; do
			sleep 0.2
			ibv_rc_pingpong -g 3 -n 100 -p '"$2"' localhost && break
		done
		wait $server'
	status 0
	out '100 iters in'
	run "$simhca" run --mode "$1" -- true
	status 0
	empty_dir
	# Killed: the next one tidies up, or the watcher of the modes without a preload.
	run "$simhca" run --mode "$1" -f killed -- sh -c 'kill -9 $$'
	status 137
	[ "$1" = preload ] && run "$simhca" sweep
	empty_dir
}

devices preload 18911
run "$simhca" run -p connectx6dx -- sh -c 'command -v ibstat >/dev/null && ibstat simhca0'
if [ "$status" = 0 ]; then
	out 'CA type: connectx6dx'
	out 'State: Active'
else
	skip "no ibstat"
fi

run "$simhca" doctor
if grep -q '^ok *userns' "$work/out"; then
	devices userns 18912
	run "$simhca" run -- "$simhca" run --mode userns -- ibv_devices
	status 0
	out '^ *simhca1 '
	empty_dir
	run "$simhca" run --mode userns -- sh -c 'id -u; echo x >/dev/null && : >/dev/shm/simhca-cli-$$ && rm /dev/shm/simhca-cli-$$; ls /dev/pts >/dev/null && env'
	status 0
	out "^$(id -u)\$"
	no_out libsimhca-host
else
	run "$simhca" run --mode userns -- true
	refused 'user namespaces are not allowed'
	skip "mode userns: not allowed here"
fi

# Only root can prepare for plain mode; this must not disturb a machine that has real nodes.
if [ -e /dev/infiniband ]; then
	skip "mode plain: /dev/infiniband is there"
else
	run "$simhca" run --mode plain -- true
	refused '/dev/infiniband/uverbs0: No such file or directory; .*--prepare$'
	run "$simhca" run --mode plain -p connectx5 -d a,b=e810 -f lab -- true
	refused 'simhca run --mode plain --prepare -f lab -p connectx5 -d a,b=e810$'
	run "$simhca" doctor
	out 'plain  */dev/infiniband/uverbs0: No such file or directory: mode plain needs it'
	empty_dir
	if [ "$(id -u)" != 0 ] || ! mkdir /dev/infiniband 2>/dev/null; then
		skip "mode plain: /dev/infiniband cannot be made"
	else
		rmdir /dev/infiniband
		trap 'rm -rf /dev/infiniband "$work"' EXIT
		run "$simhca" run --mode plain --prepare
		status 0
		run "$simhca" run --mode plain --prepare
		status 0
		devices plain 18913
		run "$simhca" run --mode plain -- env
		no_out libsimhca-host
		rm -rf /dev/infiniband
	fi
fi

finish
