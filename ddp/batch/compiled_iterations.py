"""The compiled loop of batches for one problem alone: an iteration of `ddp.solve` in one call.

It works in the memory of an `Iterate` and its sweeps, which go on from there at any time, and so to the same bits.
"""

import ctypes
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ddp.batch import single
from ddp.batch.lanes import NO_STEP, REPORTED, Decisions, Derived, Single
from ddp.batch.native import lane_of, obstacle_but_dynamics, routines_of, worker_of
from ddp.compiling.announce import has_compiled
from ddp.compiling.content import unchanging
from ddp.derivatives import Derivatives
from ddp.descent import Improved
from ddp.iterate import Iterate
from ddp.machine.carved import carved
from ddp.machine.number import WIDTH
from ddp.machine.trajectories import Lengths, Trajectory
from ddp.machine.written import address, assign, filled, point_to, read_all, read_like, read_one, write_like
from ddp.models.attempt import NAMES, HessianModel, Limits
from ddp.models.built_in import Mixed, Model
from ddp.models.globalisation import Globalisation
from ddp.options import DDP
from ddp.problem import Problem
from ddp.sweeps.backward import Backward
from ddp.sweeps.outcome import BY_NUMBER, NONE, Sweep
from ddp.sweeps.sized_limits import within_function
from ddp.sweeps.sized_sweep import weigh_of
from ddp.sweeps.sweeping import sweep_function, sweeping_of
from ddp.systems.system import Routines, System, ability

C_FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)

CONTRACTIONS = (*BY_NUMBER, NONE)
"""Names of what contracts the second order, by the numbers of kernels: -1, the last, is none."""

SOON = 20
"""Iterations in Python after which compiled ones begin: by then they would have saved what their memory takes to lay
out, .2 ms."""

WORTH = 15
"""Iterations of the last solve of a kind from which the next one begins with compiled ones: see `SOON`."""

_KINDS: dict[tuple[Any, ...], int] = {}
"""Kinds of solves that this process has begun, types and sizes of dynamics and the solver's model: iterations of the
last one that were made here."""

ONCE = "once"
"""Mark of a first solve, kept where a compiled loop would be: the second one makes that, as where one does not fit."""

COPIED = (
    "cost", "highest", "magnitude", "control_weight", "damping", "unit", "resolution", "noise", "grain", "settled",
)  # fmt: skip
"""Attributes that a lane takes from an iterate and gives back."""

LEFT = "lost_X", "lost_U", "unpriced_X", "unpriced_U"
"""Trajectories that a search leaves: see `Single`."""

TRIED = "tried_X", "tried_U", "best_X", "best_U", "kept_X", "kept_U"
"""Trajectories that a search goes through: see `Lane`."""


def expect_others(kept: dict[Any, Any], solver: DDP) -> None:
    """Let the first solve in this memory begin with compiled iterations, as if it were the second one."""
    for limited in (False, True):
        kept.setdefault((solver.hessian, limited), ONCE)


class Chosen:
    """Choice between iterations in Python and compiled ones, for one solve; after these, `leave` brings all up to date.

    Compiled ones pay from the second solve of a problem on, or of another in its memory, after `SOON` iterations of a
    first one, and where the last solve of the kind took `WORTH` of them. The first solve of each kind in a process
    begins with them where the process compiles kernels, so that later ones compile nothing. Where all came from the
    cache it takes Python's alone: to load the others costs half as much as all else in such a solve, .04 s.
    """

    def __init__(self, iterate: Iterate, solver: DDP) -> None:
        self._iterate, self._solver, self._count = iterate, solver, 0
        self._loop: CompiledIterations | None = None
        knows = not iterate.foreign and ability(iterate.problem.dynamics, "routines") is not None and iterate.work.alone
        self._serves = self._possible = knows and not obstacle_but_dynamics(iterate.problem, solver)
        self._limited, self._due = iterate.limited, False
        if self._serves:
            self._choose()

    def _choose(self) -> None:
        """Choose for an iterate whose sweeps know limits of controls, or do not: each has memory of its own."""
        iterate, solver, kept = self._iterate, self._solver, self._iterate.work.kept
        problem, d, name = iterate.problem, iterate.problem.dynamics, self._name
        kind, found = (type(d), d.n, d.nu, getattr(d, "integrator", ""), *name), kept.get(name)
        self._kind, self._limited, self._loop, self._possible, self._due = kind, iterate.limited, None, True, False
        if isinstance(found, CompiledIterations) and found.turned(problem, solver):
            iterate.adopt(found.backward)
            self._loop = found
        elif found is not None or _KINDS.get(kind, 0) >= WORTH or (kind not in _KINDS and has_compiled()):
            self._due = True
        else:
            self._possible = kind in _KINDS
        _KINDS.setdefault(kind, 0)
        kept.setdefault(name, ONCE)

    @property
    def _name(self) -> tuple[Any, ...]:
        return self._solver.hessian, self._iterate.limited

    def _begin(self) -> None:
        """Lay out memory, if the dynamics have routines."""
        iterate, solver = self._iterate, self._solver
        routines = routines_of(iterate.problem, True)
        self._serves = self._possible = self._due = routines is not None
        if routines is not None:
            with unchanging():
                self._loop = iterate.work.kept[self._name] = CompiledIterations(iterate, solver, routines)

    def serves(self, model: HessianModel) -> bool:
        """Whether the next iteration with this model is to be compiled."""
        if self._serves and self._limited != self._iterate.limited:
            self._choose()
        self._count += 1
        if self._loop is None and (self._due or (self._possible and self._count > SOON)):
            self._begin()
        return self._loop is not None and (self._loop.at is not None or type(model) in (Model, Mixed))

    def improve(self, model: HessianModel, tolerance: float) -> Improved | None:
        """Make an iteration; None, after `leave`, if no sweep succeeds."""
        assert self._loop is not None
        if self._loop.at is None:
            assert isinstance(model, Model)
            self._loop.enter(self._iterate, model, tolerance)
        return self._loop.improve()

    def leave(self) -> None:
        """Write all back to the iterate and the model."""
        if self._serves:
            _KINDS[self._kind] = self._count
        if self._loop is not None:
            self._loop.leave()


