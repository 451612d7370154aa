"""Ends the command at random moments while it looks, saves, compiles and shares work, and tells what is left.

Nothing may be: no process of its session, no port, no file that is half written, and after one more run that is left
alone no file but those that were asked for. Run by `make kills`, its number by `OPTIONS="--count 20"`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ddp import Solution
from ddp.errors import ProblemError
from problems import ALL

sys.path.insert(0, str(Path(__file__).parents[1] / "viz"))
from listeners import listening, session

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
PROBLEM = "pendulum/swing-up"
WRITTEN = ("--save", "swing.npz", "--html", "swing.html", "--plot", "swing.png")
ACTIVITIES = {
    "viewer": ["view", "saved.npz", "--no-browser"],
    "save": ["solve", PROBLEM, *WRITTEN],
    "compile": ["solve", PROBLEM, *WRITTEN],
    "threads": ["solve", PROBLEM, *WRITTEN, "--workers", "threads:2"],
    "processes": ["solve", PROBLEM, *WRITTEN, "--workers", "processes:2"],
}
ENDS = 20.0
"""Time that a process may take to end once it has been told to [s]."""


def start(activity: str, folder: Path) -> subprocess.Popen[str]:
    """The command at work in a folder, in a session of its own; only "compile" finds an empty cache."""
    environment = dict(os.environ)
    if activity == "compile":
        environment["MAYNE_CACHE_DIR"] = tempfile.mkdtemp(dir=folder.parent)
    return subprocess.Popen(
        [sys.executable, "-m", "problems", *ACTIVITIES[activity]], cwd=folder, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


def duration(activity: str, folder: Path) -> float:
    """Time that an activity takes that is left alone [s]; of the viewer, until a second after it is there."""
    begin = time.monotonic()
    process = start(activity, folder)
    if activity == "viewer":
        for line in process.stderr or ():
            if "http://" in line:
                break
        process.kill()
        process.communicate()
        return time.monotonic() - begin + 1.0
    _, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"{activity}: expected to succeed when it is left alone, got\n{errors}")
    return time.monotonic() - begin


def leftovers(process: subprocess.Popen[str], ports: set[int], folder: Path) -> list[str]:
    """Faults after a process was told to end."""
    try:
        process.communicate(timeout=ENDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return [f"goes on after {ENDS:g} s"]
    limit = time.monotonic() + 5.0  # workers notice that their parent is gone
    while (left := session(process.pid)) and time.monotonic() < limit:
        time.sleep(0.05)
    found = [f"{len(left)} processes left"] if left else []
    heard = {port for file in Path("/proc").glob("[0-9]*") for _, port in ports_of(int(file.name))}
    found += [f"port {port} is still listened to" for port in ports & heard]
    return found + half_written(folder)


def half_written(folder: Path) -> list[str]:
    """The files asked for that are there, but not whole."""
    found = []
    page, plot, saved = folder / "swing.html", folder / "swing.png", folder / "swing.npz"
    if page.exists() and not page.read_text(encoding="utf-8").rstrip().endswith("</html>"):
        found.append("half a page")
    if plot.exists() and not plot.read_bytes().endswith(b"IEND\xaeB`\x82"):
        found.append("half a plot")
    try:
        if saved.exists():
            Solution.load(saved, ALL[PROBLEM]())
    except ProblemError as reason:
        found.append(str(reason))
    return found


def ports_of(process: int) -> set[tuple[str, int]]:
    """Ports that a process listens on; nothing if it has ended, or is not ours."""
    try:
        return listening(process)
    except OSError:
        return set()


def main() -> int:
    """End activities one after another, print a line for each, and return how many left something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-m", "problems", "solve", PROBLEM, "--save", folder / "saved.npz"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        usual = {activity: duration(activity, folder) for activity in ACTIVITIES}
        print(f"{'activity':>10} {'signal':>8} {'at [s]':>7}  what is left", flush=True)
        for k in range(options.count):
            activity, number = list(ACTIVITIES)[k % len(ACTIVITIES)], SIGNALS[k // len(ACTIVITIES) % len(SIGNALS)]
            moment = rng.uniform(0.0, usual[activity])
            process = start(activity, folder)
            time.sleep(moment)
            heard = {where for pid in session(process.pid) for where in ports_of(pid)}
            process.send_signal(number)
            wrong = leftovers(process, {port for _, port in heard}, folder)
            wrong += [f"listened on {address}" for address, _ in heard if address != "127.0.0.1"]
            failures += bool(wrong)
            print(f"{activity:>10} {number.name:>8} {moment:7.2f}  {', '.join(wrong) or '-'}", flush=True)
        duration("save", folder)
        strangers = {file.name for file in folder.iterdir()} - {"saved.npz", *WRITTEN[1::2]}
        print(f"{options.count} ended, {failures} left something; after one more run: {strangers or 'nothing else'}")
    return 1 if failures or strangers else 0


if __name__ == "__main__":
    sys.exit(main())
