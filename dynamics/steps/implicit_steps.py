# mypy: allow-untyped-defs, allow-untyped-calls
"""Implicit steps on the configuration manifold, each of them a table of stages, solved by Newton's method.

A stage of length h from (q, v) finds v' with which motion obeys the residual of residual.py where it is looked at,

    v_s = (1 - θ) v + θ v'     q_s = q ⊕ θ h v_s     a_s = (v' - v) / h     R(q_s, v_s, a_s, u) = 0

and goes the part κ of its way: q⁺ = q ⊕ κ h v_s, v⁺ = v + κ (v' - v), where the next stage begins, or the step ends.
With θ = 1 that is backward Euler's step, with θ = ½ the implicit midpoint rule; two stages of the former make the step
of order two that Alexander calls SDIRK2 (1977, Diagonally implicit Runge-Kutta methods for stiff ODEs); loops, closed
in positions (an equation of index three), leave it order one. No mass matrix is inverted: Newton's matrix is
K = h ∂R/∂v' = M + θ h (R_v + θ h R_q Jr), Jr the right Jacobian of θ h v_s.
A row of R that belongs to a prescribed joint is a_s - u instead, its control being its acceleration.

Newton's method begins at v' = v and ends by one step more after one below CLOSE, so that results depend on where it
began by rounding alone. K is made at the first step, kept for some, which need R alone, and made at every step beyond.
Later stages begin with the acceleration and λ of the one before.
A step that does not shorten the next is taken back by three quarters. Lanes that are done stay where they are, so that
none depends on its neighbours; one that finds no end becomes NaN.
"""

from collections.abc import Sequence

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, matrix_of, nested, rows_apart, vector
from ddp.machine.memory import as_vector
from ddp.machine.number import all_less, spread, where_less
from ddp.protocols import Array
from dynamics.arrays.elimination import eliminate, solve
from dynamics.geometry.configuration import integrate_configuration, turn_columns
from dynamics.geometry.joint_motion import is_group, joint_jacobian, twist_of
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.rigid_bodies.loops import Looping, add_loop_stiffness, see_loops
from dynamics.rigid_bodies.residual import residual, residual_derivatives
from dynamics.steps.advance import NoPush
from dynamics.steps.modes import step_of

SWEEPS, KEPT, CLOSE, STALLED = 30, 5, 1e-11, 1e-6
"""Steps of Newton's method at most, the first ones with one K. The last but one is below CLOSE, or below STALLED and
none is shorter: h times it, relative to 1 + h |v'|."""

LONGEST, CLOSING, DONE = 1e300, -0.5, -2.0
"""Size of steps before any is known, marks of lanes: below CLOSING they take the last step, from DONE on none."""


def stages(rows: Sequence[tuple[float, float, float]]) -> Array:
    """The table (stages, 3) of a method: θ, the length of each stage as a part of the step's, and κ."""
    return np.array(rows, dtype=np.float64)


GAMMA = 1.0 - np.sqrt(0.5)

METHODS = {
    "implicit-euler": stages([(1.0, 1.0, 1.0)]),
    "implicit-midpoint": stages([(0.5, 1.0, 1.0)]),
    "sdirk2": stages([(1.0, GAMMA, (1.0 - GAMMA) / GAMMA), (1.0, GAMMA, 1.0)]),
}
"""Implicit steps by name."""


class Solving(Fields):
    """Scratch of a stage. q, v, a, xi: q_s, v_s, a_s and θ h v_s.   z: h λ of loops, then v'.

    best, step: z and Newton's step there.   R, tau, force: torques; λ.   Rq, G, M (nv, nv): R_q, ∂R/∂v_s by way of q_s
    too.   K (nz, nz), or its factors; these begin as zeros.
    """

    q, v, a, xi, z = vector("nq"), vector("nv"), vector("nv"), vector("nv"), vector("nv + nc")
    best, step, change = vector("nv + nc"), vector("nv + nc"), vector("nv + nc")
    R, tau, force = vector("nv"), vector("nv"), vector("nc")
    J, no_fext = rows_apart("6", 6), matrix_of("0", "6")
    Rq, G, M, K = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv + nc", "nv + nc")


