"""The `Memory` of a point: its own arrays, and the addresses of all that a solve, its problem and its sweeps have."""

from __future__ import annotations

from ddp.constraints.rows import Rows
from ddp.costs.cost_table import Table
from ddp.derivatives import Derivatives
from ddp.interior.memory import Memory, place
from ddp.problem import Problem
from ddp.sweeps.backward import Backward
from ddp.sweeps.sized_limits import step_function
from ddp.systems.system import Routines


def shapes_of(problem: Problem, rows: Rows) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that a `Memory` has for itself."""
    N, nx, n, nu, M = problem.horizon, problem.dynamics.nx, problem.dynamics.n, problem.dynamics.nu, rows.size
    nz, states = n + nu, (N + 1, n)
    return {
        "x": states, "u": (N, nu), "y": states, "moved": (M,), "step": (8, M), "costate": states, "weights": (N, n),
        "to_costate": states, "to_weights": (N, n), "gaps": (N, n), "error": (N + 1, nz), "dX": states,
        "next": (N, nx), "costs": (N + 1,), "values": (M,), "J": (rows.entries,), "to_lz": (N + 1, nz),
        "to_lzz": (N + 1, nz, nz), "to_exact": (N + 1, nz, nz), "to_diagonal": (N + 1, nz),
    }  # fmt: skip


def memory_of(
    problem: Problem, rows: Rows, derivatives: Derivatives, backward: Backward, places: dict[str, int], terms: Table,
    routines: Routines | None,
) -> Memory:  # fmt: skip
    """A `Memory` whose own arrays are at ``places``; the caller keeps alive what it is of."""
    d, objective, blockwise = problem.dynamics, problem.objective, problem.structure.blockwise
    runs, segments, curved = objective.runs, objective.segments, objective.curved
    of_routines = (0, 0, 0, 0) if routines is None else (
        routines.expand, routines.contract, routines.stray, routines.context
    )  # fmt: skip
    expand, contract, stray, context = of_routines
    made = {name: place(array) for name, array in derivatives._asdict().items() if name != "dual"}
    return Memory(
        N=problem.horizon, nx=d.nx, n=d.n, nu=d.nu, M=rows.size, entries=rows.entries, placed=len(rows.table),
        records=d.record_size, completes=int(not blockwise), T_size=backward.second[0].size, term_count=len(terms),
        run_count=len(runs), segment_count=len(segments), curved_count=len(curved), horizon=backward.address,
        sweeping=backward.sweeping, linear_step=step_function(d.n, d.nu).address, expand=expand,
        contract=contract, stray=stray, context=context, table=place(rows.table), terms=place(terms),
        runs=place(runs), segments=place(segments), curved=place(curved), T=place(backward.second), **made, **places,
    )  # fmt: skip
