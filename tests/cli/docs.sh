#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# docs.sh BIN SOURCE_DIR: what the texts say can be found in the program and the sources: the key table of
# docs/profiles.md and the counter table of docs/counters.md row by row, the files and functions that are named, the links.
. "$(dirname "$0")/lib.sh"
cd "$2" || exit 1
texts="README.md docs/*.md"

# Rows of a profile dump, as the table has them.
rows() {
	awk '/^; profile/ { next }
	/^; / { help = substr($0, 3); next }
	/^[A-Za-z_0-9]+ =/ { v = $0; sub(/^[^=]*= ?/, "", v); print "| `" $1 "` | " v " | " help " |" }' "$1"
}

echo "; nothing set" >"$work/defaults.ini"
run "$simhca" profiles --dump "$work/defaults.ini"
status 0
rows "$work/out" | sort >"$work/rows"
check "the dump has keys" test "$(wc -l <"$work/rows")" -gt 50
sed -n '/^## Keys/,$p' docs/profiles.md | grep '^| `' | sort >"$work/table"
last="rows of docs/profiles.md"
diff "$work/rows" "$work/table" >"$work/out"
status=$?
status 0

# The table of docs/counters.md.
run "$simhca" stat --explain
sed '1d; s/^\([a-z_]*\)  *\([a-z_]*\)  *\(.*\)$/| `\1` | \2 | \3 |/' "$work/out" >"$work/rows"
check "there are counters" test "$(wc -l <"$work/rows")" -gt 20
sed -n '/^## Table/,$p' docs/counters.md | grep '^| `' >"$work/table"
last="rows of docs/counters.md"
diff "$work/rows" "$work/table" >"$work/out"
status=$?
status 0

run "$simhca" profiles
for name in $(sed '1d; s/ .*//' "$work/out"); do
	check "README.md names the profile $name" grep -q "^| .$name. " README.md
done

# `sim/hca/post.c` and the like
for path in $(grep -oh '`\(sim\|provider\|tools\|tests\|docs\)/[A-Za-z0-9_./-]*`' $texts | tr -d '`' | sort -u); do
	check "$path is there" test -e "$path"
done

# `commit()` and the like
for name in $(grep -oh '`[a-z_0-9]*()`' $texts | tr -d '`()' | sort -u); do
	check "$name() is there" grep -rqw --include='*.[ch]' -e "$name" sim provider tools
done

# [text](file.md)
for text in $texts; do
	for link in $(grep -oh '](\([^)#]*\))' "$text" | sed 's/](//; s/)$//' | grep -v '^http' | sort -u); do
		check "$text: $link is there" test -e "$(dirname "$text")/$link"
	done
done
finish
