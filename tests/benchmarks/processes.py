"""Time and memory of this process and of those that it has started, as Linux tells them."""

import contextlib
import os
import resource
import time
from pathlib import Path

import numpy as np


def cpu():
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(call):
    """A result, with CPU and wall seconds."""
    begin, wall = cpu(), time.perf_counter()
    result = call()
    return result, cpu() - begin, time.perf_counter() - wall


def spent():
    """CPU seconds of this process, of those that it has started, and of those that have ended."""
    ticks, total = os.sysconf("SC_CLK_TCK"), cpu()
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(fields[k]) for k in (11, 12, 13, 14)) / ticks
    return total


def descendants(root):
    """Processes that a process has started, and those that these have."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def session(leader):
    """Processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def resident(pid):
    """Memory of a process [MB]."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    return 0.0


def workers_of(root):
    """Processes of multiprocessing that a process has started, once they run a program of their own: until then what
    they hold is their parent's."""
    found = []
    for pid in descendants(root):
        with contextlib.suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def rolled(pid):
    """Memory of a process [MB]: resident, its share where others have the same libraries, and what it has alone."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {line.split(":")[0]: int(line.split()[1]) / 1e3 for line in lines}
    return np.array([found["Rss"], found["Pss"], found["Private_Clean"] + found["Private_Dirty"]])
