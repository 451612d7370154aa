"""Files of policies: reference and gains by the names of joints, as arrays, as a table and as a joint trajectory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.archive import write
from ddp.errors import ProblemError
from ddp.files import as_path, shown, write_atomically, write_table
from ddp.protocols import Array
from ddp.systems.system import System, ability

if TYPE_CHECKING:
    from ddp.feedback.policy import Policy

SUFFIXES = ".npz", ".csv", ".json"


def export(path: str | os.PathLike[str], policy: Policy, system: System) -> Path:
    """Write a policy: see `Policy.export`."""
    target = as_path(path)
    if target.suffix not in SUFFIXES:
        raise ProblemError(f"path: expected a file whose name ends with {', '.join(SUFFIXES)}, got {shown(target)}")
    names_q, names_v, names_u = names(system)
    U = controls(policy)
    Q, V = policy.X[:, : len(names_q)], policy.X[:, len(names_q) :]
    if target.suffix == ".npz":
        arrays: dict[str, Any] = {"time": policy.starts, "q": Q, "v": V, "u": U, "G": policy.G}
        arrays |= {"durations": policy.durations, "delay": np.array(policy.delay)}
        limits = {"lower": policy.lower, "upper": policy.upper}
        cones = {} if policy.cones is None else policy.cones._asdict()
        return write(target, arrays | limits | cones | {"names_q": names_q, "names_v": names_v, "names_u": names_u})
    if target.suffix == ".csv":
        errors = [f"d {name}" for name in names_v] + [f"d rate of {name}" for name in names_v]
        gains = [f"{u} per {error}" for u in names_u for error in errors[: policy.G.shape[2]]]
        header = ["time", *names_q, *(f"rate of {v}" for v in names_v), *(f"control {u}" for u in names_u), *gains]
        flat = policy.G.reshape(len(policy.G), -1)
        return write_table(target, header, np.hstack([policy.starts[:, None], Q, V, U, flat]).tolist())
    torques = getattr(system, "torques", None)  # of a robot whose controls are no speeds
    efforts = None if torques is None else torques(policy.X, U)
    return write_atomically(target, json.dumps(_joint_trajectory(policy, Q, V, efforts, names_q, names_v), indent=1))


def controls(policy: Policy) -> Array:
    """Planned controls (M, nu) in the middle of each step, later by the delay."""
    if policy.delay == 0.0:
        return policy.U
    middles = policy.starts + 0.5 * policy.durations
    return np.array([policy.planned(t + policy.delay) for t in middles.tolist()])


def names(system: System) -> tuple[list[str], list[str], list[str]]:
    """Names of the numbers of positions, of velocities and of controls; numbered where the system has none."""
    named: tuple[list[str], list[str], list[str]] | None = ability(system, "named_numbers")
    if named is not None:
        return named
    return [f"x{i}" for i in range(system.nx)], [], [f"u{i}" for i in range(system.nu)]


def _joint_trajectory(
    policy: Policy, Q: Array, V: Array, efforts: Array | None, names_q: list[str], names_v: list[str]
) -> dict[str, Any]:
    """A message of ROS: joints whose velocity is one number, their positions, velocities and efforts [N m, N]."""
    places = {name: found for name in names_v if (found := _positions(name, Q, names_q)) is not None}
    v = [names_v.index(name) for name in places]
    points = []
    for k, t in enumerate(policy.starts.tolist()):
        seconds, part = divmod(round(1e9 * t), 10**9)
        points.append(
            {
                "positions": [float(found[k]) for found in places.values()], "velocities": V[k, v].tolist(),
                "effort": [] if efforts is None else efforts[k, v].tolist(),
                "time_from_start": {"sec": seconds, "nanosec": part},
            }
        )  # fmt: skip
    return {"joint_names": list(places), "points": points}


def _positions(name: str, Q: Array, names_q: list[str]) -> Array | None:
    """Positions (M,) of a joint with one, which may be an angle by its cosine and sine; None for others."""
    if name in names_q:
        return Q[:, names_q.index(name)]
    if f"{name}.cos" not in names_q:
        return None
    i = names_q.index(f"{name}.cos")
    return np.unwrap(np.arctan2(Q[:, i + 1], Q[:, i]))
