# mypy: allow-untyped-defs, allow-untyped-calls
"""Everything that full-space steps read and write, behind two addresses: a point's, and its rows'.

Kernels are handed an array as seven words, which takes Python a tenth of a microsecond; an iteration has thirty.
"""

from collections import namedtuple
from typing import Any

from ddp.compiling.kernel import call_contraction, inline
from ddp.constraints.row_table import WORDS
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.declared import each
from ddp.machine.struct import Struct, integer
from ddp.machine.variables import variable_integer, variable_real

LANES, NUMBERS, ERRORS, MOST, SLOTS = 4, 10, 7, 8, 4
"""Fractions of a step that are rolled out at once; numbers of an iteration; errors of a point; iterations in one call,
which nothing interrupts, at most; points that are kept."""

DIFFERENTIATE, CONTRACT, CURVE, STRAY, TRACK, WEIGH, EVALUATE = range(7)
"""Questions of kernels to parts_in_python.py, where a part of a problem is not compiled: derivatives at the point,
the second order of its dynamics, curvature of its rows; where a step leads in a straight line, and in rollouts; what a
trial is worth; the rows of the point."""


POINT = "X", "U", "opened", "residual", "costate", "weights", "forces"
"""Arrays of a point that lie behind each other in memory."""


class RowMemory(Struct):
    """Addresses of what a `Barrier` has of M rows: see row_steps.py.

    w, f, y (M,): weights, forces and multipliers.   step (8, M): the last one.   hard (M,): see `Barrier`.
    """

    M, bounds, kinds, plain, hard, give, state, step, w, f, y = each(11, integer)


FIELDS: dict[Any, str] = {
    integer: """
    in_python X U opened residual tried_X tried_U tried_gaps tried_residual tried_primal errors whole_horizon
    torn_horizon whole_held torn_held sweeping within scratch linear_step multipliers stationarity dense separable
    costs_separable coupled any_dense numbers held pays forces target curving block kept kept_k kept_K first limited
    boxed holds N nx n nu M entries placed records completes term_count run_count expand contract stray track context
    trajectory straying lengths lanes_X lanes_U low high table terms runs A B record l lz lzz exact diagonal to_lz
    to_lzz to_exact to_diagonal J factors weighing x u y moved costate weights to_costate to_weights gaps error dX costs
    values gauge gauged units
    """, variable_integer: """
    rows broken contracted judged whole valued scaled gauging foreign horizon lower upper ahead given imposed count
    equalities elastic
    """, variable_real: """
    tried_cost price_of_all scale barrier cost penalty theta gap missed share least_proximal longest_dual
    """,
}  # fmt: skip
"""Names of the words of a `Memory`."""


Memory: Any = type("Memory", (Struct,), {"__module__": __name__} | {
    name: kind() for kind, names in FIELDS.items() for name in names.split()
})  # fmt: skip
"""Sizes and addresses of a `Point`, of N controls and M rows whose Jacobians have ``entries`` numbers.

Numbers of the point have its names.   rows: a `RowMemory`.   in_python: address of the C function that asks Python
for what is not compiled, 0 if all is; broken: how many questions Python has left unanswered.
X (N+1, nx), U (N, nu), opened (N, n), residual (M,): the point, its gaps and what its rows miss; tried_X ..
tried_residual, tried_primal (3, M): a trial, tried_cost: its cost.   errors (ERRORS,): a `Judged`.
contracted: whether second orders are; judged: whether ``errors`` are those of the point; whole: whether Gauss-Newton's
Hessians have been made; valued: whether ``values`` (M,) are those of the point's rows, and not of a trial's.
horizon: a `Horizon`, that of whole_horizon, torn_horizon which serves: without gaps, or with some; whole_held,
torn_held: of sweeps with controls that are held.   sweeping: a `Sweeping` over it.
within: C function of `sized_limits.within_function`, and its scratch, where sweeps keep to limits of controls
lower, upper (N, nu).   linear_step: see `sized_limits.step_function`;
multipliers, stationarity: C functions of linear.py.
table (placed, .): see row_table.py.   A .. diagonal: `Derivatives`; to_lz .. to_diagonal: those that are swept.
dense, separable, costs_separable, coupled (N+1,): see `swept_hessians.fill`; any_dense: whether any is.
factors (M,): see `Point`; scaled: whether any is not one.   weighing (M,): multipliers of rows as they are given.
terms (term_count, 5), runs: see cost_table.py.
x (N+1, n), u (N, nu): a step; y (N+1, n): see `limits.linear_step`; moved (M,): J z of it.
costate (N+1, n), weights (N, n): multipliers of the dynamics, see linear.py; to_costate, to_weights: where the step
leads.   gaps (N, n): those that are swept.   error (N+1, nz): the Lagrangian's gradient.
dX (N+1, n), costs (N+1,): of trials.   gauge (N, n): factors of gaps, see `measures.gauge`, gauging: whether any is not
one; gauged (N, n): gaps that are multiplied by them.   units (nz,): see `scaling.units_of`; foreign: whether any is not
one.
expand, contract, stray, track, context: of `ddp.systems.system.Routines`, and what these are given: a `Trajectory`,
``straying``, and lengths: `Lengths` of lanes_X (LANES + 1, N+1, nx), lanes_U (LANES + 1, N, nu), within low, high
(N, nu), which are off the limits; ahead: how many of these trials have not been looked at.   records: numbers of a
knot's record, which are for the second order, too, where it ``completes`` them.
numbers (MOST, NUMBERS): of the last iterations, see `iteration.report`.
Newton's steps at the end: given, imposed: each a `RowMemory`: all rows, and what binds; held .. curving (M,): see
`Ends`; block: how many numbers `POINT` has; kept (SLOTS, .): points, see `ending.keep`; kept_k, kept_K: gains.
"""


