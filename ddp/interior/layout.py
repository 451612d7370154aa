"""Workplace of full-space steps: arrays, sweeps and their `Memory`, made once for derivatives of many solves."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ddp.constraints.rows import Rows
from ddp.costs.cost_table import NONE as NO_TERMS
from ddp.costs.cost_table import Table
from ddp.derivatives import Derivatives
from ddp.interior.barrier import Barrier
from ddp.interior.filter import ENTRIES
from ddp.interior.memory import ERRORS, LANES, MOST, NUMBERS, Memory
from ddp.machine.carved import carved
from ddp.machine.trajectories import Lengths
from ddp.machine.written import address, assign, filled
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.sweeps.sized_limits import step_function
from ddp.sweeps.weighted import WeightedSweeps
from ddp.systems.system import Routines, ability


class Workplace:
    """Everything of a `Point` that is the same wherever its problem begins; one point at a time may use it.

    own: arrays by the names of a `Memory`.   swept: the derivatives that ``backward`` sweeps.   boxed: see `Point`.
    knots: which knots (N+1,) have dense Hessians, which have not, and which have not without the rows; dense: whether
    any has.   terms, routines: of compiled costs and constraints, and of dynamics where these are compiled as well.
    alone: compiled iterations, see alone.py.   bounds: of the rows.
    """

    def __init__(self, problem: Problem, rows: Rows, work: Differentiator, boxed: bool) -> None:
        self.rows, self.objective, self.boxed = rows, problem.objective, boxed
        d = work.derivatives
        self.alone: object = None
        self.bounds = barrier_of(rows)
        self.terms = problem.objective.compiled_alone if rows.compiled_alone else None
        routines = None if self.terms is None else ability(problem.dynamics, "routines")
        made: Routines | None = None if routines is None else routines(problem.horizon, True)
        self.routines = made if made is not None and made.strays else None
        shapes = shapes_of(problem, rows)
        self.own, places = carved(shapes if self.routines is None else shapes | shapes_of_iterations(problem, rows))
        self.swept = d._replace(
            lz=self.own["to_lz"], lzz=self.own["to_lzz"], exact=self.own["to_exact"], diagonal=self.own["to_diagonal"]
        )
        separable = problem.separable & rows.separable
        self.backward = WeightedSweeps(
            self.swept, problem.dynamics, work.contract, problem.structure, self.own["gaps"], separable, boxed
        )
        self.knots = tuple(part.astype(np.int64) for part in (~separable, separable, problem.separable))
        self.dense = not separable.all()
        args = NO_TERMS if self.terms is None else self.terms, self.routines
        named = dict(zip(("dense", "separable", "costs_separable"), map(address, self.knots), strict=True))
        if self.routines is not None:
            named |= self._of_iterations(problem, places)
        named["any_dense"] = int(self.dense)
        named |= {name: place for name, place in places.items() if name in Memory._fields}
        self.memory = memory_of(problem, rows, d, self.backward, named, *args)

    def _of_iterations(self, problem: Problem, places: dict[str, int]) -> dict[str, int]:
        """Addresses that compiled iterations need besides, of what is kept alive here."""
        assert self.routines is not None
        d = problem.dynamics
        whole, torn = self.backward.twins()
        names = "X", "U", "low", "high", "lanes_X", "lanes_U", "opened"
        X, U, lower, upper, to_X, to_U, gaps = (places[name] for name in names)
        lengths = filled(
            Lengths, N=problem.horizon, nx=d.nx, n=d.n, nu=d.nu, X=X, U=U, k=address(whole.k), K=address(whole.K),
            gaps=gaps, lower=lower, upper=upper, to_X=to_X, to_U=to_U, count=LANES, alphas=np.zeros(LANES),
        )  # fmt: skip
        within, scratch = self.backward.within() if self.boxed else (0, None)
        self.owner = whole, torn, lengths, scratch
        return {
            "within": within, "scratch": 0 if scratch is None else scratch.address,
            "whole_horizon": whole.address, "torn_horizon": torn.address, "track": self.routines.address("track"),
            "lengths": lengths.address,
        }  # fmt: skip

    @cached_property
    def imposed(self) -> Barrier:
        """Rows that are bounded by what binds alone, see active.py."""
        nothing = np.zeros(self.rows.size)
        return Barrier(nothing, nothing)

    def serves(self, problem: Problem, rows: Rows) -> bool:
        """Whether it is of this problem, wherever that begins."""
        return self.rows is rows and self.objective is problem.objective

    def clear(self) -> None:
        """Forget the last point."""
        if self.bounds.elastic:
            self.bounds = barrier_of(self.rows)
        self.bounds.renew()
        for name in ("costate", "weights"):
            self.own[name].fill(0.0)
        self.backward.begin()
        self.take_back()

    def take_back(self) -> None:
        """Let kernels sweep as Python does, after compiled iterations, or where these were interrupted."""
        assign(self.memory, {"horizon": self.backward.address})
        self.backward.serve(self.backward.address)


def workplace(problem: Problem, rows: Rows, work: Differentiator, boxed: bool) -> Workplace:
    """The `Workplace` that derivatives have for a problem, as good as new."""
    found = work.kept.get(boxed)
    if isinstance(found, Workplace) and found.serves(problem, rows):
        found.clear()
    else:
        found = work.kept[boxed] = Workplace(problem, rows, work, boxed)
    return found


def barrier_of(rows: Rows) -> Barrier:
    """Slacks, multipliers and barriers of rows."""
    return Barrier(rows.lower, rows.upper, rows.cap, rows.compliance)


def shapes_of(problem: Problem, rows: Rows) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that a `Memory` has for itself."""
    N, nx, n, nu, M = problem.horizon, problem.dynamics.nx, problem.dynamics.n, problem.dynamics.nu, rows.size
    nz, states = n + nu, (N + 1, n)
    return {
        "x": states, "u": (N, nu), "y": states, "moved": (M,), "costate": states, "weights": (N, n),
        "to_costate": states, "to_weights": (N, n), "gaps": (N, n), "error": (N + 1, nz), "dX": states,
        "next": (N, nx), "costs": (N + 1,), "values": (M,), "J": (rows.entries,), "to_lz": (N + 1, nz),
        "to_lzz": (N + 1, nz, nz), "to_exact": (N + 1, nz, nz), "to_diagonal": (N + 1, nz),
    }  # fmt: skip


