# SPDX-License-Identifier: BSD-2-Clause
# What the tests of the command share. To be read with `.`, with the folder of the programs as $1.
#
#   run COMMAND...        runs it: status in $status, output in $work/out and $work/err
#   status N              checks the status of the last run
#   out TEXT / err TEXT   checks that stdout / stderr has a line that matches
#   one_line_err          checks that stderr is one line
#   empty_dir             checks that no fabric is left
#   check WHAT COMMAND    checks that a command succeeds
#   finish                ends the test; the last line of each
#
# Every test has a folder of fabrics of its own, so that "nothing is left" can be checked to the letter.

BIN=$(cd "$1" && pwd) || exit 1
simhca=$BIN/simhca
[ -x "$simhca" ] || { echo "no $simhca" >&2; exit 1; }

for v in $(env | sed -n 's/^\(SIMHCA_[A-Z_]*\)=.*/\1/p'); do unset "$v"; done
unset LD_PRELOAD RDMAV_DRIVERS SYSFS_PATH
# Programs of others leak what they like.
ASAN_OPTIONS=detect_leaks=0
export ASAN_OPTIONS

work=$(mktemp -d "${TMPDIR:-/tmp}/simhca-cli.XXXXXX") || exit 1
chmod 755 "$work"
SIMHCA_DIR=$work/fabrics
mkdir -m 1777 "$SIMHCA_DIR"
chmod 1777 "$SIMHCA_DIR"
export SIMHCA_DIR
trap 'rm -rf "$work"' EXIT
failed=0
checked=0

fail() {
	failed=$((failed + 1))
	echo "FAILED: $*"
	echo "  command: $last"
	sed 's/^/  stdout: /' "$work/out" | head -20
	sed 's/^/  stderr: /' "$work/err" | head -20
}

run() {
	last="$*"
	timeout 60 "$@" >"$work/out" 2>"$work/err"
	status=$?
}

status() {
	checked=$((checked + 1))
	[ "$status" = "$1" ] || fail "status $status, not $1"
}

out() {
	checked=$((checked + 1))
	grep -q -e "$1" "$work/out" || fail "stdout lacks '$1'"
}

no_out() {
	checked=$((checked + 1))
	! grep -q -e "$1" "$work/out" || fail "stdout has '$1'"
}

err() {
	checked=$((checked + 1))
	grep -q -e "$1" "$work/err" || fail "stderr lacks '$1'"
}

one_line_err() {
	checked=$((checked + 1))
	[ "$(wc -l <"$work/err")" = 1 ] || fail "stderr is not one line"
}

# A refused setup: status 2, one line that says why.
refused() {
	status 2
	one_line_err
	err "$1"
}

# A watcher or a program in the background may need a moment.
empty_dir() {
	checked=$((checked + 1))
	for i in 1 2 3 4 5 6 7 8 9 10; do
		[ -z "$(ls -A "$SIMHCA_DIR")" ] && return
		sleep 0.1
	done
	fail "left behind: $(ls -A "$SIMHCA_DIR")"
}

check() {
	what=$1
	shift
	checked=$((checked + 1))
	last="$*"
	"$@" || fail "$what"
}

skip() {
	echo "skipped: $*"
}

finish() {
	echo "$checked checks, $failed failed"
	[ "$failed" = 0 ] && [ "$checked" -gt 0 ]
	exit
}