Arrays = namedtuple("Arrays", "table J lz to_lz x u y moved costate weights to_costate to_weights error")
"""Arrays of a `Memory`."""


Ends = namedtuple("Ends", "held pays y target curving")
"""Arrays of a `Memory` (M,) for Newton's steps on the active set.

held: -1, 1 of rows at their lower and upper bounds; pays: -1, 1 of rows that pay the price of being beyond one;
else 0.   y: multipliers of all rows at the point, target: those where the last step leads, curving: those that
weigh the curvature of rows.
"""


RowArrays = namedtuple("RowArrays", "bounds kind plain give state step w f y")
"""Arrays of a `RowMemory`."""


@inline
def ask(p, what):
    """Ask Python for one of `DIFFERENTIATE` and the others."""
    p.broken += 1  # until it has answered
    call_contraction(p.in_python, what, 0, 0, 0)


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
def units_of(p):
    """Units (nz,) of states and controls."""
    return array_at(p.units, (p.n + p.nu,))


@inline
def factors_of(p):
    """Factors (M,) of the rows of a point."""
    return array_at(p.factors, (p.M,))


@inline
def arrays(p):
    """The `Arrays` of a `Memory`."""
    N, n, nu, M = p.N, p.n, p.nu, p.M
    states, controls, rows = (N + 1, n), (N, nu), (M,)
    return Arrays(
        table_of(p), array_at(p.J, (p.entries,)), array_at(p.lz, (N + 1, n + nu)),
        array_at(p.to_lz, (N + 1, n + nu)), array_at(p.x, states), array_at(p.u, controls), array_at(p.y, states),
        array_at(p.moved, rows), array_at(p.costate, states), array_at(p.weights, (N, n)),
        array_at(p.to_costate, states), array_at(p.to_weights, (N, n)), array_at(p.error, (N + 1, n + nu)),
    )  # fmt: skip


@inline
def constraints_of(p):
    """Table of the constraints of a `Memory`; the rest of its table are limits of controls."""
    return integers_at(p.table, (p.placed - p.limited, WORDS))


@inline
def table_of(p):
    """Table of the rows of a `Memory`: of constraints, and of limits of controls."""
    return integers_at(p.table, (p.placed, WORDS))


@inline
def row_arrays(r):
    """The `RowArrays` of a `RowMemory`."""
    M = r.M
    return RowArrays(
        array_at(r.bounds, (2, M)), integers_at(r.kinds, (M,)), integers_at(r.plain, (M,)), array_at(r.give, (2, M)),
        array_at(r.state, (8, M)), array_at(r.step, (8, M)), array_at(r.w, (M,)), array_at(r.f, (M,)),
        array_at(r.y, (M,)),
    )  # fmt: skip


@inline
def ends(p):
    """The `Ends` of a `Memory`."""
    rows = (p.M,)
    return Ends(
        array_at(p.held, rows), array_at(p.pays, rows), array_at(p.forces, rows), array_at(p.target, rows),
        array_at(p.curving, rows),
    )  # fmt: skip


@inline
def rows_at(address):
    """The `RowArrays` at the address of a `RowMemory`."""
    return row_arrays(RowMemory(address))
