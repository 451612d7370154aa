"""Workplace of full-space steps: arrays, sweeps and their `Memory`, made once for derivatives of many solves."""

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.rows import Rows
from ddp.costs.cost_table import NONE as NO_TERMS
from ddp.derivatives import Derivatives
from ddp.interior import linear
from ddp.interior.barrier import Barrier
from ddp.interior.course import Course
from ddp.interior.ending import Ends, Polish
from ddp.interior.filter import ENTRIES
from ddp.interior.iteration import Decisions
from ddp.interior.memory import ERRORS, LANES, MOST, NUMBERS, POINT, SLOTS, Memory
from ddp.interior.parts_in_python import PartsInPython
from ddp.machine.carved import carved
from ddp.machine.trajectories import Lengths, Trajectory
from ddp.machine.written import address, assign, filled, read_one
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.sweeps.sized_limits import step_function
from ddp.sweeps.weighted import WeightedSweeps
from ddp.systems.system import MOTIONS, Routines, ability

STRAYING = "X", "dX", "tried_U", "tried_X", "tried_gaps"
"""Arrays that `Routines` are given to ``stray``."""

SWEPT = "lz", "lzz", "exact", "diagonal"
"""Derivatives to which rows add theirs before they are swept; where there are no rows, those of the costs are."""


