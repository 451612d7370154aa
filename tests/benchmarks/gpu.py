"""Dynamics on a GPU beside one core of the processor: ``make bench-gpu OPTIONS="ur5 hyq"``; needs an NVIDIA GPU.

Arguments and results stay in the GPU's memory; a call includes its launch, the memory of results, and the reading of
flags. The processor's times are of one thread, eight samples at a time. The least of some repeats.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numba import cuda

import dynamics
from dynamics.extras.gpu import GpuDynamics

FUNCTIONS = (
    "inverse_dynamics", "inverse_dynamics_derivatives", "inverse_dynamics_hessian",
    "forward_dynamics", "forward_dynamics_derivatives", "forward_dynamics_hessian",
)  # fmt: skip


def least(call: Any, repeats: int) -> float:
    """The least time [s] of a call, after one that may compile."""
    call()
    times = []
    for _ in range(repeats):
        cuda.synchronize()
        start = time.perf_counter()
        call()
        cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def tiled(array: np.ndarray, count: int) -> np.ndarray:
    """Samples again and again until there are ``count``."""
    return np.ascontiguousarray(np.resize(array, (count, array.shape[1])))


def rows(name: str, robot: dynamics.Robot, samples: int) -> None:
    """Print a row for each function: ns a sample on the GPU, on one core, their ratio, their largest difference."""
    gpu, rng = GpuDynamics(robot), np.random.default_rng(0)
    few = np.array([robot.random_configuration(rng) for _ in range(512)])
    given = [few, *(rng.normal(size=(len(few), robot.nv)) for _ in range(3))]
    many = [cuda.to_device(tiled(one, samples)) for one in given]
    for function in FUNCTIONS:
        count = 4 if function.endswith("hessian") else 3
        mine, theirs = getattr(gpu, function), getattr(dynamics, function)
        fast = least(lambda mine=mine, count=count: mine(*many[:count]), 5) / samples
        slow = least(lambda theirs=theirs, count=count: theirs(robot, *given[:count]), 5) / len(few)
        found, expected = mine(*given[:count]), theirs(robot, *given[:count])
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        worst = max(np.abs(a - b).max() / max(1.0, np.abs(b).max()) for a, b in pairs)
        fast, slow = 1e9 * fast, 1e9 * slow
        print(f"{name:<8}{function:<32}{fast:>9.1f}{slow:>9.0f}{slow / fast:>8.0f}{worst:>10.1e}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="*", default=["ur5", "hyq", "talos"])
    parser.add_argument("--samples", type=int, default=2**17)
    options = parser.parse_args()
    print(f"{'robot':<8}{'function':<32}{'GPU [ns]':>9}{'core':>9}{'ratio':>8}{'error':>10}")
    for name in options.robots:
        rows(name, dynamics.load(name), options.samples)


if __name__ == "__main__":
    main()
