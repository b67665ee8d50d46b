# SPDX-License-Identifier: BSD-2-Clause
"""Programs that need no partner: listings, and what they say when there is nothing to list."""

import re

from lib import Fabric, Failed, check

VENDORS = {
    "generic": (0, None),
    "connectx6dx": (0x02C9, 0x101D),
    "connectx5": (0x02C9, 0x1017),
    "e810": (0x8086, None),
    "x722": (0x8086, None),
    "erdma": (0x1DED, 0x107F),
    "rxe": (None, 0),
}


def good(fabric, args):
    status, out, err = fabric.run(args)
    check(status == 0, "%s: exit %d\n%s%s" % (" ".join(args), status, out, err))
    return out


def devices(bin_dir, profile):
    fabric = Fabric(bin_dir, profile)
    out = good(fabric, ["ibv_devices"])
    for name in ("simhca0", "simhca1"):
        row = re.search(r"^\s+%s\s+([0-9a-f]{16})$" % name, out, re.M)
        check(row and int(row.group(1), 16), "no %s with a GUID in:\n%s" % (name, out))
    fabric.gone()


def field(out, name):
    row = re.search(r"^\s*%s:\s+(.*)$" % name, out, re.M)
    if not row:
        raise Failed("no %s in:\n%s" % (name, out))
    return row.group(1).strip()


def devinfo(bin_dir, profile):
    fabric = Fabric(bin_dir, profile)
    out = good(fabric, ["ibv_devinfo", "-v"])
    vendor, part = VENDORS[profile]
    check("PORT_ACTIVE" in field(out, "state"), out)
    check(field(out, "link_layer") == "Ethernet", out)
    if vendor is not None:
        check(int(field(out, "vendor_id"), 16) == vendor, out)
    if part is not None:
        check(int(field(out, "vendor_part_id")) == part, out)
    gids = re.findall(r"GID\[\s*\d+\]:\s+([0-9a-f:.]+)", out)
    check(any(re.search("[1-9a-f]", g) for g in gids), "no non-zero GID in:\n%s" % out)
    fabric.gone()


def ibstat(bin_dir, profile):
    fabric = Fabric(bin_dir, profile)
    out = good(fabric, ["ibstat"])
    check("CA 'simhca0'" in out and "CA 'simhca1'" in out, out)
    check("State: Active" in out, out)
    check("Link layer: Ethernet" in out, out)
    check(good(fabric, ["ibstat", "-l"]).split() == ["simhca0", "simhca1"], "ibstat -l")
    fabric.gone()


def switched_off(bin_dir):
    """With the emulator off the stock answers come, whatever they are without it."""
    fabric = Fabric(bin_dir, "generic", env={"SIMHCA_ENABLE": "0"})
    status, out, err = fabric.run(["ibv_devinfo"])
    check("No IB devices found" in out + err and status != 0, "exit %d\n%s%s" % (status, out, err))
    status, out, err = fabric.run(["ibv_devices"])
    check("simhca0" not in out, out)
    fabric.gone()


def exit_code(bin_dir):
    """The program's exit status and signals pass through."""
    fabric = Fabric(bin_dir, "generic")
    for want in (0, 1, 42):
        status = fabric.run(["sh", "-c", "exit %d" % want])[0]
        check(status == want, "exit %d became %d" % (want, status))
    check(fabric.run(["sh", "-c", "kill -9 $$"])[0] in (-9, 137), "SIGKILL did not pass through")
    fabric.run(["true"])
    fabric.gone()


TESTS = {
    "devices": devices,
    "devinfo": devinfo,
    "ibstat": ibstat,
    "switched_off": switched_off,
    "exit_code": exit_code,
}