class Workplace:
    """Everything of a `Point` that is the same wherever its problem begins; one point at a time may use it.

    own: arrays by the names of a `Memory`.   swept: the derivatives that ``backward`` sweeps.   boxed: see `Point`.
    in_python: its parts in Python, None if everything is compiled: costs, constraints and dynamics.
    bounds: of the rows; imposed: by what binds alone, see active.py.
    alphas (LANES,), lengths: steps that are rolled out, and a `Lengths` of them.   decisions, ending: of solves and
    Newton's steps as they begin.
    """

    def __init__(
        self, problem: Problem, rows: Rows, work: Differentiator, boxed: bool, routines: Routines | None = None
    ) -> None:  # fmt: skip
        self.problem, self.rows, self.objective, self.boxed = problem, rows, problem.objective, boxed
        self._traced, self.bounds = problem.traces[1], barrier_of(rows, 1.0)
        nothing = np.zeros(rows.size)
        self.imposed = Barrier(nothing, nothing)
        terms = problem.objective.compiled_alone if rows.compiled_alone and work.alone else None
        make = None if terms is None else ability(problem.dynamics, "routines")
        if routines is None and make is not None:
            routines = make(problem.horizon, True)
        self._routines = routines if routines is not None and routines.strays else None
        self.own, places = carved(shapes_of(problem, rows))
        for name in ("factors", "units", "J"):
            self.own[name].fill(1.0)
        block = (places["forces"] - places["X"]) // 8 + rows.size
        self.decisions = filled(Decisions, **vars(Course(np.zeros(ENTRIES), np.zeros(ENTRIES))))
        self.ending = filled(Ends, **vars(Polish()))
        self._kept = np.zeros((SLOTS, block + 4 * rows.size + 5))
        d = work.derivatives
        self.swept = d._replace(**{name: self.own[f"to_{name}"] for name in SWEPT}) if rows.size else d
        n, nz = problem.dynamics.n, problem.dynamics.n + problem.dynamics.nu
        separable, both = problem.separable & rows.separable, np.maximum(problem.objective.coupled, rows.touched)
        coupled = np.where(separable, 0, np.where(both > n, nz, np.maximum(both, 1)))
        self.backward = WeightedSweeps(
            self.swept, problem.dynamics, work.contract, problem.structure, self.own["gaps"], coupled, boxed
        )
        self.alphas = np.zeros(LANES)
        self._free = np.zeros(problem.multiplier_count, dtype=bool)
        self._scaled_by = (*(np.ones(count).tobytes() for count in (len(self._free), len(self.own["units"]))), None)
        self.in_python = PartsInPython(work, self) if self._routines is None else None
        self._table, self._terms = rows.table.copy(), (NO_TERMS if terms is None else terms).copy()
        self.memory = self._memory(d, places, separable)

    def _memory(self, d: Derivatives, places: dict[str, int], separable: np.ndarray) -> Memory:
        """A `Memory` whose own arrays are at ``places``."""
        problem, backward, rows, r = self.problem, self.backward, self.rows, self._routines
        s, objective = problem.dynamics, problem.objective
        sizes = {"N": problem.horizon, "nx": s.nx, "n": s.n, "nu": s.nu}
        derivatives = {name: address(array) for name, array in d._asdict().items() if name != "dual"}
        derivatives |= {f"to_{name}": address(getattr(self.swept, name)) for name in SWEPT}
        T, horizons = address(backward.second), backward.horizons()
        trajectory = filled(
            Trajectory, **sizes, X=places["X"], U=places["U"], A=derivatives["A"], B=derivatives["B"],
            record=derivatives["record"], records=s.record_size, weights=places["weights"], T=T,
            size=backward.second[0].size,
        )  # fmt: skip
        of_lanes = {"lower": "low", "upper": "high", "to_X": "lanes_X", "to_U": "lanes_U", "gaps": "opened"}
        self.lengths = lengths = filled(
            Lengths, **sizes, X=places["X"], U=places["U"], **{name: places[own] for name, own in of_lanes.items()},
            k=address(backward.policy[0]), K=address(backward.policy[1]), count=LANES, alphas=self.alphas,
        )  # fmt: skip
        straying = np.array([*sizes.values(), *(places[name] for name in STRAYING)], dtype=np.int64)
        within, scratch = backward.within() if self.boxed else (0, None)
        knots = tuple(part.astype(np.int64) for part in (~separable, separable, problem.separable, backward.coupled))
        names = ("expand", "contract", "stray") + (("track",) if problem.multiplier_count or self.boxed else ())
        compiled = {} if r is None else {name: r.address(name) for name in names} | {"context": r.context}
        functions = linear.compiled(s.n, s.nu, backward.blockwise, s.closing().address == 0)
        self._alive = trajectory, lengths, straying, horizons, scratch, knots, objective.runs
        return filled(
            Memory, **sizes, **derivatives | {name: place for name, place in places.items() if name in Memory._fields},
            **dict(zip(("dense", "separable", "costs_separable", "coupled"), map(address, knots), strict=True)),
            **{name: horizon.address for name, horizon in horizons.items()}, **compiled,
            M=rows.size, entries=rows.entries, placed=len(self._table), records=s.record_size,
            completes=int(problem.structure.blockwise != MOTIONS), term_count=len(self._terms),
            **{name: function.address for name, function in functions.items()},
            sweeping=backward.sweeping, linear_step=step_function(s.n, s.nu).address, table=address(self._table),
            terms=address(self._terms), run_count=len(objective.runs), runs=address(objective.runs),
            any_dense=int(not separable.all()), within=within,
            scratch=0 if scratch is None else scratch.address, trajectory=trajectory.address, lengths=lengths.address,
            straying=address(straying), in_python=0 if self.in_python is None else self.in_python.address,
            first=problem.multiplier_count, limited=int(problem.limited and not self.boxed), boxed=int(self.boxed),
            holds=int(bool(problem.rows.equal.all())), kept=address(self._kept),
            block=self._kept.shape[1] - 4 * rows.size - 5, lower=address(problem.lower), upper=address(problem.upper),
        )  # fmt: skip

    @property
    def serving(self) -> Barrier:
        """Bounds that kernels work with, which may have changed them themselves."""
        return self.imposed if read_one(self.memory, "rows") == self.imposed.address else self.bounds

    def clear(self) -> None:
        """Forget the last point."""
        if self.bounds.elastic:
            self.bounds = barrier_of(self.rows, self.own["factors"], self._free)
        self.bounds.renew()
        hessians = ("to_lzz", "to_exact") if self.rows.size else ()  # see `swept_hessians.fill`
        for name in ("costate", "weights", *hessians):
            self.own[name].fill(0.0)
        self.own["J"].fill(1.0)  # of limits of controls; that of constraints is written
        self.backward.begin()

    def scale(self, factors: Array, units: Array, free: NDArray[np.bool_]) -> None:
        """Multiply rows by factors (m,) of constraints, those of limits by units (nz,) of controls, see `Point`.

        free (m,): which rows are not to be bounded.
        """
        own, numbers = self.own["factors"], (factors.tobytes(), units.tobytes(), free.tobytes())
        own[: len(factors)], self.own["units"][:] = factors, units
        if len(own) > len(factors):
            own[len(factors) :].reshape(-1, self.problem.dynamics.nu)[:] = 1.0 / units[self.problem.dynamics.n :]
        if numbers == self._scaled_by:
            return
        self._scaled_by, self._free, self.bounds = numbers, free, barrier_of(self.rows, own, free)
        assign(self.memory, {"scaled": int((own != 1.0).any()), "foreign": int((units != 1.0).any())})

    def serves(self, problem: Problem, rows: Rows) -> bool:
        """Whether a problem, with these rows, differs in nothing but x0, limits, and numbers of what is compiled."""
        if problem.dynamics is not self.problem.dynamics or problem.traces[1] is not self._traced:
            return False
        if rows is self.rows and problem.objective is self.objective:
            return True
        alike = self.in_python is None and rows.has_shapes_of(self.rows)
        return alike and problem.objective.has_shapes_of(self.objective)

    def turn_to(self, problem: Problem, rows: Rows) -> None:
        """Work on another problem, that it `serves`."""
        before, self.problem, self.rows, self.objective = self.problem, problem, rows, problem.objective
        self._table[:] = rows.table
        if self.in_python is None:
            self._terms[:] = self.objective.table
        if not (problem.lower is before.lower and problem.upper is before.upper):
            assign(self.memory, {"lower": address(problem.lower), "upper": address(problem.upper)})

    def serve(self, bounds: Barrier) -> None:
        """Let kernels work with the rows of some bounds."""
        assign(self.memory, {
            "rows": bounds.address, "count": bounds.count, "equalities": bounds.equalities,
            "elastic": bounds.elastic, "price_of_all": bounds.price_of_all, "share": bounds.share,
            "least_proximal": bounds.least_proximal,
        })  # fmt: skip


