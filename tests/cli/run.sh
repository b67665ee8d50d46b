#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# simhca run: options, what it refuses, how it starts the program, and how long a fabric lives.
. "$(dirname "$0")/lib.sh"

# ---- the program ----
run "$simhca" run -- true
status 0
run "$simhca" run -- sh -c 'exit 7'
status 7
run "$simhca" run sh -c 'kill -TERM $$'
status 143
run "$simhca" run -- printf '%s,' -f --mode 'a b' --
out '^-f,--mode,a b,--,$'
run "$simhca" run -- no-such-program
status 127
one_line_err
run "$simhca" run -- "$work/no-such-program"
status 127
one_line_err
run "$simhca" run -- "$work"
status 126
one_line_err
empty_dir

# ---- options ----
run "$simhca" run
refused 'no program given'
run "$simhca" run --mode magic -- true
refused '--mode magic'
run "$simhca" run --prepare -- true
refused '--prepare goes with --mode plain'
run "$simhca" run -p nosuch -- true
refused "profile 'nosuch' not found"
run "$simhca" run -p "$work/nosuch.ini" -- true
refused "nosuch.ini: No such file"
printf '[limits]\nfoo = 1\n' >"$work/bad.ini"
run "$simhca" run -p "$work/bad.ini" -- true
refused "bad.ini:2: .*foo"
run "$simhca" run -d a,a -- true
refused "'a' is named twice"
run "$simhca" run -d a,,b -- true
refused "no device name"
run "$simhca" run -d 'a=' -- true
refused "'a=' has no profile"
run "$simhca" run -p E810 -- true
refused 'simhca profiles. lists them'
run "$simhca" run -d 'a/b' -- true
refused "a/b"
run "$simhca" run -d 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 -- true
refused "more than 16 devices"
run "$simhca" run -f ../x -- true
refused "fabric '../x'"
run "$simhca" run -s log -- true
refused "NAME=VALUE expected"
run "$simhca" run -s nosuch=1 -- true
refused "no such setting"
run "$simhca" run -s log=9 -- true
refused "SIMHCA_LOG=9"
run env SIMHCA_RING_KB=65 "$simhca" run -- true
refused "SIMHCA_RING_KB=65"
run env SIMHCA_DIR="$work/nowhere" "$simhca" run -- true
refused "$work/nowhere"
run env SIMHCA_LIB_DIR="$work" "$simhca" run -- true
refused "missing $work/libsimhca-rdmav"
empty_dir

# ---- no room ----
if unshare -Urm true 2>/dev/null; then
	small='mount -t tmpfs -o size=$1 tmpfs "$SIMHCA_DIR" && exec "$0" run -- true'
	run unshare -Urm sh -c "$small" "$simhca" 64k
	refused 'no space left'
	run unshare -Urm sh -c "$small" "$simhca" 16m
	status 0
else
	skip "a full file system: user namespaces are not allowed"
fi
# Files that may not become as large as needed: 100 blocks of 512 bytes.
run sh -c 'ulimit -f 100 && exec "$0" run -- true' "$simhca"
refused 'no space left'
empty_dir

# ---- files that are none ----
run "$simhca" run -p /dev/zero -- true
refused '/dev/zero: File too large'
run "$simhca" run --fabric-file /dev/zero -- true
refused '/dev/zero: File too large'
mkfifo "$work/pipe.ini"
vendors='cat /sys/class/infiniband/*/device/vendor | tr "\n" " "'

# piped TEXT COMMAND...: the text can be read from pipe.ini once
piped() {
	printf '%s\n' "$1" | timeout 10 sh -c 'cat >"$0"' "$work/pipe.ini" &
	shift
	run timeout 10 "$@"
	wait
}

e810=$("$simhca" profiles --dump e810)
piped "$e810" "$simhca" probe -p "$work/pipe.ini"
status 0
out '^  *101  *101'
out '^  *102  *EINVAL'
piped "$e810" "$simhca" run -d a="$work/pipe.ini" -- sh -c "$vendors"
status 0
out '^0x8086 $'
piped '[device a]
profile = e810' "$simhca" run --fabric-file "$work/pipe.ini" -- sh -c "$vendors"
status 0
out '^0x8086 $'
# The profile of both devices.
piped "$e810" "$simhca" run -p "$work/pipe.ini" -- sh -c "$vendors"
status 0
out '^0x8086 0x8086 $'
run sh -c '"$0" profiles --dump e810 | "$0" run -p /dev/stdin -- sh -c "$1"' "$simhca" "$vendors"
status 0
out '^0x8086 0x8086 $'
empty_dir

# ---- what the program is told ----
run "$simhca" run -f lab -s log=1 -s SIMHCA_DIRECT=1 -- env
out '^SIMHCA_LOG=1$'
out '^SIMHCA_DIRECT=1$'
out '^SIMHCA_FABRIC=lab$'
out "^SIMHCA_FABRIC_DIR=$SIMHCA_DIR/simhca-$(id -u)-lab\$"
out "^SYSFS_PATH=$SIMHCA_DIR/simhca-$(id -u)-lab/sys\$"
out '^RDMAV_DRIVERS=/.*/libsimhca$'
out '^LD_PRELOAD=.*/libsimhca-host.so$'
run env RDMAV_DRIVERS=other "$simhca" run -- env
out '^RDMAV_DRIVERS=/.*/libsimhca:other$'
run sh -c 'cd "$1" && SIMHCA_DIR=fabrics "$2" run -- env' sh "$work" "$simhca"
out "^SIMHCA_FABRIC_DIR=$SIMHCA_DIR/"

