"""Kills at random moments: of processes that compile and save, and of those that solve with threads and processes."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from fresh import ROOT, Fresh

from ddp import archive
from ddp.compiling import store

SIGNS = signal.SIGKILL, signal.SIGTERM, signal.SIGINT

KERNELS = """
from ddp.compiling.kernel import kernel
@kernel
def inner(x):
    return {0}.0 * x[1]
@kernel
def asked(x):
    return inner(x) + x[2]
"""

WRITING = """
from ddp import archive, files
for n in range(10_000):
    files.write_atomically({page!r}, "begin" + str(n % 10) * 1_000_000 + "end")
    archive.write({path!r}, {{"X": np.full((500, 40), float(n)), "n": np.array(n)}})
"""

SOLVING = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored
sys.path[:0] = {paths!r}
import ddp
from systems import user_pendulum
if __name__ == "__main__":
    problem = user_pendulum()
    print("solving", flush=True)
    while True:
        ddp.solve(problem, workers={workers!r}, throw=False)
"""


def compile_and_save(fresh: Fresh, folder: Path, count: int, seed: int) -> None:
    """Kill processes at ``count`` moments; what is left is whole, and serves whoever comes next."""
    rng = random.Random(seed)
    page, path = folder / "page.html", folder / "solution.npz"
    for number in range(count):
        (folder / "asking.py").write_text(KERNELS.format(number))
        writing = WRITING.format(page=str(page), path=str(path))
        ask = "import asking\nprint(asking.asked(np.arange(3.0)), flush=True)\n"
        parts = [ask, writing] if number % 2 else [writing.replace("10_000", "2"), ask, writing]
        process, output = fresh.begin(folder, "".join(parts))
        time.sleep(rng.uniform(0.0, 0.7))
        os.kill(process, SIGNS[number % 3])
        while _is_alive(process):
            time.sleep(0.005)
        if page.exists():
            text = page.read_text()
            assert (text[:5], len(set(text[5:-3])), text[-3:]) == ("begin", 1, "end")
        if path.exists():
            content = archive.read(path, {"X": "f2", "n": "i0"})
            assert (content["X"] == content["n"]).all()
        for kept in (folder / "cache").rglob(f"*{store.SUFFIX}"):
            raw = kept.read_bytes()
            body = raw[len(store.MARK) + 32 :]
            assert raw.startswith(store.MARK + hashlib.sha256(body).digest())
        assert fresh.run(folder, ask)[0] == [str(number + 2.0)]
        assert fresh.run(folder, ask) == ([str(number + 2.0)], [])
        archive.write(path, {"X": np.zeros((500, 40)), "n": np.array(0)})
        assert not list(folder.rglob("*.part"))
        output.unlink()


def solve_in_parallel(folder: Path, count: int, seed: int) -> None:
    """Kill solves at ``count`` moments; no process of theirs lives on, and no memory."""
    rng = random.Random(seed)
    script = folder / "solving.py"
    before = _shared_memory()
    for number in range(count):
        workers = "processes:2" if number % 2 else "threads:2"
        script.write_text(SOLVING.format(paths=[str(ROOT), str(ROOT / "tests" / "ddp")], workers=workers))
        solving = subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert solving.stdout is not None
        if rng.random() < 0.8:
            assert solving.stdout.readline() == "solving\n"
        time.sleep(rng.uniform(0.0, 6.0))
        solving.send_signal(SIGNS[number % 3])
        solving.communicate(timeout=60.0)
        until = time.monotonic() + 30.0
        while _session(solving.pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert _session(solving.pid) == []
    assert _shared_memory() <= before


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _session(leader: int) -> list[int]:
    """The processes that a solve has started, and that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(session) == leader and state != "Z":
                found.append(int(entry.name))
    return found


def _shared_memory() -> set[str]:
    return {entry.name for entry in Path("/dev/shm").glob("*") if entry.name.startswith(("pym-", "psm_", "sem.mp-"))}
