# SPDX-License-Identifier: BSD-2-Clause
"""Where programs run: as an ordinary user without capabilities, in a read-only container-like root."""

import os
import shutil
import subprocess
import sys
import tempfile

from lib import Fabric, Skipped, check, run_pair

# Makes every mount read-only but the folder $1, then becomes nobody without capabilities and with 64 KiB of locked
# memory, and runs the rest.
SCRIPT = r"""
set -e
writable=$1
shift
mount --make-rprivate /
mount -t tmpfs -o mode=1777,size=256m tmpfs "$writable"
while read -r _ _ _ _ at options _; do
	case $at in
	"$writable"|/proc|/proc/*|/sys|/sys/*|/dev/pts) continue;;
	esac
	case ,$options, in
	*,ro,*) ;;
	*) mount -o remount,bind,ro "$at";;
	esac
done </proc/self/mountinfo
export SIMHCA_DIR=$writable TMPDIR=$writable HOME=$writable
cd "$writable"
exec prlimit --memlock=65536:65536 $DROP "$@"
"""

DROP_ROOT = "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
DROP_USER = "setpriv --no-new-privs --bounding-set=-all --inh-caps=-all"


def no_privileges(bin_dir):
    if os.getuid() == 0:
        unshare, drop = ["unshare", "-m"], DROP_ROOT
    else:
        unshare, drop = ["unshare", "-Urm"], DROP_USER
    if subprocess.run(unshare + ["true"], stderr=subprocess.DEVNULL).returncode:
        raise Skipped("this machine lets us have no mount namespace (%s)" % " ".join(unshare))
    writable = tempfile.mkdtemp(prefix="simhca-ro-", dir="/tmp")
    try:
        argv = unshare + ["sh", "-c", SCRIPT, "sh", writable, sys.argv[0], bin_dir, "no_privileges_inside"]
        run = subprocess.run(argv, env=dict(os.environ, DROP=drop), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(run.stdout.decode(errors="replace"), end="")
        check(run.returncode == 0, "inside: exit %d" % run.returncode)
    finally:
        shutil.rmtree(writable)


def status_field(name):
    with open("/proc/self/status") as f:
        return [line.split()[1] for line in f if line.startswith(name + ":")][0]


def no_privileges_inside(bin_dir):
    """Runs as nobody, from no_privileges."""
    check(int(status_field("CapEff"), 16) == 0 and int(status_field("CapBnd"), 16) == 0, "capabilities are left")
    check(os.access("/dev/shm", os.W_OK) is False, "/dev/shm can be written")
    check(not os.path.exists("/sys/class/infiniband"), "this kernel has InfiniBand")
    check(not os.path.exists("/dev/infiniband"), "there are device nodes")
    for profile in ("connectx6dx", "e810", "erdma"):
        gid = "0" if profile == "erdma" else "3"
        fabric = Fabric(bin_dir, profile)
        for args in (["ibv_devices"], ["ibv_devinfo", "-v"]):
            status, out, err = fabric.run(args)
            check(status == 0 and "simhca0" in out, "%s: exit %d\n%s%s" % (args[0], status, out, err))
        run_pair(fabric, "ibv_rc_pingpong", ["-g", gid])
        for program in ("ib_send_lat", "ib_write_lat", "ib_write_bw", "ib_read_bw"):
            # By itself the tool asks for more inline data than an E810 has.
            inline = ["-I", "64"] if profile == "e810" and program in ("ib_send_lat", "ib_write_lat") else []
            run_pair(fabric, program, ["-n", "200"] + inline)
            print("%s on %s: uid %d, no capabilities" % (program, profile, os.getuid()))
        fabric.gone()
    left = [name for name in os.listdir(os.environ["SIMHCA_DIR"]) if not name.startswith("simhca-test-ports")]
    check(not left, "left behind: %s" % left)


def ordinary_user(bin_dir):
    """The same user with an ordinary root, in the default folder."""
    if os.getuid() != 0:
        raise Skipped("already an ordinary user; every other test is this one")
    argv = DROP_ROOT.split() + [sys.argv[0], bin_dir, "ordinary_user_inside"]
    run = subprocess.run(["prlimit", "--memlock=65536:65536"] + argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(run.stdout.decode(errors="replace"), end="")
    check(run.returncode == 0, "inside: exit %d" % run.returncode)


def ordinary_user_inside(bin_dir):
    fabric = Fabric(bin_dir, "connectx6dx")
    run_pair(fabric, "ibv_rc_pingpong", ["-g", "3", "-c"])
    run_pair(fabric, "ib_write_bw", ["-n", "200", "-s", "1048576"])
    fabric.gone()


TESTS = {
    "no_privileges": no_privileges,
    "no_privileges_inside": no_privileges_inside,
    "ordinary_user": ordinary_user,
    "ordinary_user_inside": ordinary_user_inside,
}
