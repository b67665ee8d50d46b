# SPDX-License-Identifier: BSD-2-Clause
"""One side of a running ib_write_bw is killed at a random moment, again and again in one fabric."""

import os
import random
import signal
import time

from lib import Fabric, Failed, Port, Process, check, counts, listening, run_pair, slow

# No hang over this, from the kill to the end of the other side.
LIMIT_S = 5


def start_pair(fabric, port):
    """Both sides, connected to each other: a server whose client dies before that rightly waits for another."""
    args = ["ib_write_bw", "-p", str(port.number), "-s", "65536", "-D", "20"]
    server = fabric.start(args)
    limit = time.monotonic() + slow(10)
    while not listening(port.number):
        check(server.p.poll() is None and time.monotonic() < limit, "no server: %s" % server.tell())
        time.sleep(0.005)
    client = fabric.start(args + ["127.0.0.1"])
    while listening(port.number):  # it stops with the first client
        check(client.p.poll() is None and time.monotonic() < limit, "no client: %s" % client.tell())
        time.sleep(0.001)
    return server, client


def in_data_phase(fabric, limit_s):
    """Waits until bytes flow."""
    end = time.monotonic() + slow(limit_s)
    last = 0
    while time.monotonic() < end:
        p = Process([fabric.simhca, "stat", "-f", fabric.name, "--json"], fabric.env)
        if p.wait(slow(10)) == 0 and fabric.total("tx_bytes") > last + 10 * 65536:
            return
        time.sleep(0.02)
    raise Failed("no bytes flow")


def one_kill(fabric, rng, number):
    """Half of the kills wait for the data to flow; the others hit at any moment of the setup."""
    port = Port()
    server, client = start_pair(fabric, port)
    flowing = number % 2 == 0
    side = rng.choice(("server", "client"))
    delay = rng.uniform(0, 0.4)
    try:
        if flowing:
            in_data_phase(fabric, 10)
        time.sleep(delay)
        victim, other = (server, client) if side == "server" else (client, server)
        tell = "kill %d: %s after %.3f s%s" % (number, side, delay, " of data" if flowing else "")
        check(victim.p.poll() is None, "%s: already ended: %s" % (tell, victim.tell()))
        victim.p.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        victim.p.wait()
        status = other.wait(slow(LIMIT_S))
        took = time.monotonic() - killed
        check(status != 0, "%s: the other side ended well: %s" % (tell, other.tell()))
        check(status > 0, "%s: the other side crashed: %s" % (tell, other.tell()))
        if flowing and side == "server":
            text = other.out() + other.err()
            check("Completion with error" in text or "Failed status" in text,
                  "%s: no error completion: %s" % (tell, other.tell()))
        print("%s: other side ended after %.2f s with %d" % (tell, took, status))
    finally:
        server.kill()
        client.kill()
        port.close()


def kill(bin_dir, profile):
    seed = int(os.environ.get("SIMHCA_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print("SIMHCA_TEST_SEED=%d" % seed, flush=True)
    rng = random.Random(seed)
    fabric = Fabric(bin_dir, profile)
    for number in range(counts()["kill"]):
        one_kill(fabric, rng, number)
        run_pair(fabric, "ib_write_bw", ["-n", "50", "-s", "4096"])
    fabric.gone()


def last_one_killed(bin_dir, profile):
    """Both sides killed: the next simhca process of the user sweeps what they left."""
    fabric = Fabric(bin_dir, profile)
    port = Port()
    server, client = start_pair(fabric, port)
    try:
        in_data_phase(fabric, 10)
    finally:
        server.kill()
        client.kill()
        port.close()
    other = Fabric(bin_dir, profile)
    check(other.run(["true"])[0] == 0, "a run in another fabric")
    fabric.gone()
    other.gone()


TESTS = {"kill": kill, "last_one_killed": last_one_killed}
