# mypy: allow-untyped-defs, allow-untyped-calls
"""Rest: configurations in which gravity, springs, controls and wrenches balance, many loads at once.

    R(q, 0, 0, u) = 0        by steps (R_q + μ M) δ = -R

They are Newton's, μ = 0, where pivots are positive. Elsewhere μ grows until they are: steps then go downhill in energy,
so that unstable rest is left. Loops add e(q) = 0, with forces λ that push by Jᵀ: the step and λ solve

    [K - Σ λ e_qq + ρ JᵀJ, -Jᵀ; J, 0] (δ, λ) = (-R - ρ Jᵀ e, -e),        K = R_q + μ M

where ρ changes no step, and makes pivots positive where energy is convex along what loops leave free. Loads are lanes:
those that are done stay, and none depends on its neighbours.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.compiling.kernel import kernel
from ddp.errors import ProblemError, as_array, axes, suggesting
from ddp.machine.aligned import working_memory
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_vector, columns_of, memory_of, rows_of
from ddp.machine.number import all_less, spread, square_root, where_less, width
from ddp.machine.packing import pack, unpack
from ddp.protocols import Array
from dynamics.arrays.elimination import eliminate, solve, subtract
from dynamics.contacts.contact import compile_contacts
from dynamics.geometry.configuration import integrate_configuration
from dynamics.geometry.spatial import angular, dot3
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.rigid_bodies.loops import Looping, add_loop_stiffness, looping, see_loops
from dynamics.rigid_bodies.residual import residual, residual_derivatives
from dynamics.rigid_bodies.samples import check_configurations
from dynamics.robots.equipment import as_actuation
from dynamics.robots.model import Robot, check_robot
from dynamics.rods.memory import has_rod
from dynamics.rods.motion import reach_of_rod
from dynamics.steps.modes import STEP, Layout, Mode, Modes, modes_of
from dynamics.steps.names import names_of
from dynamics.steps.runge_kutta import NONE

UNSTABLE, PUSH = 1e9, 1e-3
"""A pivot that is negative beyond a part 1 / UNSTABLE of the stiffness is of unstable rest, which is left by a push of
a length or an angle PUSH [rad, m]."""

FIRM = 1e3
"""ρ JᵀJ as a multiple of the stiffness R_q, degrees of freedom in units of 1 / √M_ii: then all units of lengths are
alike, also beside those of angles."""

SWEEPS, CLOSE, FARTHEST, SHORTEST = 200, 1e-9, 0.5, 1e-300
"""Steps at most; the next one, were it as much shorter as the last one was, is below CLOSE; none moves a joint, or a
quarter of a rod, farther than FARTHEST [rad, m], which doubles for what slides with every step that was cut short, as
lengths may be in any units; one below SHORTEST is none."""


class Resting(Fields):
    """Scratch of some loads. q, u, fext; R, its torques; force: λ; Rq, Rv, M (nv, nv), K, which begin as zeros.

    reach: how far a unit of a degree of freedom goes [rad, m].
    """

    q, u, fext, still = vector("nq"), vector("nu"), matrix_of("wrenches", "6"), vector("nv")
    R, tau, change, outcome, force = vector("nv"), vector("nv"), vector("nv + nc"), vector("3"), vector("nc")
    reach = vector("nv")
    Rq, Rv, M, K = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv + nc", "nv + nc")


@kernel
def rest(address, memory, Q, U, fext, force, outcome):
    """Q (N, nq) := rest, from where they are, force (N, nc) := λ; outcome (N, 3): |R|, the next step's size, number."""
    modes = Modes(address)
    tree, Q, U, fext, outcome = modes.tree, rows_of(Q), rows_of(U), rows_of(fext), rows_of(outcome)
    nq, nv, nu = tree.nq, tree.nv, columns_of(U)
    loops, force = modes.loops, rows_of(force)
    nz = nv + loops.nc
    ws = Workspace(memory_of(memory), tree)
    x = Resting(ws.end, tree, nu, columns_of(fext) // 6, loops.nc)
    lp = looping(x.end, tree, loops)
    clear(x.still, nv)
    for i in range(nv):
        x.reach[i] = 1.0
    for b in range(tree.nb):
        if has_rod(tree, b):
            reach_of_rod(tree, b, x.reach)
    clear(as_vector(x.Rq), 3 * nv * nv + nz * nz)
    for t in range(0, len(Q), width(ws.end)):
        pack(Q, t, x.q, nq)
        pack(U, t, x.u, nu)
        pack(fext, t, as_vector(x.fext), columns_of(fext))
        settle(tree, loops, modes.pulls, ws, x, lp)
        unpack(x.q, nq, Q, t)
        unpack(x.force, loops.nc, force, t)
        unpack(x.outcome, 3, outcome, t)


@kernel
def squares(x, n):
    """The sum of the squares of n numbers."""
    a = b = c = d = 0.0 * x[0]
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b = a + x[i] * x[i], b + x[i + 1] * x[i + 1]
        c, d = c + x[i + 2] * x[i + 2], d + x[i + 3] * x[i + 3]
    for i in range(whole, n):
        a = a + x[i] * x[i]
    return (a + b) + (c + d)


@kernel
def linearise(tree, loops, pulls, ws, x, lp):
    """x.R, x.Rq, x.M and lp := forces that are left at x.q, their slopes, and loops.

    Returns the size of what is left, that of the slopes, the mu that is as large, and how firmly loops are pulled shut.
    """
    nv, nc = tree.nv, loops.nc
    if nc > 0:  # which couple what the tree does not
        clear(as_vector(x.Rq), nv * nv)
    residual_derivatives(tree, pulls, x.q, x.still, x.still, x.u, x.fext, ws, x.tau, x.R, x.Rq, x.Rv, x.M)
    size, firm, rates = 0.0 * x.q[0], 0.0 * x.q[0], 0.0 * x.q[0]
    stiff = square_root(1e-300 + squares(as_vector(x.Rq), nv * nv))
    scale = stiff / square_root(1e-300 + squares(as_vector(x.M), nv * nv))
    if nc > 0:
        see_loops(tree, loops, x.q, ws, lp)
        for i in range(nv):
            for j in range(nv):
                firm += x.Rq[i, j] * x.Rq[i, j] / (1e-300 + x.M[i, i] * x.M[j, j])
            for r in range(nc):
                rates += lp.J[r, i] * lp.J[r, i] / (1e-300 + x.M[i, i])
        firm = square_root(firm) / (1e-300 + rates)
        add_loop_stiffness(tree, loops, -1.0, x.force, ws, lp, x.Rq)
    for i in range(nv):
        left = x.R[i]
        for r in range(nc):
            left = left - lp.J[r, i] * x.force[r]
        size += left * left
    for r in range(nc):
        size += (stiff * lp.e[r]) * (firm * lp.e[r])
    return square_root(size), stiff, scale, firm


@kernel
def balance(nv, nc, mu, firm, x, lp):
    """x.K, x.change := matrix and right side of the equations of a step, by forces of loops and coordinates."""
    for i in range(nv):
        x.change[nc + i] = -x.R[i]
        for j in range(nv):
            x.K[nc + i, nc + j] = x.Rq[i, j] + mu * x.M[i, j]
    for r in range(nc):
        x.change[r] = -lp.e[r]
        for k in range(nc):
            x.K[r, k] = 0.0 * mu
        for i in range(nv):
            x.K[nc + i, r], x.K[r, nc + i] = -lp.J[r, i], lp.J[r, i]
            x.change[nc + i] -= FIRM * firm * lp.e[r] * lp.J[r, i]
            subtract(-FIRM * firm * lp.J[r, i], lp.J[r], x.K[nc + i][nc:], nv)


@kernel
def settle(tree, loops, pulls, ws, x, lp):
    """x.q, x.force := rest, and x.outcome."""
    nv, nc, zero = tree.nv, loops.nc, 0.0 * x.q[0]
    going, sweeps, mu, before, last = 1.0 + zero, zero, zero, spread(np.inf, zero), zero
    for r in range(nc):
        x.force[r] = zero
    size, stiff, scale, firm, moved = zero, zero, zero, zero, True
    sinks, pushed = zero, zero
    for _ in range(SWEEPS):
        if moved:
            size, stiff, scale, firm = linearise(tree, loops, pulls, ws, x, lp)
        mu = where_less(before, 0.5 * size, 16.0 * mu + 0.01 * scale, mu)
        balance(nv, nc, mu, firm, x, lp)
        eliminate(loops.previous, nv + nc, x.K)
        solve(loops.previous, nv + nc, x.K, x.change)
        length, way, convex = zero, zero, 1.0 + zero
        for i in range(nc, nc + nv):
            moved = x.reach[i - nc] * x.change[i]
            length += x.change[i] * x.change[i]
            way += moved * moved
            convex = where_less(0.0, x.K[i, i], convex, 0.0)
            if nc == 0:  # pivots with forces of loops say nothing before these are found
                sinks = where_less(x.K[i, i], 0.0, where_less(-UNSTABLE / stiff, x.K[i, i], 1.0, sinks), sinks)
        length, way = square_root(length), square_root(way)
        convex = where_less(way, np.inf, convex, 0.0)  # pivots of joints that turn freely may be as small as rounding
        left = where_less(length, last, length * length / where_less(0.0, last, last, 1.0), length)
        share = where_less(0.5, going * convex, where_less(FARTHEST, way, FARTHEST / way, 1.0), 0.0)
        last = where_less(share, 1.0, 0.0, length)  # a step that was cut short tells nothing of the next one
        moved = not all_less(share, SHORTEST)
        for i in range(nv):
            if not has_rod(tree, tree.body[i]):
                turning = angular(ws.s[i])
                slides = where_less(dot3(turning, turning), SHORTEST, where_less(share, 1.0, share, 0.0), 0.0)
                x.reach[i] = where_less(0.0, slides, 0.5 * x.reach[i], x.reach[i])
        for r in range(nc):
            x.force[r] += where_less(0.0, share, share * (x.change[r] - x.force[r]), 0.0)
        for i in range(nc, nc + nv):
            x.change[i] = where_less(0.0, share, share * x.change[i], 0.0)
        integrate_configuration(tree, x.q, x.change[nc:], 1.0, x.q)
        x.outcome[1] = where_less(0.0, going, where_less(0.0, convex, left, np.inf), x.outcome[1])
        fall = where_less(size, 0.5 * before, 0.0625, 0.25)
        before = where_less(0.5, convex, size, before)
        mu = where_less(0.5, convex, where_less(mu, 1e-3 * scale, 0.0, fall * mu), 4.0 * mu + 0.1 * scale)
        sweeps += going
        ended = where_less(left * convex, CLOSE, going * convex, 0.0)
        beside = ended * sinks * (1.0 - pushed)
        going, pushed, sinks = going - ended + beside, pushed + beside, where_less(0.0, share, 0.0, sinks)
        if not all_less(beside, 0.5):  # unstable rest where the search began is left by a push
            for i in range(nv):
                x.change[i] = beside * (PUSH * (1.0 + 0.1 * (i % 7)) / x.reach[i])
            integrate_configuration(tree, x.q, x.change, 1.0, x.q)
            moved = True
        if all_less(going, 0.5):
            break
    x.outcome[2] = sweeps
    residual(tree, loops, pulls, x.q, x.still, x.still, x.u, x.fext, x.force, ws, lp, x.tau, x.R)
    x.outcome[0] = square_root(squares(x.R, nv))


@dataclass(frozen=True, eq=False)
class Rest:
    """Configurations at rest, of one load or of each of a batch.

    q (nq,) or (N, nq).   converged: whether forces balance there; if not, q is where the search ended.
    residual [N m, N]: the torques and forces that are left.   iterations.   Others may exist: this one was reached.
    forces (nc,) or (N, nc): of loops, along their equations, those of ``robot.loops`` one after the other [N, N m].
    names: of the numbers of q. Printed, one configuration is a table of them.
    """

    q: Array
    converged: NDArray[np.bool_] | bool
    residual: Array | float
    iterations: NDArray[np.int64] | int
    forces: Array
    names: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        at_rest, left = np.atleast_1d(self.converged), f"forces of {np.max(self.residual, initial=0.0):.2g} are left"
        if self.q.ndim > 1:
            return f"{np.count_nonzero(at_rest)} of {len(at_rest)} at rest, {left} [N m, N]"
        outcome = "at rest" if at_rest.all() else "not at rest"
        width = max(map(len, self.names), default=0)
        rows = [f"{name:<{width}} {value:12.6g}" for name, value in zip(self.names, self.q.tolist(), strict=False)]
        return "\n".join([f"{outcome} after {self.iterations} iterations, {left} [N m, N]", *rows])


@suggesting
def statics(
    robot: Robot, u: ArrayLike | None = None, fext: ArrayLike | None = None, q0: ArrayLike | None = None,
    actuation: ArrayLike | None = None,
) -> Rest:  # fmt: skip
    """The configuration in which a robot rests under controls u and wrenches, reached from q0: a `Rest`.

    u (nu,) or (N, nu): controls, zeros by default.   actuation (nv, nu): how they act; default ``robot.actuation``.
    fext (njoints, 6) or (N, njoints, 6): a wrench [N, N m] per joint, the world first, constant in its frame.
    q0 (nq,) or (N, nq): where the search begins; default ``robot.q0``. A batch of loads is solved eight at a time.

    Springs of joints act, and loops are kept.
    Stable rest is sought: unstable one is left, but where a robot with loops begins exactly there. A robot on which
    something acts that nothing balances, a floating one say, does not converge.
    """
    check_robot(robot)
    S = as_actuation(robot.actuation if actuation is None else actuation, robot.nv, robot.tree.cables, least=0)
    controls = np.zeros(S.shape[1]) if u is None else u
    start = robot.q0 if q0 is None else q0
    batched = [axes(controls) == 2, axes(start) == 2, fext is not None and axes(fext) == 3]
    given = [controls, start] + ([] if fext is None else [fext])
    lengths = {len(value) for value, many in zip(given, batched, strict=False) if many}  # type: ignore[arg-type]
    if len(lengths) > 1:
        raise ProblemError(f"u, q0, fext: expected batches of one length, got {sorted(lengths)}")
    N = lengths.pop() if lengths else 1
    joints = robot.tree.nb + 1
    U = as_array("u", controls, (N, S.shape[1]) if batched[0] else (S.shape[1],))
    Q = as_array("q0", start, (N, robot.nq) if batched[1] else (robot.nq,))
    check_configurations(robot, "q0", np.atleast_2d(Q))
    wrenches: Array = np.empty((0, 6))
    if fext is not None:
        wrenches = as_array("fext", fext, (N, joints, 6) if batched[2] else (joints, 6))[..., 1:, :]
    Q, U = (np.array(np.broadcast_to(value, (N, value.shape[-1])), order="C") for value in (Q, U))
    wrenches = np.array(np.broadcast_to(wrenches, (N, *wrenches.shape[-2:])), order="C")
    tree, outcome = robot.resisting(False, True), np.empty((N, 3))
    loops, still = robot.held, Mode(STEP, compile_contacts(robot, ()), 0.0, 0.0)
    modes = modes_of(tree, loops, S, (), NONE, [still], Layout(0, 0, 0, 0, 0, 0))
    room = Workspace.size(tree) + Resting.size(tree, nu=U.shape[1], wrenches=wrenches.shape[1], nc=loops.nc)
    room += Looping.size(tree, nc=loops.nc, entries=loops.entries)
    force = np.empty((N, loops.nc))
    memory = np.zeros(room) if robot.is_hybrid and N == 1 else working_memory(room)
    rest(modes.handle, memory, Q, U, wrenches, force, outcome)
    residual, last, sweeps = outcome.T
    converged, names = last < CLOSE, tuple(names_of(robot, S)[0])
    if not any(batched):
        return Rest(Q[0], bool(converged[0]), float(residual[0]), int(sweeps[0]), force[0], names)
    return Rest(Q, converged, residual, sweeps.astype(np.int64), force, names)
