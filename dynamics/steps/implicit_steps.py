# mypy: allow-untyped-defs, allow-untyped-calls
"""Implicit steps on the configuration manifold, each of them a table of stages, solved by Newton's method.

A stage of length h from (q, v) finds v' with which motion obeys the residual of residual.py where it is looked at,

    v_s = (1 - θ) v + θ v'     q_s = q ⊕ θ h v_s     a_s = (v' - v) / h     R(q_s, v_s, a_s, u) = 0

and goes the part κ of its way: q⁺ = q ⊕ κ h v_s, v⁺ = v + κ (v' - v), where the next stage begins, or the step ends.
With θ = 1 that is backward Euler's step, with θ = ½ the implicit midpoint rule; two stages of the former make the step
of order two that Alexander calls SDIRK2 (1977, Diagonally implicit Runge-Kutta methods for stiff ODEs). No mass matrix
is inverted: Newton's matrix is K = h ∂R/∂v' = M + θ h (R_v + θ h R_q Jr), Jr the right Jacobian of θ h v_s.

Newton's method begins at v' = v and ends by one step more after one below CLOSE, so that results depend on where it
began by rounding alone. A step that does not shorten the next is taken back by three quarters. Lanes that are done
stay where they are, so that none depends on its neighbours; one that finds no end becomes NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, matrix_of, rows_apart, vector
from ddp.machine.memory import as_vector
from ddp.machine.number import all_less, spread, where_less
from dynamics.arrays.elimination import eliminate, solve
from dynamics.geometry.configuration import integrate_configuration
from dynamics.geometry.joint_motion import is_group, joint_jacobian, twist_of
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.rigid_bodies.residual import residual_derivatives
from dynamics.robots.tree import Tree
from dynamics.steps.modes import step_of

Array = NDArray[np.float64]

SWEEPS, CLOSE, STALLED = 30, 1e-8, 1e-6
"""Steps of Newton's method at most. The last but one is below CLOSE, or below STALLED and none is shorter: h times it,
relative to 1 + h |v'|."""


def stages(rows: Sequence[tuple[float, float, float]]) -> Array:
    """The table (stages, 3) of a method: θ, the length of each stage as a part of the step's, and κ."""
    return np.array(rows, dtype=np.float64)


GAMMA = 1.0 - np.sqrt(0.5)

IMPLICIT_EULER = stages([(1.0, 1.0, 1.0)])
IMPLICIT_MIDPOINT = stages([(0.5, 1.0, 1.0)])
SDIRK2 = stages([(1.0, GAMMA, (1.0 - GAMMA) / GAMMA), (1.0, GAMMA, 1.0)])


class Solving(Fields):
    """Scratch of a stage. q, v, a, xi: q_s, v_s, a_s and θ h v_s.   next: v'.   best, step: v' and Newton's step there.

    R, change, tau (nv,).   Rq, G, M, K (nv, nv): R_q, ∂R/∂v_s by way of q_s too, and K or its factors; they begin as
    zeros.
    """

    q, v, a, xi, next = vector("nq"), vector("nv"), vector("nv"), vector("nv"), vector("nv")
    best, step, R, change, tau = vector("nv"), vector("nv"), vector("nv"), vector("nv"), vector("nv")
    J, no_fext = rows_apart("6", 6), matrix_of("0", "6")
    Rq, G, M, K = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")


class ImplicitBench(NamedTuple):
    """Working memory of implicit steps; f: no forces."""

    ws: Any
    s: Any
    f: Any


def size(tree: Tree, stages: int, m: int, nc: int) -> int:
    """How many numbers of memory a step takes."""
    return Workspace.size(tree) + Solving.size(tree)


@kernel
def solving(memory, tree):
    """Scratch of a stage."""
    s = Solving(memory, tree)
    clear(as_vector(s.Rq), 4 * tree.nv * tree.nv)
    return s


@kernel
def implicit_bench(modes, mode, memory):
    """Working memory of implicit steps."""
    ws = Workspace(memory, modes.tree)
    s = solving(ws.end, modes.tree)
    return ImplicitBench(ws, s, s.end)


@kernel
def advance_implicitly(modes, mode, x, u, w):
    """x := its next state under u."""
    tree, dt, method = modes.tree, step_of(modes, mode), modes.method
    for i in range(len(method)):
        theta, h, kappa = method[i, 0], dt * method[i, 1], method[i, 2]
        wrong = solve_stage(tree, modes.pulls, theta, h, x, x[tree.nq :], u, w.ws, w.s)
        end_stage(tree, theta, h, kappa, wrong, x, w.s)