class CompiledIterations:
    """One problem in the compiled loop: the only lane of a worker.

    It takes the place of an `Iterate`.   at: that and its model, None of none.   torn: whether it had open gaps.
    """

    def __init__(self, iterate: Iterate, solver: DDP, routines: Routines) -> None:
        problem, backward, out = iterate.problem, iterate.backward, iterate.work.derivatives
        d, N = problem.dynamics, problem.horizon
        nx, n, nu = d.nx, d.n, d.nu
        self.backward = backward
        self._system: tuple[System, object] | None = backward.system
        self._routines: Routines | None = routines
        self._runs, self._lanes, self._options = problem.objective.runs, problem.lanes, _options(solver)
        self._table, self._limits = problem.objective.table_with_notes, (problem.lower, problem.upper)
        self.at: tuple[Iterate, Model] | None = None
        self._noted = noted = _noted(problem)
        own, at = carved(_shapes(N, nx, n, nu, problem.lanes, noted))
        self._own, self.X, self.U, self._numbers = own, own["X"], own["U"], own["numbers"]
        self.gaps, self.torn = own["gaps"], False
        self._second, self._failures = _contracting(backward)
        self._horizons = backward.horizons(ctypes.c_void_p.from_buffer(self._second).value or 0, at["gaps"])
        kinds = len(self._horizons) // 2  # of second orders
        self._whole, T = self._horizons[0], self._horizons[kinds - 1].T
        policy = {"k": address(self._whole.k), "K": address(self._whole.K)}
        sizes = {"N": N, "nx": nx, "n": n, "nu": nu}
        now = {name: at[name] for name in ("X", "U")}
        self._lengths = filled(
            Lengths, **sizes, **now, **policy, gaps=at["gaps"], to_X=at["to_X"], to_U=at["to_U"],
            alphas=at["alphas"], to_notes=at["notes"], noted=noted,
        )  # fmt: skip
        later = {"X": at["best_X"], "U": at["best_U"], "k": policy["k"], "K": at["later_K"]}
        self._sooner = filled(
            Lengths, **sizes, **later, gaps=at["gaps"], to_X=at["to_X"], to_U=at["to_U"], alphas=at["alphas"],
            to_notes=at["notes"], noted=noted,
        )  # fmt: skip
        self._single = filled(
            Single, track=routines.address("track"), lengths=self._lengths, sooner=self._sooner, count=problem.lanes,
            X=own["to_X"], U=own["to_U"], notes=own["notes"], numbers=at["numbers"],
            **{name: at[name] for name in LEFT},
        )  # fmt: skip
        derivatives = {name: address(array) for name, array in zip(Derivatives._fields, out[:-1], strict=False)}
        self._trajectory, self._in_limits = (
            filled(
                Trajectory, **sizes, **now, **{name: derivatives[name] for name in ("A", "B", "record")},
                records=d.record_size, weights=address(self._whole.weights), T=address(second), size=second[0].size,
            )
            for second in (T, self._whole.T)
        )  # fmt: skip
        limits = dict[str, Any]()
        if iterate.limited:
            self._scratch, (low, high) = backward.scratch, backward.limits
            limits = {"low": low.reshape(-1), "high": high.reshape(-1), "scratch": self._scratch.address}
        self._derived = filled(Derived, **derivatives, owner=-1)
        self._decisions = filled(Decisions, **_lists_of_decisions())
        second, swept = solver.hessian != "gauss-newton", backward.sizes
        self._worker, self._owner = worker_of(
            problem, solver, routines, single=self._single, count=1,
            sweeping=sweeping_of(sweep_function(*swept).address, N, backward.room),
            weigh=weigh_of(*swept).address if second else 0,
            contract=routines.address("contract") if second else 0,
            within=within_function(n, nu).address if iterate.limited else 0,
        )  # fmt: skip
        horizons = np.zeros((2, 2, 2), dtype=np.int64)  # see `horizon_at`
        for torn, some in enumerate((self._horizons[:kinds], self._horizons[kinds:])):
            horizons[torn, :, :kinds] = [horizon.address for horizon in some]
        self._lane = lane_of(
            worker=self._worker.address, table=address(self._table), derived=self._derived, decisions=self._decisions,
            horizons=horizons.reshape(-1), trajectory=self._trajectory.address,
            boxed_trajectory=self._in_limits.address, **limits,
            **now, **policy, **{name: at[name] for name in TRIED}, gaps=at["gaps"], later_K=at["later_K"],
        )  # fmt: skip
        self._worker.lanes = np.array([self._lane.address])
        for lengths in (self._lengths, self._sooner):
            lengths.lower, lengths.upper = address(self._worker.lower), address(self._worker.upper)

    def turned(self, problem: Problem, solver: DDP) -> bool:
        """Turn to a problem whose dynamics have this structure, or to the last one again.

        False, and nothing is done, for any other.
        """
        sizes = problem.lanes, _noted(problem)
        alike = problem.objective.has_runs(self._runs) and sizes == (self._lanes, self._noted)
        if not (alike and _options(solver) == self._options and self._has_turned(problem, solver)):
            return False
        self._turn_to(problem)
        return True

    def _has_turned(self, problem: Problem, solver: DDP) -> bool:
        """Turn to the dynamics of a problem; False if they have another structure, or no routines."""
        backward = self.backward
        if not backward.turned(problem.dynamics, problem.structure):
            return False
        if backward.system is self._system:
            return True
        before, self._system, self._routines = self._routines, None, None
        routines = routines_of(problem, True, before)
        if routines is None:
            return False
        self._system, self._routines = backward.system, routines
        contract = routines.address("contract") if solver.hessian != "gauss-newton" else 0
        point_to(
            self._worker, expand=routines.address("expand"), context=routines.context, contract=contract,
            hands_over=int(solver.hands_over(problem)),
        )  # fmt: skip
        point_to(self._single, track=routines.address("track"))
        backward.lend(ctypes.c_void_p.from_buffer(self._second).value or 0, self._horizons)
        return True

    def _turn_to(self, problem: Problem) -> None:
        """Serve another problem of the same dynamics, or the last one again."""
        self.at, table = None, problem.objective.table_with_notes
        if table is self._table and problem.lower is self._limits[0] and problem.upper is self._limits[1]:
            return
        self._table, self._limits = table, (problem.lower, problem.upper)
        lower, upper = map(address, self._limits)
        point_to(self._lane, table=address(table))
        point_to(self._worker, terms=len(table), lower=lower, upper=upper, limited=int(problem.limited))
        for lengths in (self._lengths, self._sooner):
            point_to(lengths, lower=lower, upper=upper)

    def improve(self) -> Improved | None:
        """Make an iteration; None, after `leave`, if no sweep succeeds."""
        assert self.at is not None
        iterate = self.at[0]
        single.iterate(self._worker.address)
        if self._failures:
            raise self._failures.pop()
        verdict, touches, cost, gradient, expected, alpha, mu, m, blend, by = self._numbers.tolist()
        if verdict == NO_STEP:
            self.leave()
            return None
        iterate.cost = cost
        if iterate.gap > 0.0:
            iterate.gap = read_one(self._lane, "gap")
        if touches:
            self.leave()
            iterate.limit()
        named = NAMES[int(m)], blend, iterate.gap, CONTRACTIONS[int(by)]
        return Improved(int(verdict), cost, gradient, expected, alpha, mu, *named)

    def enter(self, iterate: Iterate, model: Model, tolerance: float) -> None:
        """Go on where an iterate and a model are."""
        self.at, self.torn = (iterate, model), iterate.gap > 0.0
        lane, numbers = self._lane, model.numbers
        self.X[:], self.U[:], self.gaps[:] = iterate.X, iterate.U, iterate.gaps
        iterate.X, iterate.U = self.X, self.U
        age, followed = iterate.backward.state
        found = {name: getattr(iterate, name) for name in COPIED}
        found |= {"limited": int(iterate.limited), "scaled": iterate.known != 0, "age": age, "followed": followed}
        found |= {"gap": iterate.gap, "torn": int(self.torn), "timed": int(iterate.timed)}
        assign(lane, found)
        assign(self._derived, {"owner": 0, "known": iterate.known})
        assign(self._single, {"lost": 0, "diverged": 0})
        assign(self._worker, {"tolerance": tolerance})
        numbers.tolerance = model.limits.tolerance
        write_like(self._decisions, numbers)

    def leave(self) -> None:
        """Leave all as it is to the iterate and the model."""
        if self.at is None:
            return
        (iterate, model), self.at, lane = self.at, None, self._lane
        iterate.place(self.X.copy(), self.U.copy(), self.gaps.copy() if self.torn else iterate.gaps)
        for name, value in zip(COPIED, read_all(lane, COPIED), strict=True):
            setattr(iterate, name, value)
        owner, known = read_all(self._derived, ("owner", "known"))
        iterate.known = known if owner == 0 else 0
        age, followed, by, unpriced = read_all(lane, ("age", "followed", "by", "unpriced"))
        self.backward.state = age, followed
        read_like(self._decisions, model.numbers)
        slope, expected, gradient = read_all(lane, ("slope", "expected", "gradient"))
        iterate.swept = Sweep(self._whole.k, self._whole.K, slope, expected, gradient, -1, CONTRACTIONS[by])
        line = iterate.line
        lost_X, lost_U, unpriced_X, unpriced_U = (self._own[name] for name in LEFT)
        diverged, lost = read_all(self._single, ("diverged", "lost"))
        if lost:
            line.lost = lost_X.copy(), lost_U.copy()
        line.diverged = line.lost if diverged else None
        line.unpriced = (unpriced_X.copy(), unpriced_U.copy()) if unpriced else None