def shapes_of_iterations(problem: Problem, rows: Rows) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that a `Memory` has besides where whole iterations are compiled."""
    N, nx, n, nu, M = problem.horizon, problem.dynamics.nx, problem.dynamics.n, problem.dynamics.nu, rows.size
    states, controls = (N + 1, nx), (N, nu)
    return {
        "X": states, "U": controls, "opened": (N, n), "residual": (M,), "tried_X": states, "tried_U": controls,
        "tried_gaps": (N, n), "tried_residual": (M,), "tried_primal": (3, M), "errors": (ERRORS,), "low": controls,
        "high": controls, "lanes_X": (LANES, *states), "lanes_U": (LANES, *controls), "numbers": (MOST, NUMBERS),
        "thetas": (ENTRIES,), "phis": (ENTRIES,),
    }  # fmt: skip


def memory_of(
    problem: Problem, rows: Rows, derivatives: Derivatives, backward: WeightedSweeps, places: dict[str, int],
    terms: Table, routines: Routines | None,
) -> Memory:  # fmt: skip
    """A `Memory` whose own arrays are at ``places``; the caller keeps alive what it is of."""
    d, objective, blockwise = problem.dynamics, problem.objective, problem.structure.blockwise
    runs = objective.runs
    of_routines = (0, 0, 0, 0) if routines is None else (
        *map(routines.address, ("expand", "contract", "stray")), routines.context
    )  # fmt: skip
    expand, contract, stray, context = of_routines
    made = {name: address(array) for name, array in derivatives._asdict().items() if name != "dual"}
    return filled(
        Memory, N=problem.horizon, nx=d.nx, n=d.n, nu=d.nu, M=rows.size, entries=rows.entries, placed=len(rows.table),
        records=d.record_size, completes=int(not blockwise), T_size=backward.second[0].size, term_count=len(terms),
        run_count=len(runs), horizon=backward.address, sweeping=backward.sweeping,
        linear_step=step_function(d.n, d.nu).address, expand=expand, contract=contract, stray=stray, context=context,
        table=address(rows.table), terms=address(terms), runs=address(runs), T=address(backward.second), **made,
        **places,
    )  # fmt: skip
