#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# An ordinary user with nothing: no capabilities, no new privileges, 64 KiB of locked memory.
. "$(dirname "$0")/lib.sh"
command -v ibv_rc_pingpong >/dev/null || { echo "skipped: no ibv_rc_pingpong"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "skipped: already an ordinary user"; exit 77; }
for p in setpriv prlimit; do
	command -v $p >/dev/null || { echo "skipped: no $p"; exit 77; }
done

cat >"$work/as_nobody" <<'EOF'
#!/bin/sh
exec prlimit --memlock=65536:65536 setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs \
	--bounding-set=-all --inh-caps=-all "$@"
EOF
chmod 755 "$work/as_nobody"
cd /
"$work/as_nobody" test -x "$simhca" || { echo "skipped: nobody cannot read $simhca"; exit 77; }

run "$work/as_nobody" "$simhca" run -p e810 -- sh -c 'id -u; ulimit -l; grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status; ibv_devinfo'
status 0
out '^65534$'
out '^64$'
out '^CapEff:.*0000000000000000'
out '^NoNewPrivs:.*1'
out 'hca_id:.*simhca0'
run "$work/as_nobody" "$simhca" run -p e810 -- sh -c '
	ibv_rc_pingpong -g 3 -n 100 -p 18914 & server=$!
	for i in 1 2 3 4 5 6 7 8 9 10; do
		sleep 0.2
		ibv_rc_pingpong -g 3 -n 100 -p 18914 localhost && break
	done
	wait $server'
status 0
out '100 iters in'
empty_dir

# Fabrics belong to a user: another's of the same name is not met, and not swept.
run "$simhca" run -f same -d of_root -- sh -c '"$0" "$1" run -f same -d of_nobody -- "$1" devices; exit $?' \
	"$work/as_nobody" "$simhca"
status 0
out '^of_nobody'
no_out '^of_root'
empty_dir
run "$work/as_nobody" "$simhca" doctor
status 0
finish