@kernel
def see_stage(tree, theta, h, q, v, s):
    """v_s, a_s, θ h v_s and q_s of v' in s.next."""
    for i in range(tree.nv):
        own = (1.0 - theta) * v[i] + theta * s.next[i]
        s.v[i] = own
        s.a[i] = (s.next[i] - v[i]) / h
        s.xi[i] = (theta * h) * own
    integrate_configuration(tree, q, s.xi, 1.0, s.q)


@kernel
def end_stage(tree, theta, h, kappa, wrong, x, s):
    """x := where the next stage begins, or the step ends, and s.xi := κ h v_s; wrong: added to v, zero or NaN."""
    v = x[tree.nq :]
    for i in range(tree.nv):
        s.xi[i] = (kappa * h) * ((1.0 - theta) * v[i] + theta * s.next[i]) + wrong
        v[i] += kappa * (s.next[i] - v[i]) + wrong
    integrate_configuration(tree, x, s.xi, 1.0, x)


@kernel
def solve_stage(tree, pulls, theta, h, q, v, u, ws, s):
    """v' of a stage into s.next, and the factors of K there; zero, or NaN in the lanes that have no end."""
    least, share = spread(np.inf, v[0]), spread(1.0, v[0])
    for i in range(tree.nv):
        s.next[i] = s.best[i] = v[i]
        s.step[i] = 0.0 * v[i]
    for _ in range(SWEEPS):
        size = newton_step(tree, pulls, theta, h, q, v, u, ws, s)
        for i in range(tree.nv):
            s.best[i] = where_less(size, least, s.next[i], s.best[i])
            s.step[i] = where_less(size, least, s.change[i], s.step[i])
        share = where_less(size, least, 1.0, 0.25 * share)
        least = where_less(size, least, size, least)
        enough = where_less(share, 1.0, STALLED * STALLED, CLOSE * CLOSE)
        for i in range(tree.nv):
            s.next[i] = s.best[i] + share * s.step[i]
            s.best[i] = where_less(least, enough, s.next[i], s.best[i])
            s.step[i] = where_less(least, enough, 0.0, s.step[i])
        least = where_less(least, enough, -1.0, where_less(least, np.inf, least, -1.0))
        if all_less(least, 0.0):
            break
    size = newton_step(tree, pulls, theta, h, q, v, u, ws, s)
    for i in range(tree.nv):
        s.next[i] += s.change[i]
    return where_less(size, STALLED * STALLED, 0.0, np.nan)


@kernel
def newton_step(tree, pulls, theta, h, q, v, u, ws, s):
    """Newton's step from v' in s.next into s.change, K's factors; how long it is, squared, see CLOSE."""
    nv = tree.nv
    see_stage(tree, theta, h, q, v, s)
    residual_derivatives(tree, pulls, s.q, s.v, s.a, u, s.no_fext, ws, s.tau, s.R, s.Rq, s.G, s.M)
    add_displacements(tree, theta * h, s)
    for i in range(nv):
        s.change[i] = -h * s.R[i]
        for j in range(nv):
            s.K[i, j] = s.M[i, j] + (theta * h) * s.G[i, j]
    eliminate(tree, s.K)
    solve(tree, s.K, s.change)
    length, scale = 0.0 * v[0], 1.0 + 0.0 * v[0]
    for i in range(nv):
        length += (h * h) * s.change[i] * s.change[i]
        scale += (h * h) * s.next[i] * s.next[i]
    return length / scale


@kernel
def add_displacements(tree, h, s):
    """G += h R_q Jr(ξ)."""
    nv = tree.nv
    for b in range(tree.nb):
        iv, nj, kind = tree.iv[b], tree.nj[b], tree.kind[b]
        if is_group(kind):
            joint_jacobian(kind, nj, twist_of(kind, s.xi, iv, 1.0), s.J)
            for i in range(nv):
                for j in range(nj):
                    total = s.Rq[i, iv] * s.J[0, j]
                    for k in range(1, nj):
                        total += s.Rq[i, iv + k] * s.J[k, j]
                    s.G[i, iv + j] += h * total
        else:
            for i in range(nv):
                for j in range(iv, iv + nj):
                    s.G[i, j] += h * s.Rq[i, j]