class ImplicitScratch(Fields):
    """Working memory of implicit steps."""

    ws, s, loops, push = nested(Workspace), nested(Solving), nested(Looping), nested(NoPush)


@kernel
def clear_solving(tree, nc, s, loops):
    """Zeros where nothing is written between unrelated degrees of freedom."""
    nz = tree.nv + nc
    clear(as_vector(s.Rq), 3 * tree.nv * tree.nv + nz * nz)
    clear(as_vector(loops.J), nc * tree.nv)


@kernel
def implicit_scratch(modes, mode, memory):
    """Working memory of implicit steps."""
    w = ImplicitScratch(memory, modes.tree, modes.loops.nc, modes.loops.entries)
    clear_solving(modes.tree, modes.loops.nc, w.s, w.loops)
    return w


@kernel
def advance_implicitly(modes, mode, x, u, w):
    """x := its next state under u."""
    tree, dt, method = modes.tree, step_of(modes, mode), modes.method
    for i in range(len(method)):
        theta, h, kappa = method[i, 0], dt * method[i, 1], method[i, 2]
        wrong = solve_stage(modes, i > 0, theta, h, x, x[tree.nq :], u, w.ws, w.s, w.loops, False)
        end_stage(tree, modes.loops.nc, theta, h, kappa, wrong, x, w.s)


@kernel
def see_stage(tree, nc, theta, h, q, v, s):
    """v_s, a_s, θ h v_s and q_s of v' in s.z."""
    for i in range(tree.nv):
        after = s.z[nc + i]
        own = (1.0 - theta) * v[i] + theta * after
        s.v[i] = own
        s.a[i] = (after - v[i]) / h
        s.xi[i] = (theta * h) * own
    integrate_configuration(tree, q, s.xi, 1.0, s.q)


@kernel
def end_stage(tree, nc, theta, h, kappa, wrong, x, s):
    """x := where the next stage begins, or the step ends, and s.xi := κ h v_s; wrong: added to v, zero or NaN."""
    v = x[tree.nq :]
    for i in range(tree.nv):
        after = s.z[nc + i]
        s.xi[i] = (kappa * h) * ((1.0 - theta) * v[i] + theta * after) + wrong
        v[i] += kappa * (after - v[i]) + wrong
    integrate_configuration(tree, x, s.xi, 1.0, x)


@kernel
def solve_stage(modes, later, theta, h, q, v, u, ws, s, lp, exact):
    """h λ and v' of a stage into s.z; zero, or NaN in the lanes that have no end.

    later: whether a stage was solved before, which it begins with.   exact: K's factors there, too.
    """
    tree, nc = modes.tree, modes.loops.nc
    nz = tree.nv + nc
    least, share, wrong = spread(np.inf, v[0]), spread(1.0, v[0]), spread(np.nan, v[0])
    for i in range(nz):
        s.z[i] = v[i - nc] if i >= nc else 0.0 * v[0]
        if later:
            s.z[i] = v[i - nc] + h * s.a[i - nc] if i >= nc else h * s.force[i]
        s.best[i] = s.z[i]
        s.step[i] = 0.0 * v[0]
    renewed = 2 if nc > 0 and not later else 1  # the first K of loops knows no λ
    for sweep in range(SWEEPS):
        if sweep == KEPT:  # steps of another K are not compared with those before
            for i in range(nz):
                s.z[i] = where_less(share, 1.0, s.best[i], s.z[i])
            share, least = where_less(least, 0.0, share, 1.0), where_less(least, 0.0, least, LONGEST)
        size = newton_step(modes, theta, h, q, v, u, ws, s, lp, sweep < renewed or sweep >= KEPT)
        last = where_less(least, CLOSING, where_less(DONE, least, 1.0, 0.0), 0.0)
        wrong = where_less(0.5, last, where_less(size, STALLED * STALLED, 0.0, np.nan), wrong)
        share = where_less(least, 0.0, share, where_less(size, least, 1.0, 0.25 * share))
        for i in range(nz):
            s.best[i] = where_less(size, least, s.z[i], s.best[i])
            s.step[i] = where_less(size, least, s.change[i], s.step[i])
            ended = where_less(0.5, last, s.z[i] + s.change[i], s.z[i])
            s.z[i] = where_less(least, 0.0, ended, s.best[i] + share * s.step[i])
        stalled = CLOSE if sweep < KEPT else STALLED  # steps of a kept K grow before rounding makes them
        enough = where_less(share, 1.0, stalled * stalled, CLOSE * CLOSE)
        found = where_less(size, least, size, least)
        found = where_less(found, enough, CLOSING - 0.5, where_less(found, np.inf, found, DONE))
        least = where_less(least, 0.0, DONE, found)
        if all_less(least, DONE + 0.5):
            break
    if exact:
        newton_step(modes, theta, h, q, v, u, ws, s, lp, True)
        for i in range(nz):
            s.z[i] += s.change[i]
    for i in range(tree.nv):
        s.a[i] = (s.z[nc + i] - v[i]) / h
    for r in range(nc):
        s.force[r] = s.z[r] / h
    return wrong


