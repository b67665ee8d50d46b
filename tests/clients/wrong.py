# SPDX-License-Identifier: BSD-2-Clause
"""Wrong set-ups: one clear line each, a status that is not 0, no crash."""

import os
import shutil
import subprocess
import sys
import tempfile

from lib import Fabric, Skipped, check


def one_line(what, status, err, *words):
    """A refusal: positive exit status, one line on stderr with these words."""
    check(status > 0, "%s: exit %d, stderr: %s" % (what, status, err))
    lines = [line for line in err.splitlines() if line.strip()]
    check(len(lines) == 1, "%s: not one line but %d: %s" % (what, len(lines), err))
    for word in words:
        check(word in lines[0], "%s: no '%s' in: %s" % (what, word, lines[0]))


def full_folder(bin_dir):
    """A folder for the fabrics without room: refused at once, and never a SIGBUS later."""
    unshare = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-Urm"]
    if subprocess.run(unshare + ["true"], stderr=subprocess.DEVNULL).returncode:
        raise Skipped("this machine lets us have no mount namespace (%s)" % " ".join(unshare))
    folder = tempfile.mkdtemp(prefix="simhca-full-", dir="/tmp")
    script = 'mount --make-rprivate / && mount -t tmpfs -o size=64k tmpfs "$1" && shift && exec "$@"'
    try:
        argv = unshare + ["sh", "-c", script, "sh", folder, sys.argv[0], bin_dir, "full_folder_inside", folder]
        run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(run.stdout.decode(errors="replace"), end="")
        check(run.returncode == 0, "inside: exit %d" % run.returncode)
    finally:
        shutil.rmtree(folder)


def full_folder_inside(bin_dir, folder):
    fabric = Fabric(bin_dir, "generic", env={"SIMHCA_DIR": folder})
    status, _, err = fabric.run(["ibv_devices"])
    one_line("full folder", status, err, folder)
    check("space" in err or "ENOSPC" in err, err)
    check(not fabric.folders(), "left behind: %s" % fabric.folders())


def no_folder(bin_dir):
    fabric = Fabric(bin_dir, "generic", env={"SIMHCA_DIR": "/nonexistent/folder"})
    status, _, err = fabric.run(["ibv_devices"])
    one_line("no folder", status, err, "/nonexistent/folder")


def unwritable_folder(bin_dir):
    if os.getuid() == 0:
        raise Skipped("root may write everywhere")
    fabric = Fabric(bin_dir, "generic", env={"SIMHCA_DIR": "/proc"})
    status, _, err = fabric.run(["ibv_devices"])
    one_line("unwritable folder", status, err, "/proc")


def damaged_segment(bin_dir):
    """A fabric whose shared segment is cut short or overwritten is refused, never trusted."""
    for damage in ("cut", "zero"):
        fabric = Fabric(bin_dir, "generic")
        fabric.hold()
        try:
            segment = os.path.join(fabric.folders()[0], "segment")
            size = os.path.getsize(segment)
            keep = size // 2
            with open(segment, "r+b") as f:
                if damage == "cut":
                    f.truncate(keep)
                else:
                    f.write(b"\0" * 4096)
            status, out, err = fabric.run(["ibv_devices"])
            check(status >= 0, "%s: crashed with %d\n%s%s" % (damage, status, out, err))
            check(status > 0 or "simhca" in err, "%s: nothing said, exit %d\n%s" % (damage, status, out))
        finally:
            fabric.release()
        for left in fabric.folders():
            shutil.rmtree(left)


def missing_provider(bin_dir):
    """The command without its libraries: never a silent list of no devices."""
    with tempfile.TemporaryDirectory(prefix="simhca-bare-") as folder:
        os.mkdir(os.path.join(folder, "bin"))
        shutil.copy(os.path.join(bin_dir, "simhca"), os.path.join(folder, "bin"))
        fabric = Fabric(os.path.join(folder, "bin"), "generic")
        status, _, err = fabric.run(["ibv_devices"])
        one_line("no provider", status, err, "libsimhca")
        fabric.gone()


def other_release(bin_dir, driver, built_for):
    """A provider made for another release is refused when it is loaded, with one line that says so."""
    fabric = Fabric(bin_dir, "generic")
    for program in ("ibv_devinfo", "ibv_rc_pingpong"):
        status, out, err = fabric.run(["env", "RDMAV_DRIVERS=" + driver, program])
        check(status > 0, "%s: exit %d\n%s%s" % (program, status, out, err))
        lines = [line for line in err.splitlines() if line.startswith("simhca")]
        check(len(lines) == 1, "%s: not one line of ours: %s" % (program, err))
        check(built_for in lines[0], "%s is not named: %s" % (built_for, lines[0]))
        print("%s: %s" % (program, lines[0]))
    fabric.gone()


TESTS = {
    "full_folder": full_folder,
    "full_folder_inside": full_folder_inside,
    "no_folder": no_folder,
    "unwritable_folder": unwritable_folder,
    "damaged_segment": damaged_segment,
    "missing_provider": missing_provider,
    "other_release": other_release,
}
