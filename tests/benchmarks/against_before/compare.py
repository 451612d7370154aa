"""Compare the working tree with an earlier commit: results, iterations, whole solves, machine code, compile times.

`make bench-before BEFORE=<commit>`; times are of two processes that take turns on one machine, so that ratios hold on a
busy one; counts do not depend on the machine's load at all. The exit status is 1 where a bound is broken.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from probe import NOISE

import problems

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
COLD = ("pendulum/swing-up", "quadruped/trot")
"""Problems whose first solve is timed from an empty cache."""

SLOWEST, MEAN = 1.05, 1.00
"""Bounds of a whole solve's CPU time over that of the commit before: of each, and of the geometric mean."""

ROUNDING = 1e-12
"""Bound of results on random trees, relative to the largest entry of each."""


class Side:
    """A source tree, and a process in it that answers requests."""

    def __init__(self, tree: Path, cache: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree), "MAYNE_CACHE_DIR": str(cache)}
        command = [sys.executable, str(HERE / "probe.py")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=tree
        )
        found = Path(self._answer()["tree"]).parent.parent
        if found != tree:
            raise SystemExit(f"expected the code of {tree}, got that of {found}")

    def __call__(self, **request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a process of the comparison ended with status {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def sides(trees, caches):
    """Both sides, for as long as the block lasts."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(Side(tree, cache))) for tree, cache in zip(trees, caches, strict=True)]


@contextmanager
def closing(side):
    try:
        yield side
    finally:
        side.close()


def golden(trees, caches, folder, count):
    """Largest difference of results on random trees, relative to each array's largest entry; how many are the same."""
    with sides(trees, caches) as both:
        for k, side in enumerate(both):
            side(do="golden", trees=count, file=str(folder / f"golden{k}.npz"))
    before, after = (np.load(folder / f"golden{k}.npz") for k in range(2))
    equal, worst = 0, ("", 0.0)
    for name in before.files:
        old, new = before[name], after[name]
        equal += np.array_equal(old, new)
        difference = float(np.abs(new - old).max() / max(np.abs(old).max(), 1e-300)) if old.size else 0.0
        worst = max(worst, (name, difference), key=lambda pair: pair[1])
    same = f"{equal} of {len(before.files)} arrays equal"
    print(f"results on {count} random trees: {same}, worst {worst[1]:.1e} {worst[0]}")
    return worst[1] <= ROUNDING


def whole_solves(trees, caches, names, rounds, repeat):
    """Iterations and costs of all problems, and their CPU times: the minimum over rounds in which sides take turns."""
    ratios, same = [], True
    print(f"{'problem':26}{'solver':7}{'iterations':>14}{'cost':>14}{'ms before':>11}{'after':>9}{'ratio':>7}")
    with sides(trees, caches) as both:
        for name in names:
            for kind in ("iLQR", "DDP"):
                times, found = [[], []], [None, None]
                for turn in range(rounds):
                    for k in (0, 1) if turn % 2 else (1, 0):
                        found[k] = both[k](do="solve", name=name, kind=kind, repeat=repeat)
                        times[k] += found[k]["cpu"]
                before, after = min(times[0]), min(times[1])
                ratios.append(after / before)
                counts = " -> ".join(dict.fromkeys(str(one["iterations"]) for one in found))
                equal = is_same(*found)
                same = same and equal
                mark = "" if equal else f"  was {found[0]['cost']:.8g}"
                print(
                    f"{name:26}{kind:7}{counts:>14}{found[1]['cost']:14.8g}{1e3 * before:11.2f}{1e3 * after:9.2f}"
                    f"{after / before:7.3f}{mark}", flush=True,
                )  # fmt: skip
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"CPU time of whole solves, after / before: geometric mean {mean:.3f}, largest {max(ratios):.3f}")
    return same and mean <= MEAN and max(ratios) <= SLOWEST


def is_same(before, after):
    """Whether two solves took as many iterations to one cost."""
    close = abs(before["cost"] - after["cost"]) <= 1e-8 * (1.0 + abs(before["cost"]))
    return close and (before["iterations"], before["converged"]) == (after["iterations"], after["converged"])


def random_starts(trees, caches, names, seeds):
    """Outcomes of paired random starts."""
    same = True
    with sides(trees, caches) as both:
        for name in names:
            before, after = (side(do="starts", name=name, seeds=seeds)["rows"] for side in both)
            different = [seed for seed, pair in enumerate(zip(before, after, strict=True)) if not is_same(*pair)]
            same = same and not different
            totals = [sum(row["iterations"] for row in rows) for rows in (before, after)]
            said = f", different from seeds {different}" if different else ""
            print(f"{name:26}{seeds} starts, iterations {totals[0]} -> {totals[1]}{said}", flush=True)
    return same


def machine_code(trees, folder, names):
    """Kernels, their instructions, CPU seconds and memory of a first solve with an empty cache."""
    for name in names:
        found = []
        for k, tree in enumerate(trees):
            with closing(Side(tree, folder / f"cold{k}-{name.replace('/', '-')}")) as side:
                found.append(side(do="compiled", name=name))
        before, after = found
        print(f"{name}, empty cache: CPU {before['cpu']:.1f} -> {after['cpu']:.1f} s, memory"
              f" {before['memory']:.0f} -> {after['memory']:.0f} MB,"
              f" kernels {len(before['kernels'])} -> {len(after['kernels'])}")  # fmt: skip
        for what in ("instructions", "innermost", "fma", "stack"):
            totals = [sum(one[what] for one in side["kernels"].values()) for side in found]
            print(f"    {what:14}{totals[0]:9} -> {totals[1]}")
        both = before["kernels"].keys() & after["kernels"].keys()
        grown = {n: (before["kernels"][n]["innermost"], after["kernels"][n]["innermost"]) for n in both}
        for n, (old, new) in sorted(grown.items()):
            if new > 1.02 * old:
                print(f"    innermost loops grew, {old} -> {new}: {n.partition('(')[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="HEAD", help="commit to compare with (default: HEAD)")
    parser.add_argument("--parts", nargs="+", default=["golden", "solves", "starts", "code"],
                        choices=["golden", "solves", "starts", "code"], help="what to compare")  # fmt: skip
    parser.add_argument("--problems", nargs="+", help="names of problems (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="how often sides take turns at a solve")
    parser.add_argument("--repeat", type=int, default=5, help="solves a turn")
    parser.add_argument("--starts", type=int, default=36, help="random starts of each of seven problems")
    parser.add_argument("--trees", type=int, default=100, help="random trees")
    parser.add_argument("--keep", type=Path, help="folder for the commit's tree and both caches, kept for later runs")
    chosen = parser.parse_args()
    names = chosen.problems or list(problems.ALL)
    good = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        kept = folder if chosen.keep is None else chosen.keep.resolve()
        trees = [checked_out(chosen.before, kept), ROOT]
        caches = [kept / "kernels-before", kept / "kernels-after"]
        if "golden" in chosen.parts:
            good &= golden(trees, caches, folder, chosen.trees)
        if "solves" in chosen.parts:
            good &= whole_solves(trees, caches, names, chosen.rounds, chosen.repeat)
        if "starts" in chosen.parts:
            good &= random_starts(trees, caches, [name for name in names if name in NOISE], chosen.starts)
        if "code" in chosen.parts:
            machine_code(trees, folder, [name for name in COLD if name in names])
    raise SystemExit(not good)


def checked_out(commit, folder):
    """The files of a commit, in a folder of their own."""
    name = subprocess.check_output(["git", "rev-parse", commit], text=True, cwd=ROOT).strip()
    tree = folder / name
    if not tree.exists():
        tree.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", name], check=True, capture_output=True, cwd=ROOT).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], check=True, input=archive)
    return tree


if __name__ == "__main__":
    main()
