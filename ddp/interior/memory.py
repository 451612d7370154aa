# mypy: allow-untyped-defs, allow-untyped-calls
"""Everything that full-space steps read and write, behind two addresses: a point's, and its rows'.

Kernels are handed an array as seven words, which takes Python a tenth of a microsecond; an iteration has thirty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ddp.compiling.kernel import call_contraction, inline
from ddp.constraints.row_table import WORDS
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.struct import Struct, integer
from ddp.machine.variables import variable_integer, variable_real

LANES, NUMBERS, ERRORS, MOST = 4, 10, 7, 8
"""Fractions of a step that are rolled out at once; numbers of an iteration; errors of a point; iterations in one call,
which nothing interrupts, at most."""

DIFFERENTIATE, CONTRACT, CURVE, STRAY, TRACK, WEIGH, EVALUATE = range(7)
"""Questions of kernels to Python where a part of a problem is not compiled, see outside.py: derivatives at the point,
the second order of its dynamics, curvature of its rows; where a step leads in a straight line, and in rollouts; what a
trial is worth; the rows of the point."""


class RowMemory(Struct):
    """Addresses of what a `Barrier` has of M rows: see row_steps.py.

    w, f, y (M,): weights, forces and multipliers.   step (8, M): the last one.   hard (M,): see `Barrier`.
    """

    M: int = integer()
    bounds: int = integer()
    kinds: int = integer()
    hard: int = integer()
    give: int = integer()
    state: int = integer()
    step: int = integer()
    w: int = integer()
    f: int = integer()
    y: int = integer()


class Memory(Struct):
    """Sizes and addresses of a `Point`, of N controls and M rows whose Jacobians have ``entries`` numbers.

    Numbers of the point have its names.   rows: a `RowMemory`.   outside: address of the C function that asks Python
    for what is not compiled, 0 if all is; broken: whether Python has raised an error meanwhile.
    X (N+1, nx), U (N, nu), opened (N, n), residual (M,): the point, its gaps and what its rows miss; tried_X ..
    tried_residual, tried_primal (3, M): a trial, tried_cost: its cost.   errors (ERRORS,): a `Judged`.
    contracted: whether second orders are; whole: whether Gauss-Newton's Hessians have been made; valued: whether
    ``values`` (M,) are those of the point's rows, and not of a trial's.
    horizon: a `Horizon`, that of whole_horizon, torn_horizon which serves: without gaps, or with some; whole_held,
    torn_held: of sweeps with controls that are held.   sweeping: a `Sweeping` over it.
    within: C function of `sized_limits.within_function`, and its scratch, where sweeps keep to limits of controls
    lower, upper (N, nu).   linear_step: see `sized_limits.step_function`.
    table (placed, .): see row_table.py.   A .. diagonal: `Derivatives`; to_lz .. to_diagonal: those that are swept.
    dense, separable, costs_separable (N+1,): see `passes.fill`; any_dense: whether any is.
    terms (term_count, 5), runs: see cost_table.py.
    x (N+1, n), u (N, nu): a step; y (N+1, n): see `limits.linear_step`; moved (M,): J z of it.
    costate (N+1, n), weights (N, n): multipliers of the dynamics, see linear.py; to_costate, to_weights: where the step
    leads.   gaps (N, n): those that are swept.   error (N+1, nz): the Lagrangian's gradient.
    dX (N+1, n), next (N, nx), costs (N+1,): of trials.
    expand, contract, stray, track, context: of `ddp.systems.system.Routines`, and what these are given: a `Trajectory`,
    ``straying``, and lengths: `Lengths` of lanes_X (LANES, N+1, nx), lanes_U (LANES, N, nu), within low, high (N, nu),
    which are off the limits; ahead: how many of these trials have not been looked at.   records: numbers of a knot's
    record, which are for the second order, too, where it ``completes`` them.
    numbers (MOST, NUMBERS): of the last iterations, see `run.report`.
    """

    rows: int = variable_integer()
    outside: int = integer()
    broken: int = variable_integer()
    X: int = integer()
    U: int = integer()
    opened: int = integer()
    residual: int = integer()
    tried_X: int = integer()
    tried_U: int = integer()
    tried_gaps: int = integer()
    tried_residual: int = integer()
    tried_primal: int = integer()
    tried_cost: float = variable_real()
    errors: int = integer()
    contracted: int = variable_integer()
    whole: int = variable_integer()
    valued: int = variable_integer()
    horizon: int = variable_integer()
    whole_horizon: int = integer()
    torn_horizon: int = integer()
    whole_held: int = integer()
    torn_held: int = integer()
    sweeping: int = integer()
    within: int = integer()
    scratch: int = integer()
    lower: int = variable_integer()
    upper: int = variable_integer()
    linear_step: int = integer()
    dense: int = integer()
    separable: int = integer()
    costs_separable: int = integer()
    any_dense: int = integer()
    ahead: int = variable_integer()
    numbers: int = integer()
    first: int = integer()
    limited: int = integer()
    boxed: int = integer()
    holds: int = integer()
    count: int = variable_integer()
    equalities: int = variable_integer()
    elastic: int = variable_integer()
    price_of_all: float = variable_real()
    scale: float = variable_real()
    barrier: float = variable_real()
    cost: float = variable_real()
    penalty: float = variable_real()
    theta: float = variable_real()
    gap: float = variable_real()
    missed: float = variable_real()
    share: float = variable_real()
    least_proximal: float = variable_real()
    longest_dual: float = variable_real()

    N: int = integer()
    nx: int = integer()
    n: int = integer()
    nu: int = integer()
    M: int = integer()
    entries: int = integer()
    placed: int = integer()
    records: int = integer()
    completes: int = integer()
    term_count: int = integer()
    run_count: int = integer()
    expand: int = integer()
    contract: int = integer()
    stray: int = integer()
    track: int = integer()
    context: int = integer()
    trajectory: int = integer()
    straying: int = integer()
    lengths: int = integer()
    lanes_X: int = integer()
    lanes_U: int = integer()
    low: int = integer()
    high: int = integer()
    table: int = integer()
    terms: int = integer()
    runs: int = integer()
    A: int = integer()
    B: int = integer()
    record: int = integer()
    l: int = integer()
    lz: int = integer()
    lzz: int = integer()
    exact: int = integer()
    diagonal: int = integer()
    to_lz: int = integer()
    to_lzz: int = integer()
    to_exact: int = integer()
    to_diagonal: int = integer()
    J: int = integer()
    x: int = integer()
    u: int = integer()
    y: int = integer()
    moved: int = integer()
    costate: int = integer()
    weights: int = integer()
    to_costate: int = integer()
    to_weights: int = integer()
    gaps: int = integer()
    error: int = integer()
    dX: int = integer()
    next: int = integer()
    costs: int = integer()
    values: int = integer()


class Arrays(NamedTuple):
    """Arrays of a `Memory`."""

    table: Any
    J: Any
    lz: Any
    to_lz: Any
    x: Any
    u: Any
    y: Any
    moved: Any
    costate: Any
    weights: Any
    to_costate: Any
    to_weights: Any
    error: Any


class RowArrays(NamedTuple):
    """Arrays of a `RowMemory`."""

    bounds: Any
    kind: Any
    give: Any
    state: Any
    step: Any
    w: Any
    f: Any
    y: Any


@inline
def ask(p, what):
    """Ask Python for one of `DIFFERENTIATE` and the others."""
    call_contraction(p.outside, what, 0, 0, 0)


@inline
def trajectory(p):
    """X, U, gaps and residual of a point."""
    N = p.N
    states, controls = array_at(p.X, (N + 1, p.nx)), array_at(p.U, (N, p.nu))
    return states, controls, array_at(p.opened, (N, p.n)), array_at(p.residual, (p.M,))


@inline
def trial(p):
    """X, U, slacks and excesses, gaps and residual of a trial."""
    N, M = p.N, p.M
    states, controls = array_at(p.tried_X, (N + 1, p.nx)), array_at(p.tried_U, (N, p.nu))
    return (
        states, controls, array_at(p.tried_primal, (3, M)), array_at(p.tried_gaps, (N, p.n)),
        array_at(p.tried_residual, (M,)),
    )  # fmt: skip


@inline
def limits(p):
    """Lower and upper limits of controls."""
    shape = p.N, p.nu
    return array_at(p.lower, shape), array_at(p.upper, shape)


@inline
def arrays(p):
    """The `Arrays` of a `Memory`."""
    N, n, nu, M = p.N, p.n, p.nu, p.M
    states, controls, rows = (N + 1, n), (N, nu), (M,)
    return Arrays(
        integers_at(p.table, (p.placed, WORDS)), array_at(p.J, (p.entries,)), array_at(p.lz, (N + 1, n + nu)),
        array_at(p.to_lz, (N + 1, n + nu)), array_at(p.x, states), array_at(p.u, controls), array_at(p.y, states),
        array_at(p.moved, rows), array_at(p.costate, states), array_at(p.weights, (N, n)),
        array_at(p.to_costate, states), array_at(p.to_weights, (N, n)), array_at(p.error, (N + 1, n + nu)),
    )  # fmt: skip


@inline
def row_arrays(r):
    """The `RowArrays` of a `RowMemory`."""
    M = r.M
    return RowArrays(
        array_at(r.bounds, (2, M)), integers_at(r.kinds, (M,)), array_at(r.give, (2, M)), array_at(r.state, (8, M)),
        array_at(r.step, (8, M)), array_at(r.w, (M,)), array_at(r.f, (M,)), array_at(r.y, (M,)),
    )  # fmt: skip
