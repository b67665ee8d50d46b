#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# simhca doctor: all well, and each thing that can be missing.
. "$(dirname "$0")/lib.sh"

run "$simhca" doctor
status 0
out '^ok  *provider  *.*/libsimhca-rdmav[0-9]*.so'
out '^ok  *libibverbs'
out '^ok  *preload'
out '^ok  *listing  *libibverbs lists 2 devices'
no_out '^problem'
empty_dir

run "$simhca" run -d x=e810 -- "$simhca" doctor
status 0
out '^ok  *tree  *1 device nodes'
out '^ok  *listing  *libibverbs lists 1 devices'

run env SIMHCA_LIB_DIR="$work" "$simhca" doctor
status 1
out "^problem  *provider  *missing $work/libsimhca-rdmav"
out "^problem  *preload  *missing $work/libsimhca-host.so"
out "^problem  *listing .*missing"

run env SIMHCA_ENABLE=0 "$simhca" doctor
status 1
out '^problem  *settings  *SIMHCA_ENABLE=0'
run env SIMHCA_LOG=nine "$simhca" doctor
status 1
out '^problem  *settings  *SIMHCA_LOG=nine'
run env SIMHCA_DIR="$work/nowhere" "$simhca" doctor
status 1
out "^problem  *space .*nowhere"

# A provider that libibverbs cannot load.
mkdir "$work/lib"
cp "$BIN/../lib/libsimhca-host.so" "$work/lib/"
: >"$work/lib/libsimhca-rdmav34.so"
run env SIMHCA_LIB_DIR="$work/lib" "$simhca" doctor
status 1
out '^problem  *listing  *libibverbs lists no device'

# Dead fabrics are found and removed.
run "$simhca" run -f dead -- sh -c 'kill -9 $$'
run "$simhca" doctor
out '^note  *sweep  *1 dead'
empty_dir
finish
