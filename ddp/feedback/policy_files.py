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
    return write_atomically(target, json.dumps(_joint_trajectory(policy, Q, V, U, names_q, names_v, names_u), indent=1))


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
    policy: Policy, Q: Array, V: Array, U: Array, names_q: list[str], names_v: list[str], names_u: list[str]
) -> dict[str, Any]:
    """A message of ROS: joints whose position, velocity and effort are one number each."""
    joints = [name for name in names_q if name in names_v]
    q, v = [names_q.index(name) for name in joints], [names_v.index(name) for name in joints]
    points = []
    for k, t in enumerate(policy.starts.tolist()):
        u = dict(zip(names_u, U[k].tolist(), strict=True))
        seconds, part = divmod(round(1e9 * t), 10**9)
        points.append(
            {
                "positions": Q[k, q].tolist(), "velocities": V[k, v].tolist(),
                "effort": [u.get(name, 0.0) for name in joints],
                "time_from_start": {"sec": seconds, "nanosec": part},
            }
        )  # fmt: skip
    return {"joint_names": joints, "points": points}
