"""CasADi's automatic differentiation of chains of hinges about x, y, z in turn; imported only where CasADi is."""

from functools import partial
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

import dynamics
from problems.command.dynamics_bench import Samples, measure

GRAVITY = 9.81


class Measured(NamedTuple):
    """Microseconds a sample by CasADi's virtual machine, and as compiled C, None where that was not asked for.

    difference: largest one of CasADi's Hessians over (q, v, a) from ours, over the largest entry.
    """

    machine: float
    compiled: float | None
    difference: float


def torques(robot: dynamics.Robot, q: Any, v: Any, a: Any) -> Any:
    """Inverse dynamics by Newton and Euler's recursion, in the frames of the links."""
    spin, spinning, rising = ca.SX(3, 1), ca.SX(3, 1), ca.SX([0.0, 0.0, GRAVITY])
    frames, wrenches = [], []
    links = zip(list(robot.model.inertias)[1:], list(robot.model.jointPlacements)[1:], strict=True)
    for i, (link, placement) in enumerate(links):
        axis = ca.SX(ca.Sparsity(3, 1))
        axis[i % 3] = 1.0
        turn, at = rotation(i % 3, q[i]), ca.sparsify(ca.SX(placement.translation))
        rising = turn.T @ (rising + ca.cross(spinning, at) + ca.cross(spin, ca.cross(spin, at)))
        carried = turn.T @ spin
        spinning = turn.T @ spinning + axis * a[i] + ca.cross(carried, axis * v[i])
        spin = carried + axis * v[i]
        centre, inertia = ca.SX(link.lever), ca.SX(ca.diag(ca.DM(np.diag(link.inertia))))
        force = link.mass * (rising + ca.cross(spinning, centre) + ca.cross(spin, ca.cross(spin, centre)))
        moment = inertia @ spinning + ca.cross(spin, inertia @ spin) + ca.cross(centre, force)
        frames.append((turn, at))
        wrenches.append((force, moment))
    force, moment, found = ca.SX(3, 1), ca.SX(3, 1), []
    for i in reversed(range(len(frames))):
        force, moment = force + wrenches[i][0], moment + wrenches[i][1]
        found.append(moment[i % 3])
        turn, at = frames[i]
        force = turn @ force
        moment = turn @ moment + ca.cross(at, force)
    return ca.vertcat(*reversed(found))


def rotation(axis: int, angle: Any) -> Any:
    """Rotation about x, y or z: axes of the turned frame as columns."""
    j, k = (axis + 1) % 3, (axis + 2) % 3
    turn = ca.SX(ca.Sparsity(3, 3))
    turn[axis, axis] = 1.0
    turn[j, j] = turn[k, k] = ca.cos(angle)
    turn[k, j] = ca.sin(angle)
    turn[j, k] = -ca.sin(angle)
    return turn


def measured(robot: dynamics.Robot, s: Samples, compiled: bool, seconds: float) -> Measured:
    """Hessians of ``weight @ torques`` over (q, v, a) of a chain's samples: times, and how far ours are away.

    CasADi leaves what it compiles in the folder that the process is in.
    """
    n, N, samples = robot.nv, len(s.q), (s.q, s.v, s.a, s.weight)
    q, v, a, weight = (ca.SX.sym(name, n) for name in s._fields)
    H = ca.hessian(ca.dot(weight, torques(robot, q, v, a)), ca.vertcat(q, v, a))[0]
    jit = {"jit": True, "compiler": "shell", "jit_options": {"flags": ["-O1", "-march=native"]}}
    maps = [ca.Function("H", [q, v, a, weight], [H], way).map(N) for way in [{}, jit][: 1 + compiled]]
    given = [ca.DM(part.T) for part in samples]
    machine, *others = (1e6 * t / N for t in measure([partial(f, *given) for f in maps], seconds * len(maps)))
    theirs = np.asarray(maps[-1](*given)).reshape(3 * n, N, 3 * n).transpose(1, 0, 2)
    own = dynamics.inverse_dynamics_hessian(robot, *samples, symmetric=True)
    vq, aq, none = own.qv.swapaxes(1, 2), own.qa.swapaxes(1, 2), np.zeros_like(own.qq)
    ours = np.block([[own.qq, own.qv, own.qa], [vq, own.vv, none], [aq, none, none]])
    return Measured(machine, others[0] if others else None, float(np.abs(ours - theirs).max() / np.abs(ours).max()))
