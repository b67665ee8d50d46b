#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# man.sh BIN MAN_DIR: the manual pages render without a warning and know every option and subcommand.
. "$(dirname "$0")/lib.sh"
pages=$2
if command -v man >/dev/null; then
	for page in "$pages"/*.[1-9]; do
		run env MANWIDTH=80 man -l --warnings "$page"
		status 0
		check "$page has no warning" test ! -s "$work/err"
	done
else
	skip "no man"
fi

run "$simhca" --help
for c in $(sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' "$work/out"); do
	check "simhca.1 has $c" grep -q "Cm $c" "$pages/simhca.1"
	"$simhca" "$c" --help >"$work/help"
	page=$pages/simhca.1
	[ "$c" = run ] && page=$pages/simhca-run.1
	for o in $(sed -n 's/^ *\(-., \)\{0,1\}--\([a-z-]*\).*/\2/p' "$work/help"); do
		case $o in
		help | usage | version) continue ;;
		esac
		short=$(sed -n "s/^ *-\(.\), --$o\b.*/\1/p" "$work/help")
		check "$(basename "$page") has --$o" grep -q -e "Fl -$o" -e "Fl ${short:-$o} " "$page"
	done
done
finish
