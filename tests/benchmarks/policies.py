"""Policies of gaits in MuJoCo's contacts: base errors under pushes, other masses, friction, delays and noise.

`make bench-policy OPTIONS="--gaits go2:trot --policies tracking pd"`. Each number is the rms of the base's position
error [cm]; 1 kHz, torques within the robots' limits, delays that no policy is told of.
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


def played(solution, policy):
    """Errors [cm] under all conditions, infinite where it falls."""
    runs = [problems.simulate(solution, policy=policy, **condition) for condition in CONDITIONS.values()]
    return np.array([np.inf if run.fell else 100.0 * run.rms for run in runs])


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
    parser.add_argument("--policies", nargs="+", default=["adaptive", "tracking", "pd"])
    chosen = parser.parse_args()
    logging.getLogger("mayne").setLevel(logging.ERROR)
    print(f"{'':24s} " + " ".join(f"{name:>7s}" for name in CONDITIONS))
    found = {policy: [] for policy in chosen.policies}
    for name in chosen.gaits:
        robot, gait = name.split(":")
        solution = ddp.solve(getattr(gaits, gait)(robot))
        for policy, rows in found.items():
            rows.append(played(solution, policy))
            row(name, policy, rows[-1])
        if name in BARS and found[chosen.policies[0]][-1][0] > BARS[name]:
            print(f"    above the bar of {BARS[name]} cm")
        if name == "hyq:walk":
            whole, compiled = call_times(solution)
            print(f"    a call from Python {whole:.1f} µs, the C function called from Python {compiled:.1f} µs")
    for policy, rows in found.items():
        errors, beside = np.concatenate(rows), np.concatenate(found.get("pd", rows))
        counts = int(np.isinf(errors).sum()), int((errors < beside).sum())
        print(f"{policy}: {counts[0]} of {errors.size} fall, {counts[1]} better than pd")


if __name__ == "__main__":
    main()
