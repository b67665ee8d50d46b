# SPDX-License-Identifier: BSD-2-Clause
"""Stock programs between two processes: the table of cases, two jobs at once."""

import os
import threading

from lib import HERE, Fabric, Failed, check, counts, rate_of, run_pair

# What a tool prints when it had to leave something out; the last one where it does not know the adapter.
COMPLAINTS = ("WARN", "warning", "Unsupported", "not supported", "not recognized")
UNKNOWN = ("generic", "erdma", "rxe")


def cases():
    """[(program, variant, profiles, options, check)]"""
    with open(os.path.join(HERE, "cases.tsv")) as f:
        rows = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    return [(p, v, profiles.split(), options, after) for p, v, profiles, options, after in rows]


def check_counter(fabric, after):
    """`after` is counter>figure or counter=figure, over both devices."""
    name, value = after.replace("=", ">").split(">")
    total = fabric.total(name)
    good = total == int(value) if "=" in after else total > int(value)
    check(good, "%s is %d, expected %s" % (name, total, after))


def refused(fabric, program, args):
    """Both sides must end by themselves because no queue pair is granted."""
    fabric.env["SIMHCA_LOG"] = "1"
    try:
        run_pair(fabric, program, args)
    except Failed as why:
        check("Unable to create QP" in str(why), str(why))
        check("EINVAL" in str(why) and "max_inline_data" in str(why), "not explained: %s" % why)
    else:
        raise Failed("%s %s: was not refused" % (program, " ".join(args)))
    fabric.gone()


def pair(bin_dir, program, variant, profile):
    for p, v, profiles, options, after in cases():
        if (p, v) == (program, variant) and profile in profiles:
            break
    else:
        raise Failed("no row for %s %s %s in cases.tsv" % (program, variant, profile))
    fabric = Fabric(bin_dir, profile)
    args = options.format(**counts()).split()
    if after == "refused":
        refused(fabric, program, args)
        return
    fabric.hold()
    try:
        server, client = run_pair(fabric, program, args, seconds=200 if variant == "all_sizes" else 45)
        text = client.out()
        rate = rate_of(program, text)
        check(rate is not None and rate > 0, "no rate in: %s" % client.tell())
        for said in COMPLAINTS[:-1] if profile in UNKNOWN else COMPLAINTS:
            for side in (client, server):
                check(said not in side.out() + side.err(), "'%s' in: %s" % (said, side.tell()))
        check_counter(fabric, after)
        check(fabric.total("cqes_error") == 0, "there were error completions")
        print("%s %s %s: %g" % (program, variant, profile, rate))
    finally:
        fabric.release()
    fabric.gone()


def two_jobs(bin_dir):
    """Two jobs in two fabrics at the same time: each fabric counts exactly its own bytes."""
    sizes = (4096, 512)
    iters = counts()["pingpong_iters"]
    fabrics = [Fabric(bin_dir, p) for p in ("connectx6dx", "e810")]
    errors = []

    def job(fabric, size):
        try:
            run_pair(fabric, "ibv_rc_pingpong", ["-g", "3", "-s", str(size), "-n", str(iters)])
        except Failed as why:
            errors.append(str(why))

    for f in fabrics:
        f.hold()
    try:
        threads = [threading.Thread(target=job, args=a) for a in zip(fabrics, sizes)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(not errors, "\n".join(errors))
        for f, size in zip(fabrics, sizes):
            sent = f.total("tx_bytes")
            check(sent == 2 * iters * size, "%s sent %d bytes, not %d" % (f.profile, sent, 2 * iters * size))
    finally:
        for f in fabrics:
            f.release()
    for f in fabrics:
        f.gone()


TESTS = {"pair": pair, "two_jobs": two_jobs}
