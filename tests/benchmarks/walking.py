"""Gaits by commands in MuJoCo's contacts: plans made again at 50 Hz that act 20 ms after their measurements.

`make bench-walk OPTIONS="--robots go2 --conditions pushed"`. 10 s each; the command changes three times, the base is
pushed six times, in all directions, speeds in proportion to √(g h). Times are those of the processor, of the solves and
of all else that plans take, policies among it.
"""

import argparse
import logging
import time

import numpy as np

import problems
from ddp.successive import Successive

ROBOTS = ["go2", "anymal", "solo12", "hyq"]

CONDITIONS = {
    "calm": {"push": 0.0}, "pushed": {}, "0.5 m/s": {"push": 0.5}, "40 ms": {"latency": 0.04},
    "mass 1.1": {"mass": 1.1}, "mu .5": {"friction": 0.5}, "noise": {"noise": 1.0}, "2 ms late": {"delay": 0.002},
    "all": {"mass": 1.1, "friction": 0.5, "noise": 1.0, "delay": 0.002},
}  # fmt: skip
"""Pushes of 0.3 m/s and latency of 20 ms, where nothing else is said; "all" at once."""

TIMES = 1.5, 3.0, 4.2, 5.5, 7.0, 8.5
DIRECTIONS = (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (0.7, 0.7), (-0.7, 0.7)
COMMANDS = {0.0: (0.0, 0.0, 0.0), 1.0: (0.3, 0.0, 0.0), 3.0: (0.5, 0.0, 0.0), 6.0: (0.2, 0.1, 0.3)}
"""Pushes and commands, of a robot whose centre of mass is at 0.3 m."""


class Timed:
    """Processor time of solves and of plans [ms]."""

    def __init__(self):
        self.solves, self.plans, self._solving = [], [], 0.0
        self._solve, self._plan = Successive.solve, problems.Walking.plan

    def __enter__(self):
        def solve(successive, *args):
            start = time.thread_time()
            found = self._solve(successive, *args)
            self._solving += 1e3 * (time.thread_time() - start)
            return found

        def plan(walking, *args):
            self._solving, start = 0.0, time.thread_time()
            found = self._plan(walking, *args)
            self.plans.append(1e3 * (time.thread_time() - start))
            self.solves.append(self._solving)
            return found

        Successive.solve, problems.Walking.plan = solve, plan
        return self

    def __exit__(self, *exception):
        Successive.solve, problems.Walking.plan = self._solve, self._plan


def walked(robot, gait, seconds, latency=0.02, push=0.3, **conditions):
    """One run, with the largest tilt [deg], the largest error of mean speeds, and times [ms]."""
    with problems.Walking(robot, gait, latency) as walking:
        stance = walking.windows.cycle.stance
        unit = np.sqrt(stance.gravity * stance.height / (9.81 * 0.3))
        pushes = {t: push * unit * np.array(way) for t, way in zip(TIMES, DIRECTIONS, strict=True)}
        command = {t: (unit * v, unit * w, turning) for t, (v, w, turning) in COMMANDS.items()}
        with Timed() as timed:
            run = problems.simulate_receding(walking, seconds, command, pushes=pushes, **conditions)
    x, y = run.play.X[:, 3:5].T
    tilt = np.degrees(np.arccos(np.clip(1.0 - 2.0 * (x**2 + y**2), -1.0, 1.0))).max()
    off = max((np.abs(mean - wish)[:2].max() for wish, mean in run.steady()), default=np.nan)
    solves, plans = np.array(timed.solves[1:]), np.array(timed.plans[1:])
    return run, tilt, off, solves, plans - solves


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", nargs="+", default=ROBOTS)
    parser.add_argument("--gait", default="trot")
    parser.add_argument("--conditions", nargs="+", default=list(CONDITIONS))
    parser.add_argument("--seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    logging.getLogger("mayne").setLevel(logging.ERROR)
    print(f"{'':18s}    ends  tilt  speed   solve [ms]     else [ms]")
    print(f"{'':18s}     [s] [deg]  [m/s]  median   p95  median   p95")
    fell = 0
    for robot in chosen.robots:
        for name in chosen.conditions:
            run, tilt, off, *times = walked(robot, chosen.gait, chosen.seconds, **CONDITIONS[name])
            spread = " ".join(f"{value:6.1f}" for part in times for value in np.percentile(part, [50, 95]))
            end = f"{run.play.t[-1]:5.2f}" if run.fell else "   up"
            print(f"{robot:8s} {name:10s}  {end} {tilt:5.1f}  {off:5.3f}  {spread}", flush=True)
            fell += run.fell
    print(f"{fell} of {len(chosen.robots) * len(chosen.conditions)} fall")


if __name__ == "__main__":
    main()
