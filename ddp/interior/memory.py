# mypy: allow-untyped-defs, allow-untyped-calls
"""Everything that the passes of an iteration read and write, behind two addresses: a point's, and its rows'.

Kernels are handed an array as seven words, which takes Python a tenth of a microsecond; an iteration has thirty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ddp.compiling.kernel import inline
from ddp.constraints.row_table import WORDS
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.struct import Struct, integer
from ddp.machine.variables import variable_integer, variable_real

LANES, NUMBERS, ERRORS, MOST = 4, 10, 7, 8
"""Fractions of a step that are rolled out at once; numbers of an iteration; errors of a point; iterations in one call,
which nothing interrupts, at most."""


class RowMemory(Struct):
    """Addresses of what a `Barrier` has of M rows: see row_steps.py.

    w, f, y (M,): weights, forces and multipliers.   step (8, M): the last one.
    """

    M: int = integer()
    bounds: int = integer()
    kinds: int = integer()
    give: int = integer()
    state: int = integer()
    step: int = integer()
    w: int = integer()
    f: int = integer()
    y: int = integer()


class Memory(Struct):
    """Sizes and addresses of a `Point`, of N controls and M rows whose Jacobians have ``entries`` numbers.

    horizon: a `Horizon`.   sweeping: a `Sweeping` over it.   linear_step: see `sized_limits.step_function`.
    table (placed, .): see row_table.py.   A .. diagonal: `Derivatives`; to_lz .. to_diagonal: those that are swept.
    terms (term_count, 5), runs: see cost_table.py.
    x (N+1, n), u (N, nu): a step; y (N+1, n): see `limits.linear_step`; moved (M,): J z of it.
    costate (N+1, n), weights (N, n): multipliers of the dynamics, see linear.py; to_costate, to_weights: where the step
    leads.   gaps (N, n): those that are swept.   error (N+1, nz): the Lagrangian's gradient.
    dX (N+1, n), next (N, nx), costs (N+1,), values (M,): of trials.
    expand, contract, stray, context: of `ddp.systems.system.Routines`; records: numbers of a knot's record, which
    are for the second order, too, where it ``completes`` them.
    T (N, T_size): the second order.

    Where whole iterations are compiled (compiled.py), too: numbers of a `Point`, under its names; rows: a `RowMemory`.
    whole_horizon, torn_horizon: `Horizon` without gaps, and with some; horizon: the one of both that serves.
    X (N+1, nx), U (N, nu), opened (N, n), residual (M,): the point, its gaps and what its rows miss; tried_X ..
    tried_residual, tried_primal (3, M): a trial.   errors (ERRORS,): a `Judged`.
    within: C function of `sized_limits.within_function`, and its scratch, where sweeps keep to limits of controls.
    dense, separable, costs_separable (N+1,): see `passes.condense`; any_dense: whether any is; whole: whether
    Gauss-Newton's Hessians have been made.
    track: of routines; lengths: its `Lengths`, of lanes_X (LANES, N+1, nx), lanes_U (LANES, N, nu), within low, high
    (N, nu), which are off the limits lower, upper (N, nu); ahead: how many of these trials have not been looked at.
    numbers (MOST, NUMBERS): of the last iterations, see `compiled.report`.
    """

    rows: int = variable_integer()
    whole_horizon: int = integer()
    torn_horizon: int = integer()
    X: int = integer()
    U: int = integer()
    opened: int = integer()
    residual: int = integer()
    tried_X: int = integer()
    tried_U: int = integer()
    tried_gaps: int = integer()
    tried_residual: int = integer()
    tried_primal: int = integer()
    errors: int = integer()
    within: int = integer()
    scratch: int = integer()
    dense: int = integer()
    separable: int = integer()
    costs_separable: int = integer()
    any_dense: int = integer()
    track: int = integer()
    lengths: int = integer()
    lanes_X: int = integer()
    lanes_U: int = integer()
    lower: int = variable_integer()
    upper: int = variable_integer()
    low: int = integer()
    high: int = integer()
    numbers: int = integer()
    whole: int = variable_integer()
    ahead: int = variable_integer()
    first: int = variable_integer()
    limited: int = variable_integer()
    boxed: int = variable_integer()
    holds: int = variable_integer()
    count: int = variable_integer()
    equalities: int = variable_integer()
    elastic: int = variable_integer()
    costates: int = variable_integer()
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
    T_size: int = integer()
    term_count: int = integer()
    run_count: int = integer()
    horizon: int = variable_integer()
    sweeping: int = integer()
    linear_step: int = integer()
    expand: int = integer()
    contract: int = integer()
    stray: int = integer()
    context: int = integer()
    table: int = integer()
    terms: int = integer()
    runs: int = integer()
    T: int = integer()
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
