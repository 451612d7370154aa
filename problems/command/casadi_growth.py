"""Hessians of chains' inverse dynamics by CasADi's automatic differentiation, where CasADi is installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynamics
from problems.command.dynamics_bench import Samples

ENVIRONMENT = Path(".venv-casadi/bin/python")
"""Python of the environment that ``make bench-optimisers`` makes, from the checkout."""

COMPILED = 10
"""Bodies up to which CasADi's C is compiled: 2 s for 5, half a minute for 10, minutes for more."""


class Casadi(NamedTuple):
    """CasADi's version; for each chain microseconds a knot, interpreted and compiled, and how far ours is away.

    compiled is None where it was not compiled; difference is relative to the largest entry.
    """

    version: str
    machine: list[float]
    compiled: list[float | None]
    difference: list[float]


def casadi_python() -> str | None:
    """A Python that has CasADi: this one, or that of ``.venv-casadi`` in this folder; None if there is none."""
    if importlib.util.find_spec("casadi"):
        return sys.executable
    return str(ENVIRONMENT.absolute()) if ENVIRONMENT.exists() else None


def casadi_growth(
    python: str, chains: Sequence[tuple[dynamics.Robot, Samples]], folder: Path, seconds: float
) -> Casadi:
    """Measure chains of hinges about x, y, z in turn in a process of their own; their Hessians are compared with ours.

    folder: takes what CasADi compiles.   seconds: for each time.
    """
    program = [python, str(Path(__file__).with_name("casadi_chains.py"))]
    asked = json.dumps([_told(robot, s, seconds) for robot, s in chains])
    done = subprocess.run(program, input=asked, stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
    answer = json.loads(done.stdout)
    found = answer["chains"]
    differences = [_difference(robot, s, one["hessian"]) for (robot, s), one in zip(chains, found, strict=True)]
    times = [one["machine"] for one in found], [one.get("compiled") for one in found]
    return Casadi(answer["casadi"], *times, differences)


def _told(robot: dynamics.Robot, s: Samples, seconds: float) -> dict[str, Any]:
    links = list(robot.model.inertias)[1:]
    return {
        "masses": [link.mass for link in links], "centres": [link.lever.tolist() for link in links],
        "inertias": [np.diag(link.inertia).tolist() for link in links],
        "offset": list(robot.model.jointPlacements)[-1].translation.tolist(),
        "q": s.q.tolist(), "v": s.v.tolist(), "a": s.a.tolist(), "weight": s.weight.tolist(),
        "compiled": len(links) <= COMPILED, "seconds": seconds,
    }  # fmt: skip


def _difference(robot: dynamics.Robot, s: Samples, theirs: Any) -> float:
    """Largest difference of CasADi's Hessians over (q, v, a) from ours, over the largest entry."""
    H = dynamics.inverse_dynamics_hessian(robot, s.q, s.v, s.a, s.weight, symmetric=True)
    vq, aq, none = H.qv.swapaxes(1, 2), H.qa.swapaxes(1, 2), np.zeros_like(H.qq)
    ours = np.block([[H.qq, H.qv, H.qa], [vq, H.vv, none], [aq, none, none]])
    return float(np.abs(ours - np.array(theirs)).max() / np.abs(ours).max())
