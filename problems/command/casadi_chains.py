"""CasADi's automatic differentiation of chains of hinges: a program for a Python that has CasADi.

Reads a list of chains as JSON from its input: ``masses`` (n,), ``centres`` (n, 3) and diagonal ``inertias`` (n, 3) of
links in their joints' frames, ``offset`` (3,) from joint to joint, samples ``q, v, a, weight`` (N, n), ``compiled``,
``seconds``. Hinges turn about x, y, z in turn. Prints for each the Hessian of ``weight @ torques`` over (q, v, a),
(N, 3n, 3n), and microseconds a sample: by CasADi's virtual machine and, where ``compiled``, as compiled C.
CasADi leaves what it compiles in the folder that it is run in.
"""

import json
import sys
import time
from typing import Any

import casadi as ca
import numpy as np

GRAVITY = 9.81


def torques(chain: dict[str, Any], q: Any, v: Any, a: Any) -> Any:
    """Inverse dynamics by Newton and Euler's recursion, in the frames of the links."""
    n = len(chain["masses"])
    spin, spinning, rising = ca.SX(3, 1), ca.SX(3, 1), ca.SX([0.0, 0.0, GRAVITY])
    frames, wrenches = [], []
    for i in range(n):
        axis = ca.SX(ca.Sparsity(3, 1))
        axis[i % 3] = 1.0
        turn, at = rotation(i % 3, q[i]), ca.sparsify(ca.SX(chain["offset"] if i else [0.0] * 3))
        rising = turn.T @ (rising + ca.cross(spinning, at) + ca.cross(spin, ca.cross(spin, at)))
        carried = turn.T @ spin
        spinning = turn.T @ spinning + axis * a[i] + ca.cross(carried, axis * v[i])
        spin = carried + axis * v[i]
        centre, inertia = ca.SX(chain["centres"][i]), ca.SX(ca.diag(ca.DM(chain["inertias"][i])))
        force = chain["masses"][i] * (rising + ca.cross(spinning, centre) + ca.cross(spin, ca.cross(spin, centre)))
        moment = inertia @ spinning + ca.cross(spin, inertia @ spin) + ca.cross(centre, force)
        frames.append((turn, at))
        wrenches.append((force, moment))
    force, moment, found = ca.SX(3, 1), ca.SX(3, 1), []
    for i in reversed(range(n)):
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


def measured(chain: dict[str, Any]) -> dict[str, Any]:
    """Hessians of a chain's samples, and times."""
    n, N = len(chain["masses"]), len(chain["q"])
    q, v, a, weight = (ca.SX.sym(name, n) for name in ("q", "v", "a", "weight"))
    H = ca.hessian(ca.dot(weight, torques(chain, q, v, a)), ca.vertcat(q, v, a))[0]
    given = [ca.DM(chain[name]).T for name in ("q", "v", "a", "weight")]
    flags = {"flags": ["-O1", "-march=native"]}
    ways: dict[str, dict[str, Any]] = {"machine": {}}
    if chain["compiled"]:
        ways["compiled"] = {"jit": True, "compiler": "shell", "jit_options": flags}
    told: dict[str, Any] = {}
    for name, options in ways.items():
        mapped = ca.Function("H", [q, v, a, weight], [H], options).map(N)
        told["hessian"] = np.asarray(mapped(*given)).reshape(3 * n, N, 3 * n).transpose(1, 0, 2).tolist()
        best, end = np.inf, time.perf_counter() + chain["seconds"]
        while time.perf_counter() < end or not np.isfinite(best):
            begin = time.perf_counter()
            mapped(*given)
            best = min(best, time.perf_counter() - begin)
        told[name] = 1e6 * best / N
    return told


if __name__ == "__main__":
    json.dump({"casadi": ca.__version__, "chains": [measured(chain) for chain in json.load(sys.stdin)]}, sys.stdout)
