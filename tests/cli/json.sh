#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Every listing as JSON: valid, and with the documented fields.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }

# json EXPRESSION: something true of the last output, parsed as j
json() {
	checked=$((checked + 1))
	python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$work/out" "$1" 2>>"$work/err" || fail "not true: $1"
}

# fields LIST NAMES: each row of the list has exactly these
fields() {
	json "len(j['$1']) > 0 and all(list(r) == '$2'.split() for r in j['$1'])"
}

run "$simhca" profiles --json
fields profiles 'profile family vendor_id vendor_part_id node_type link_layer timing_source timing_guess'
json "[r for r in j['profiles'] if r['profile'] == 'connectx6dx'][0]['vendor_id'] == '0x0002c9'"

run "$simhca" probe --json
fields probe 'profile qp_type request grant max_send_wr errno why'
run "$simhca" probe -p e810 -i 102 --json
json "j['probe'][0]['grant'] is None and j['probe'][0]['errno'] == 'EINVAL' and j['probe'][0]['why'] == 'max_inline_data'"
run "$simhca" probe -p e810 -i 101 --json
json "j['probe'][0]['grant'] == 101 and j['probe'][0]['errno'] is None"

run "$simhca" config --json
fields settings 'variable value default is_set accepted help'

run "$simhca" run -p e810 -- "$simhca" devices --json
fields ports 'device port profile state link_layer lid gids node_guid'
run "$simhca" run -- "$simhca" devices --gids --json
fields gids 'device port index type ndev gid'
run "$simhca" run -- "$simhca" stat --json
json "list(j) == ['fabric', 'devices', 'qps'] and len(j['devices']) == 2 and j['qps'] == []"
json "all(j['devices'][0]['counters'][c] == 0 for c in 'inline_posts push_writes doorbells wqe_fetches payload_reads refusals rnr retries tx_bytes rx_bytes'.split())"
run "$simhca" stat --explain --json
fields counters 'counter folder counts'
run "$simhca" run -- "$simhca" fabrics --json
fields fabrics 'fabric devices nodes state pids segment_B path'
json "j['fabrics'][0]['fabric'] == 'default' and j['fabrics'][0]['devices'] == 2"
run "$simhca" fabrics --json
json "j == {'fabrics': []}"

run "$simhca" run -- "$simhca" doctor --json
fields findings 'level check finding'
json "set(r['level'] for r in j['findings']) <= {'ok', 'note', 'problem'}"

# The counters of a living queue pair.
if command -v ibv_rc_pingpong >/dev/null; then
	run "$simhca" run -p connectx5 -- sh -c '
		ibv_rc_pingpong -g 3 -p 18919 >/dev/null &
		server=$!
		for i in 1 2 3 4 5 6 7 8 9 10; do
			"$0" stat --qp --json >'"$work"'/stat
			grep -q qp_num '"$work"'/stat && break
			sleep 0.2
		done
		kill -9 $server
		cat '"$work/stat" "$simhca"
	json "len(j['qps']) == 1 and j['qps'][0]['qp_type'] == 'RC' and j['qps'][0]['receive_state'] == 'closed' and j['qps'][0]['pid'] > 1"
	json "j['qps'][0]['counters']['recv_posts'] == 500"
else
	skip "no ibv_rc_pingpong"
fi
run "$simhca" sweep
empty_dir
finish