# ---- devices belong to the fabric ----
run "$simhca" run -d mlx5_0=connectx5 -- "$simhca" run -d mlx5_1=e810,mlx5_0=connectx5 -- "$simhca" devices
status 0
out '^mlx5_0 .*connectx5'
out '^mlx5_1 .*e810'
run "$simhca" run -d mlx5_0 -p connectx5 -- "$simhca" run -- "$simhca" devices
out '^mlx5_0 .*connectx5'
no_out '^simhca0'
run "$simhca" run -d mlx5_0=connectx5 -- "$simhca" run -d mlx5_0=e810 -- true
refused 'device mlx5_0 exists with another profile .* fabric .default. is used by process [0-9][0-9]*; -f NAME'
run "$simhca" run -d mlx5_0=connectx5 -- "$simhca" run -p e810 -- true
status 0
one_line_err
err 'note: .*mlx5_0 is connectx5.*may not be e810'
run "$simhca" run -p e810 -- "$simhca" run -p e810 -- true
check "nothing to note" test ! -s "$work/err"
run "$simhca" run -d mlx5_0=connectx5 -- "$simhca" run -d mlx5_1=e810 -- true
check "nothing to note" test ! -s "$work/err"
run "$simhca" run -d a=e810 -- "$simhca" run -f other -- "$simhca" devices
no_out '^a '
empty_dir

# ---- fabric file ----
cat >"$work/lab.ini" <<'EOF'
[fabric]
name = bench
[device hca_a]
profile = e810
ports = 2
[port hca_a:2]
state = down
[device hca_b]
profile = connectx6dx
[port hca_b:1]
link_layer = infiniband
EOF
run "$simhca" run --fabric-file "$work/lab.ini" -- sh -c '"$0" devices; echo $SIMHCA_FABRIC' "$simhca"
status 0
out '^bench$'
out '^hca_a  *2  *e810  *DOWN  *Ethernet'
out '^hca_b  *1  *connectx6dx  *ACTIVE  *InfiniBand'
run "$simhca" run --fabric-file "$work/lab.ini" -f mine -- sh -c 'echo $SIMHCA_FABRIC'
out '^mine$'
run "$simhca" run --fabric-file "$work/lab.ini" -p e810 -- true
refused 'excludes'
run "$simhca" run --fabric-file "$work/none.ini" -- true
refused 'none.ini'
# A relative profile starts at the folder of the file.
mkdir "$work/lab"
"$simhca" profiles --dump e810 >"$work/lab/mine.ini"
for path in mine.ini ./mine.ini "$work/lab/mine.ini" ../lab/mine.ini; do
	printf '[device a]\nprofile = %s\n' "$path" >"$work/lab/fabric.ini"
	run "$simhca" run --fabric-file "$work/lab/fabric.ini" -- "$simhca" devices
	status 0
	out '^a  *1  *mine '
	run sh -c 'cd "$1" && "$2" run --fabric-file fabric.ini -- "$2" devices' sh "$work/lab" "$simhca"
	out '^a  *1  *mine '
done
printf '[device a]\nprofile = other/mine.ini\n' >"$work/lab/fabric.ini"
run "$simhca" run --fabric-file "$work/lab/fabric.ini" -- true
refused "$work/lab/other/mine.ini: No such file"
printf '[device a]\nprofile = e810\ncolour = red\n' >"$work/bad.ini"
run "$simhca" run --fabric-file "$work/bad.ini" -- true
refused 'bad.ini:3: .*colour'
empty_dir

# ---- the life of a fabric ----
run "$simhca" run -- sh -c "(sleep 0.5; ls $SIMHCA_DIR >$work/later) >/dev/null 2>&1 & exit 3"
status 3
check "a child in the background keeps the fabric" test -n "$(ls "$SIMHCA_DIR")"
sleep 0.8
check "and finds it" test -s "$work/later"
empty_dir
run "$simhca" run -- sh -c 'true; ls "$SIMHCA_FABRIC_DIR"'
out '^segment$'
run "$simhca" run -f live -- sh -c 'echo $$; "$0" fabrics' "$simhca"
out "^live .*  used  *$(head -1 "$work/out"),* "
run "$simhca" run -f dead -- sh -c 'kill -9 $$'
run "$simhca" fabrics
out '^dead .*  unused  *-  '
check "a killed program leaves its fabric" test -n "$(ls "$SIMHCA_DIR")"
run "$simhca" run -f next -- ls "$SIMHCA_DIR"
out 'simhca-.*-next'
no_out 'dead'
run "$simhca" run -f dead -- sh -c 'kill -9 $$'
run "$simhca" sweep
out '^1 removed'
empty_dir
# A program that closes what it does not know, and its child.
if command -v python3 >/dev/null; then
	run "$simhca" run -- python3 -c '
import os, subprocess
os.closerange(3, 1024)
print(subprocess.run(["sh", "-c", "ls /sys/class/infiniband; exit 4"]).returncode)
print(os.listdir("/sys/class/infiniband"))'
	status 0
	out '^4$'
	out 'simhca0.*simhca1\|simhca1.*simhca0'
	empty_dir
fi
# exec in exec, of the same fabric and of another
run "$simhca" run -f a -- "$simhca" run -f a -- "$simhca" run -f b -- true
status 0
empty_dir

# ---- two fabrics at once ----
run sh -c '"$0" run -f one -d x -- sh -c "sleep 0.3; ls /sys/class/infiniband" >'"$work"'/one &
	"$0" run -f two -d y -- sh -c "sleep 0.3; ls /sys/class/infiniband" >'"$work"'/two; wait' "$simhca"
check "fabric one has x only" test "$(cat "$work/one")" = x
check "fabric two has y only" test "$(cat "$work/two")" = y
empty_dir
finish