def _options(solver: DDP) -> tuple[Any, ...]:
    """Options that memory is laid out for."""
    return solver.hessian, solver.search, solver.regularization


def _noted(problem: Problem) -> int:
    """Numbers of a knot that rollouts note for costs."""
    return int(ability(problem.dynamics, "notes_size")) if problem.objective.noted else 0


@lru_cache(maxsize=64)
def _shapes(N: int, nx: int, n: int, nu: int, lanes: int, noted: int) -> dict[str, tuple[int, ...]]:
    trajectories = "X", "U", *TRIED, *LEFT
    return {name: (N + 1, nx) if name.endswith("X") else (N, nu) for name in trajectories} | {
        "to_X": (lanes, (N + 1) * nx), "to_U": (lanes, N * nu), "gaps": (N, n), "alphas": (WIDTH,),
        "numbers": (REPORTED,), "notes": (lanes, N * noted), "later_K": (N, nu, n),
    }  # fmt: skip


def _lists_of_decisions() -> dict[str, Any]:
    """Arrays for the lists of a `Globalisation`, out of one of floats and one of integers."""
    sizes, places = _places_of_lists()
    arrays: dict[type, Any] = {kind: np.zeros(size, dtype=kind) for kind, size in sizes.items()}
    return {name: arrays[kind][begin:end] for name, kind, begin, end in places}


@cache
def _places_of_lists() -> tuple[dict[type, int], tuple[tuple[str, type, int, int], ...]]:
    """Numbers of each type in the lists of a `Globalisation`, and of each list its type, begin and end."""
    sizes, places = {float: 0, int: 0}, []
    for name, values in vars(Globalisation(Limits(), 0, False, -1)).items():
        if isinstance(values, list):
            kind = type(values[0])
            places.append((name, kind, sizes[kind], sizes[kind] + len(values)))
            sizes[kind] += len(values)
    return sizes, tuple(places)


def _contracting(backward: Backward) -> tuple[Any, list[BaseException]]:
    """Make a C function that contracts by the dynamics' own one, and a list that takes exceptions of doing so.

    Sweeps call it until `Backward.contraction` has given them that one, so that it is compiled where it is called
    for, which is seldom.
    """
    failures: list[BaseException] = []

    def contract(context: int, *arrays: int) -> None:
        try:
            made = backward.contraction()
            C_FUNCTION(made.address)(made.context, *arrays)
        except BaseException as failure:  # none can leave a C function
            failures.append(failure)

    return C_FUNCTION(contract), failures
