"""Policies of gaits in MuJoCo's contacts: base errors under pushes, other masses, friction, delays and noise.

`make bench-policy OPTIONS="--gaits go2:trot --policies tracking pd"`. Each number is the rms of the base's position
error [cm]; 1 kHz, torques within the robots' limits, delays that no policy is told of. With `--uneven` over ground that
is lower or higher than planned, or both at random (five times), by up to 0.08 of the robot's height.
"""

import argparse
import logging
import time

import numpy as np

import ddp
import problems
from problems import gaits

GAITS = [
    "anymal:jump", "anymal:trot", "anymal:walk", "b1:bound", "b1:trot", "go2:bound", "go2:jump", "go2:stand",
    "go2:trot", "go2:walk", "hyq:jump", "hyq:trot", "hyq:walk", "solo12:bound", "solo12:trot", "talos:step",
    "anymal:bound", "hyq:bound",
]  # fmt: skip

BARS = {
    "go2:trot": 0.15, "anymal:trot": 0.15, "solo12:trot": 0.12, "hyq:walk": 0.3, "anymal:jump": 0.35, "hyq:jump": 0.8,
    "b1:bound": 1.0, "talos:step": 0.2,
}  # fmt: skip
"""Errors without disturbance, at most [cm]."""

CONDITIONS = {
    "calm": {}, "side": {"push": 0.3}, "front": {"push": (0.3, 0.0)}, "mass": {"mass": 1.1}, "mu .5": {"friction": 0.5},
    "2 ms": {"delay": 0.002}, "5 ms": {"delay": 0.005}, "noise": {"noise": 1.0}, "stiff": {"softness": 0.006},
    "soft": {"softness": 0.04},
}  # fmt: skip

UNEVEN = {"lower": ((-0.08, -0.08), 1), "higher": ((0.08, 0.08), 1), "both": ((-0.08, 0.08), 5)}
"""Lowest and highest ground in units of the robot's height, and how often it is drawn."""


def error(*runs):
    """Root mean square of runs [cm], infinite where one falls."""
    return np.inf if any(run.fell for run in runs) else 100.0 * np.sqrt(np.mean([run.rms**2 for run in runs]))


def played(solution, policy):
    """Errors under all conditions."""
    conditions = CONDITIONS.values()
    return np.array([error(problems.simulate(solution, policy=policy, **condition)) for condition in conditions])


def played_over_ground(solution, policy):
    """Errors on all grounds."""
    height, found = solution.problem.dynamics.tracked.units(solution.X).height, []
    for limits, times in UNEVEN.values():
        uneven = height * np.array(limits)
        found.append(error(*(problems.simulate(solution, policy=policy, uneven=uneven, seed=k) for k in range(times))))
    return np.array(found)


def row(name, policy, errors):
    cells = " ".join("  falls" if np.isinf(error) else f"{error:7.2f}" for error in errors)
    print(f"{name:14s} {policy:9s} {cells}", flush=True)


def call_times(solution):
    """Microseconds of a call of the policy from Python, and of its C function, the least of several."""
    import ctypes

    policy, x, u, t = solution.policy, solution.X[5].copy(), np.zeros(solution.problem.dynamics.nu), np.array([0.05])
    function, context, _ = policy.compiled()
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(function)
    arguments = context, t.ctypes.data, x.ctypes.data, u.ctypes.data

    def least(action, count=2000):
        found = []
        for _ in range(20):
            start = time.process_time()
            for _ in range(count):
                action()
            found.append((time.process_time() - start) / count)
        return 1e6 * min(found)

    return least(lambda: policy(0.05, x)), least(lambda: call(*arguments))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gaits", nargs="+", default=GAITS, help="robot:gait")
    parser.add_argument("--policies", nargs="+", help="default: adaptive tracking pd; over ground: contact adaptive pd")
    parser.add_argument("--uneven", action="store_true", help="over ground that plans do not know")
    chosen = parser.parse_args()
    logging.getLogger("mayne").setLevel(logging.ERROR)
    columns, play = (UNEVEN, played_over_ground) if chosen.uneven else (CONDITIONS, played)
    print(f"{'':24s} " + " ".join(f"{name:>7s}" for name in columns))
    names = chosen.policies or (["contact", "adaptive", "pd"] if chosen.uneven else ["adaptive", "tracking", "pd"])
    found = {policy: [] for policy in names}
    for name in chosen.gaits:
        robot, gait = name.split(":")
        solution = ddp.solve(getattr(gaits, gait)(robot))
        for policy, rows in found.items():
            rows.append(play(solution, policy))
            row(name, policy, rows[-1])
        if name in BARS and not chosen.uneven and found[names[0]][-1][0] > BARS[name]:
            print(f"    above the bar of {BARS[name]} cm")
        if name == "hyq:walk" and not chosen.uneven:
            whole, compiled = call_times(solution)
            print(f"    a call from Python {whole:.1f} µs, the C function called from Python {compiled:.1f} µs")
    for policy, rows in found.items():
        errors, beside = np.concatenate(rows), np.concatenate(found.get("pd", rows))
        counts = int(np.isinf(errors).sum()), int((errors < beside).sum())
        print(f"{policy}: {counts[0]} of {errors.size} fall, {counts[1]} better than pd")


if __name__ == "__main__":
    main()
