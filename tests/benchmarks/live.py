"""Cost of a live page for a solver: CPU time of a solve with the page read all the time, over that without one.

`python tests/benchmarks/live.py [NAME ...]`; solves alternate, the least and the median of each are compared.
"""

import argparse
import json
import statistics
import threading
import time
import urllib.request

import problems
import viz
from ddp.options import DDP
from ddp.solver import solve


def read(live, ended):
    """Ask as a page does, until the end."""
    since = 0
    origin = "/".join(live.where.split("/")[:3])
    while not ended.is_set():
        asked = urllib.request.Request(live.where, json.dumps({"since": since}).encode(), {"Origin": origin})
        answer = json.loads(urllib.request.urlopen(asked).read())
        since = answer.get("since", 0) if "since" in answer else 0
        ended.wait(answer["wait"])


def measure(name, repeats):
    """CPU times [s] of solves without and with a page."""
    problem = problems.find(name)()
    solver = DDP()
    solve(problem, solver, throw=False)
    live, ended = viz.Live(problem), threading.Event()
    reader = threading.Thread(target=read, args=(live, ended), daemon=True)
    reader.start()
    times = {"alone": [], "live": []}
    for _ in range(repeats):
        for kind in times:
            begun = time.process_time()
            solve(problem, solver, throw=False, callback=live if kind == "live" else None)
            times[kind].append(time.process_time() - begun)
    ended.set()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["pendulum/swing-up", "arm/reach", "quadruped/trot"])
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    for name in options.names:
        times = measure(name, options.repeats)
        least, middle = (f(times["live"]) / f(times["alone"]) for f in (min, statistics.median))
        alone = 1e3 * statistics.median(times["alone"])
        print(f"{name:24} {alone:7.1f} ms alone; live {least:.3f} (least), {middle:.3f} (median) of it", flush=True)


if __name__ == "__main__":
    main()