@kernel
def newton_step(modes, theta, h, q, v, u, ws, s, lp, renew):
    """Newton's step from s.z into s.change; how long it is, squared, see CLOSE.   renew: K's factors, too."""
    tree, loops = modes.tree, modes.loops
    nv, nc = tree.nv, loops.nc
    see_stage(tree, nc, theta, h, q, v, s)
    for r in range(nc):
        s.force[r] = s.z[r] / h
    if renew:
        if nc > 0:  # which couple what the tree does not
            clear(as_vector(s.Rq), 2 * nv * nv)
        residual_derivatives(tree, modes.pulls, s.q, s.v, s.a, u, s.no_fext, ws, s.tau, s.R, s.Rq, s.G, s.M)
    else:
        residual(tree, loops, modes.pulls, s.q, s.v, s.a, u, s.no_fext, s.force, ws, lp, s.tau, s.R)
    if renew and nc > 0:
        see_loops(tree, loops, s.q, ws, lp)
        for r in range(nc):
            for j in range(nv):
                s.R[j] -= lp.J[r, j] * s.force[r]
        add_loop_stiffness(tree, loops, -1.0, s.force, ws, lp, s.Rq)
    for i in range(nv):
        s.change[nc + i] = -h * s.R[i]
    for r in range(nc):
        s.change[r] = -lp.e[r] / h
    if renew:
        factorize(modes, theta, h, s, lp)
    for e in range(len(modes.pulls)):
        if modes.pulls[e, 3] != 0.0:
            own = int(modes.pulls[e, 0])
            s.change[nc + own] = h * (modes.pulls[e, 2] * u[int(modes.pulls[e, 1])] - s.a[own])
    solve(loops.previous, nv + nc, s.K, s.change)
    length, scale = 0.0 * v[0], 1.0 + 0.0 * v[0]
    for i in range(nc, nc + nv):
        length += (h * h) * s.change[i] * s.change[i]
        scale += (h * h) * s.z[i] * s.z[i]
    return length / scale


@kernel
def factorize(modes, theta, h, s, lp):
    """Factors of K, of the derivatives of R and the loops."""
    tree, loops = modes.tree, modes.loops
    nv, nc = tree.nv, loops.nc
    add_displacements(tree, theta * h, s)
    for i in range(nv):
        for j in range(nv):
            s.K[nc + i, nc + j] = s.M[i, j] + (theta * h) * s.G[i, j]
    for r in range(nc):
        for k in range(nc):
            s.K[r, k] = 0.0 * s.v[0]
        for j in range(nv):
            s.K[nc + j, r] = -lp.J[r, j]
            s.K[r, nc + j] = theta * lp.J[r, j]
    for b in range(tree.nb):
        if nc > 0 and is_group(tree.kind[b]):
            joint_jacobian(tree.kind[b], tree.nj[b], twist_of(tree.kind[b], s.xi, tree.iv[b], 1.0), s.J)
            turn_columns(nc, tree.iv[b], tree.nj[b], s.J, lp.J, theta, s.K, nc)
    for e in range(len(modes.pulls)):
        if modes.pulls[e, 3] != 0.0:
            own = nc + int(modes.pulls[e, 0])  # the row of a_s = (v' - v) / h, which is the control
            for j in range(nc + nv):
                s.K[own, j] = 0.0
            s.K[own, own] = 1.0
    eliminate(loops.previous, nv + nc, s.K)


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
