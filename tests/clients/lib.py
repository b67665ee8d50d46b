# SPDX-License-Identifier: BSD-2-Clause
"""What the client tests share: a fabric of their own, processes with a deadline, ports, counts, failing."""

import fcntl
import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
FIRST_PORT, PORTS = 21000, 8000


class Failed(Exception):
    """The test failed, with what to tell."""


class Skipped(Exception):
    """The test cannot run here, with the reason."""


def check(cond, what):
    if not cond:
        raise Failed(what)


def slow(seconds):
    """A time limit, stretched where a sanitizer slows programs down."""
    return seconds * max(1, int(os.environ.get("SIMHCA_TEST_SLOW", "1")))


def counts():
    """{name: count} of tests/counts.tsv at the level of this run."""
    column = 2 if os.environ.get("SIMHCA_TEST_LEVEL") == "full" else 1
    rows = {}
    with open(os.path.join(HERE, "..", "counts.tsv")) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                fields = line.split()
                rows[fields[0]] = int(fields[column])
    return rows


def sockets(port, state=None):
    """Is there a TCP socket with this local port (in this state)? Looked up: a try would be somebody's connection."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as f:
                for line in f.readlines()[1:]:
                    fields = line.split()
                    if int(fields[1].rsplit(":", 1)[1], 16) == port and state in (None, fields[3]):
                        return True
        except FileNotFoundError:
            pass
    return False


def listening(port):
    return sockets(port, "0A")


class Port:
    """A free TCP port below the ephemeral range, held by a lock file against the other tests. None is used twice by a
    process: what is left of a connection keeps its port busy for a while."""

    used = set()

    def __init__(self):
        folder = os.path.join(tempfile.gettempdir(), "simhca-test-ports-%d" % os.getuid())
        os.makedirs(folder, exist_ok=True)
        start = random.randrange(PORTS)
        for i in range(PORTS):
            port = FIRST_PORT + (start + i) % PORTS
            if port in Port.used or sockets(port):
                continue
            fd = os.open(os.path.join(folder, str(port)), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                continue
            self.fd, self.number = fd, port
            Port.used.add(port)
            return
        raise Failed("no free port")

    def close(self):
        os.close(self.fd)


class Process:
    """A program that runs, its output kept."""

    def __init__(self, argv, env=None, stdin=subprocess.DEVNULL, cwd=None):
        self.argv = argv
        self.output = tempfile.TemporaryFile()
        self.errors = tempfile.TemporaryFile()
        self.p = subprocess.Popen(argv, stdin=stdin, stdout=self.output, stderr=self.errors, env=env, cwd=cwd)

    def wait(self, seconds):
        """Exit status; a process that does not end is killed and fails the test."""
        try:
            return self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed("still running after %g s: %s" % (seconds, self.tell()))

    def kill(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGKILL)
            self.p.wait()

    def read(self, f):
        f.seek(0)
        return f.read().decode(errors="replace")

    def out(self):
        return self.read(self.output)

    def err(self):
        return self.read(self.errors)

    def tell(self):
        return "%s\nexit %s\n%s%s" % (" ".join(self.argv), self.p.poll(), self.out(), self.err())


class Fabric:
    """A fabric of its own for one test."""

    serial = 0

    def __init__(self, bin_dir, profile, env=None, base=None):
        Fabric.serial += 1
        self.simhca = os.path.join(bin_dir, "simhca")
        self.profile = profile
        self.name = "c-%d-%d" % (os.getpid(), Fabric.serial)
        self.env = dict(os.environ, **(env or {}))
        self.env["PATH"] += ":/usr/sbin"  # an ordinary user's path lacks it, and ibstat is there
        self.base = base or self.env.get("SIMHCA_DIR", "/dev/shm")
        self.holder = None

    def argv(self, args):
        return [self.simhca, "run", "-p", self.profile, "-f", self.name, "--"] + args

    def start(self, args, **more):
        return Process(self.argv(args), self.env, **more)

    def run(self, args, seconds=20):
        """Runs to the end; (status, stdout, stderr)."""
        p = self.start(args)
        status = p.wait(slow(seconds))
        return status, p.out(), p.err()

    def hold(self):
        """Keeps the fabric until release(), so that its counters can be read after the programs."""
        self.holder = subprocess.Popen(self.argv(["cat"]), stdin=subprocess.PIPE, env=self.env)
        limit = time.monotonic() + slow(10)
        while not self.folders():
            check(time.monotonic() < limit and self.holder.poll() is None, "the fabric does not come up")
            time.sleep(0.01)

    def release(self):
        if self.holder:
            self.holder.stdin.close()
            check(self.holder.wait(slow(10)) == 0, "the process that held the fabric ended badly")
            self.holder = None

    def stat(self):
        """{device: {counter: value}}"""
        p = Process([self.simhca, "stat", "-f", self.name, "--json"], self.env)
        check(p.wait(slow(10)) == 0, p.tell())
        return {d["device"]: d["counters"] for d in json.loads(p.out())["devices"]}

    def total(self, counter):
        return sum(c[counter] for c in self.stat().values())

    def folders(self):
        return glob.glob(os.path.join(self.base, "simhca-*-%s*" % self.name))

    def gone(self):
        """Nothing of it may be left."""
        limit = time.monotonic() + slow(3)
        while self.folders():
            check(time.monotonic() < limit, "left behind: %s" % ", ".join(self.folders()))
            time.sleep(0.02)


def run_pair(fabric, program, options, seconds=45):
    """Server and client of a program on loopback; both must end well. Gives the two processes."""
    port = Port()
    server = client = None
    limit = time.monotonic() + slow(seconds)
    try:
        server = fabric.start([program, "-p", str(port.number)] + options)
        while not listening(port.number):
            check(server.p.poll() is None, "the server ended: %s" % server.tell())
            check(time.monotonic() < limit, "the server does not listen: %s" % server.tell())
            time.sleep(0.01)
        client = fabric.start([program, "-p", str(port.number)] + options + ["127.0.0.1"])
        while client.p.poll() is None or server.p.poll() is None:
            for one, other in ((client, server), (server, client)):
                if one.p.poll() not in (None, 0):
                    time.sleep(0.5)
                    raise Failed("%s\n--- other side:\n%s" % (one.tell(), other.tell()))
            check(time.monotonic() < limit, "no end:\n%s\n--- other side:\n%s" % (client.tell(), server.tell()))
            time.sleep(0.01)
        for one, other in ((client, server), (server, client)):
            check(one.p.poll() == 0, "%s\n--- other side:\n%s" % (one.tell(), other.tell()))
        return server, client
    finally:
        for p in (server, client):
            if p:
                p.kill()
        port.close()


def rate_of(program, text):
    """The figure a program ends with, the largest of its sizes: us (typical), MB/s; None if there is none."""
    if program.startswith("ibv_"):
        for line in text.splitlines():
            if "usec/iter" in line:
                return float(line.split("=")[1].split()[0])
        return None
    rows = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[0].isdigit() and fields[1].isdigit():
            rows.append(float(fields[4 if program.endswith("_lat") and len(fields) > 4 else 3]))
    return max(rows) if rows else None


def main(tests):
    """Runs the test named on the command line."""
    sys.argv[0:2] = [os.path.abspath(path) for path in sys.argv[0:2]]
    try:
        tests[sys.argv[2]](sys.argv[1], *sys.argv[3:])
    except Skipped as why:
        print("skipped: %s" % why)
        sys.exit(SKIPPED)
    except Failed as why:
        print("FAILED: %s" % why, file=sys.stderr)
        sys.exit(1)