def workplace(
    problem: Problem, rows: Rows, work: Differentiator, boxed: bool, factors: Array, units: Array,
    free: NDArray[np.bool_],
) -> Workplace:  # fmt: skip
    """The `Workplace` that derivatives have for a problem, as good as new; factors, units, free: see `scale`."""
    found = work.kept.get(boxed)
    if isinstance(found, Workplace) and found.serves(problem, rows):
        found.turn_to(problem, rows)
        found.clear()
    else:
        found = work.kept[boxed] = Workplace(problem, rows, work, boxed)
    found.scale(factors, units, free)
    found.serve(found.bounds)
    assign(found.memory, {"given": found.bounds.address, "imposed": found.imposed.address, "broken": 0, "valued": 0})
    return found


def barrier_of(rows: Rows, factors: Array | float, free: NDArray[np.bool_] | None = None) -> Barrier:
    """Slacks, multipliers and barriers of rows that are multiplied by factors (M,), without bounds of ``free`` ones."""
    lower, upper = rows.lower.copy(), rows.upper.copy()
    if free is not None:
        lower[: len(free)][free], upper[: len(free)][free] = -np.inf, np.inf
    return Barrier(lower, upper, rows.cap, rows.compliance, factors)


def shapes_of(problem: Problem, rows: Rows) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that a `Memory` has for itself."""
    N, nx, n, nu, M = problem.horizon, problem.dynamics.nx, problem.dynamics.n, problem.dynamics.nu, rows.size
    nz, tangents, states, controls, gaps = n + nu, (N + 1, n), (N + 1, nx), (N, nu), (N, n)
    point = states, controls, gaps, (M,), tangents, gaps, (M,)
    swept = {"to_lz": (nz,), "to_lzz": (nz, nz), "to_exact": (nz, nz), "to_diagonal": (nz,)} if M else {}
    return dict(zip(POINT, point, strict=True)) | {name: (N + 1, *shape) for name, shape in swept.items()} | {
        "x": tangents, "u": controls, "y": tangents, "moved": (M,),
        "to_costate": tangents, **dict.fromkeys(("to_weights", "gaps", "gauge", "gauged"), gaps),
        "units": (nz,), "error": (N + 1, nz), "dX": tangents, "costs": (N + 1,),
        "values": (M,), "J": (rows.entries,), "tried_X": states, "tried_U": controls,
        "tried_gaps": gaps, "tried_residual": (M,), "tried_primal": (3, M), "errors": (ERRORS,), "low": controls,
        "high": controls, "lanes_X": (LANES + 1, *states), "lanes_U": (LANES + 1, *controls),
        "numbers": (MOST, NUMBERS),
        **dict.fromkeys(("held", "pays", "target", "curving", "factors", "weighing"), (M,)), "kept_k": controls,
        "kept_K": (N, nu * n),
    }  # fmt: skip
