"""Memory of the compiled loop: what problems have in common, a worker for each thread, arguments and results."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.batch import loop
from ddp.batch.full_space import full_space_of
from ddp.batch.lanes import BY_RATIO, IDLE, NOT_SWEPT, NUMBERS, OWN_RULES, TENFOLD, Decisions, Derived, Lane, Worker
from ddp.derivatives import Derivatives
from ddp.interior.solve import is_small
from ddp.machine.aligned import aligned_zeros
from ddp.machine.following import eight_of
from ddp.machine.number import WIDTH
from ddp.machine.recycled import recycled_rows
from ddp.machine.trajectories import Trajectory
from ddp.machine.variables import made_like
from ddp.machine.written import address, filled
from ddp.models.attempt import Limits
from ddp.models.built_in import RULES
from ddp.models.globalisation import DAMPED, GAUSS_NEWTON, LM_TRIES, Globalisation
from ddp.models.regularization import ByRatio, Tenfold
from ddp.options import DDP
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.search import Backtracking
from ddp.solutions.columns import shapes
from ddp.sweeps.horizon import Horizon, horizon_of
from ddp.sweeps.lane_sweep import eight_sweeps, eight_sweeps_of
from ddp.sweeps.limits import scratch_of
from ddp.sweeps.room import RoomOwner
from ddp.sweeps.sized_limits import within_function
from ddp.sweeps.sized_sweep import weigh_of
from ddp.sweeps.sweeping import sweep_function, sweeping_of
from ddp.systems.structure import is_underactuated, shape_of_second
from ddp.systems.system import MOTIONS, Routines, ability

SHARE, ALONE = 64, 1024
"""Problems that a thread takes at a time, one of several or alone: until they are done nothing can be interrupted."""

LANES = 2 * WIDTH
"""Lanes of problems that sweep together, at most, so that eight of them wait for the same."""

SHARED = 4
"""States and controls, at most, of problems that sweep together, eight in a register: see `lane_sweep`."""


def obstacle(problem: Problem, solver: DDP) -> str:
    """Why problems cannot be solved by the compiled loop, in words; empty if they can."""
    if found := obstacle_but_dynamics(problem, solver):
        return found
    if problem.objective.noted:
        return "costs on contact forces"
    if routines_of(problem) is not None:
        return ""
    known = "rigid robots without contacts or of traced functions, in explicit steps"
    return f"dynamics ({type(problem.dynamics).__name__}) other than of {known}"


def routines_of(problem: Problem, alone: bool = False, before: Routines | None = None) -> Routines | None:
    """Routines of a problem's dynamics, see `Abilities`; None if there are none."""
    make = ability(problem.dynamics, "routines")
    return None if make is None else make(problem.horizon, alone, before)


def obstacle_but_dynamics(problem: Problem, solver: DDP) -> str:
    """`obstacle` without that of the dynamics, which takes memory to find out."""
    objective = problem.objective
    if problem.constrained:
        return "constraints"
    if objective.interpreted:
        return "cost terms in Python"
    plain = isinstance(solver.hessian, str) and solver.multipliers == "auto" and solver.constraints is None
    own = type(solver.search) is Backtracking and type(solver.regularization) in (type(None), Tenfold, ByRatio)
    if not (plain and own and solver.reuse == 0 and solver.segments == 1 and solver.step != "linear"):
        return "options of the solver"
    return ""


@dataclass
class Guess:
    """Guesses of M problems, or (1, ...) of one for all: a policy to be followed from x0, or controls alone."""

    X: Array
    U: Array
    K: Array
    alone: bool


@dataclass
class Results:
    """Results of M problems; numbers (M, .): see lanes.py. Multipliers and penalties are of constraints."""

    X: Array
    U: Array
    k: Array
    K: Array
    multipliers: Array
    penalties: Array
    numbers: Array

    @classmethod
    def empty(cls, problem: Problem, count: int) -> "Results":
        """Memory for results, which is not initialised, and used again."""
        return cls(*recycled_rows(count, *shapes(problem).values(), (NUMBERS,)))


class _Memory:
    """One thread's: derivatives, lanes, ``most`` of them, and the records of the loop. ``keeps`` them alive."""

    def __init__(self, problem: Problem, solver: DDP, most: int) -> None:
        d, N = problem.dynamics, problem.horizon
        nx, n, nu, structure = d.nx, d.n, d.nu, problem.structure
        sizes = n, nu, len(structure.swept[0]) > 0, len(structure.halves[1])
        self.shares = max(n, nu) <= SHARED
        count = min(LANES if self.shares else WIDTH, most)
        self.derivatives = problem.allocate(lambda shape: aligned_zeros((count if self.shares else 1, *shape)))
        self.derived = [
            filled(Derived, **dict(zip(Derivatives._fields, map(address, own), strict=False)), owner=-1)
            for own in zip(*self.derivatives[:-1], strict=True)
        ]
        numbers_of_T = shape_of_second(structure, n, nu)
        self.T = aligned_zeros((count, N, *numbers_of_T))
        routines = routines_of(problem)
        assert routines is not None
        self.routines = routines
        self.room = RoomOwner(*sizes)
        self.sweeping = sweeping_of(sweep_function(*sizes).address, N, self.room.address)
        self.weigh = weigh_of(*sizes)
        lengths = [(N + 1) * nx, N * nu] * 4 + [N * nu, N * nu * n, N * n, N * nu * n * problem.limited]
        rows = [aligned_zeros((count, length)) for length in lengths]
        self.rows = rows
        self.eight = eight_of(N, nx, n, nu)
        self.weights = np.zeros((N, n))
        self.owners = list[Any]()
        self.problem, self.solver, self.contraction = problem, solver, d.contraction()
        numbers = Globalisation(
            Limits(solver.tolerance, solver.switch, solver.max_regularization), DAMPED if solver.hessian == "exact" else
            GAUSS_NEWTON, solver.hessian != "auto", LM_TRIES if solver.hessian == "auto" else -1,
        )  # fmt: skip
        self.separable = problem.separable.astype(np.int64)
        self.shared, self.share_sweeps = None, 0
        if self.shares:
            blockwise = structure.blockwise == MOTIONS  # of other blocks it has no routines
            self.shared = eight_sweeps((N, n, nu), numbers_of_T, blockwise, self.separable, structure.swept)
            self.share_sweeps = eight_sweeps_of(*sizes, blockwise).address
        self.worker, self.owner = worker_of(
            problem, solver, self.routines, sweeping=self.sweeping, eight=self.eight, shared=self.shared,
            share_sweeps=self.share_sweeps, weigh=self.weigh.address, follow=self.routines.address("follow"),
            contract=self.routines.address("contract"),
            within=within_function(n, nu).address if problem.limited else 0, fresh=made_like(Decisions, numbers),
        )  # fmt: skip
        self.lanes = [self._lane(index, numbers) for index in range(count)]
        addresses = np.array([lane.address for lane in self.lanes], dtype=np.int64)
        self.worker.count, self.worker.lanes = count, addresses
        self.eight.lower, self.eight.upper = address(self.worker.lower), address(self.worker.upper)

    def _of_lane(self, index: int) -> Derivatives:
        """Derivatives of a lane, which are those of all lanes where they take turns."""
        parts = self.derivatives._asdict().items()
        return Derivatives(**{name: part[index if self.shares else 0] if part.size else part for name, part in parts})

    def _box(self) -> dict[str, Array]:
        """Memory of one lane for sweeps within limits."""
        d, N, closing = self.problem.dynamics, self.problem.horizon, self.problem.dynamics.closing()
        n, nu, nz = d.n, d.nu, d.n + d.nu
        return {
            "low": np.zeros((N, nu)), "high": np.zeros((N, nu)), "held": np.zeros((N, nu)),
            "rows": np.zeros((N, nu * (nz + 1))),
            "bends": np.zeros((N if closing.address else 1, 2, n, n)),
        }  # fmt: skip

    def _horizon(self, index: int, second: Array, in_blocks: bool, torn: bool, box: dict[str, Array]) -> Horizon:
        """Everything that a sweep of one lane reads and writes."""
        d, structure, rows = self.problem.dynamics, self.problem.structure, self.rows
        N, nu, n = self.problem.horizon, d.nu, d.n
        horizon = horizon_of(
            self._of_lane(index), second, structure.halves, d.closing(), np.zeros((1, 2, n, n)), structure.blocks, False
        )
        return horizon.replace(
            coupled=self.problem.objective.coupled, in_blocks=structure.blockwise if in_blocks else 0,
            weights=self.weights, contraction=self.contraction.address, context=self.contraction.context,
            torn=int(torn),
            gaps=rows[10][index].reshape(N, n), k=rows[8][index].reshape(N, nu), K=rows[9][index].reshape(N, nu, n),
            limited=int(bool(box)), **box,
        )  # fmt: skip

    def _lane(self, index: int, numbers: Globalisation) -> Lane:
        d, structure = self.problem.dynamics, self.problem.structure
        N, nz = self.problem.horizon, d.n + d.nu
        out, blockwise, limited, T = self._of_lane(index), structure.blockwise, self.problem.limited, self.T[index]
        box, each = (self._box(), np.zeros((N, nz, nz))) if limited else ({}, T)
        second = np.zeros((1, nz, nz)) if blockwise else T
        horizons = [
            self._horizon(index, T if in_blocks else each if boxed else second, in_blocks, torn, box if boxed else {})
            if bool(blockwise) >= in_blocks and limited >= boxed else None
            for torn in (False, True) for boxed in (False, True) for in_blocks in (False, True)
        ]  # fmt: skip
        X, U, tried_X, tried_U, best_X, best_U, kept_X, kept_U, k, K, gaps, later_K = (row[index] for row in self.rows)
        trajectory = Trajectory(
            N=N, nx=d.nx, n=d.n, nu=d.nu, records=d.record_size, X=address(X), U=address(U), A=address(out.A),
            B=address(out.B), record=address(out.record), weights=address(self.weights), T=address(T), size=T[0].size,
        )  # fmt: skip
        decisions = made_like(Decisions, numbers)
        boxed_trajectory = trajectory.replace(T=address(each), size=each[0].size)
        scratch = scratch_of(N, d.n, d.nu)
        full_space: Any = 0
        small = self.solver.hands_over(self.problem) and is_small(self.problem)
        if small and is_underactuated(d):  # of others rollouts, which are shared, cost less
            full_space, owner = full_space_of(self.problem, self.solver, self.routines)
            self.owners.append(owner)
        self.owners += [horizons, boxed_trajectory, each, scratch, trajectory, decisions]
        return lane_of(
            worker=self.worker.address, index=index, derived=self.derived[index if self.shares else 0],
            decisions=decisions, full_space=full_space,
            horizons=np.array([0 if one is None else one.address for one in horizons]),
            **{name: box.get(name, np.zeros(1)).reshape(-1) for name in ("low", "high")}, scratch=scratch.address,
            trajectory=trajectory.address, boxed_trajectory=boxed_trajectory.address, gaps=gaps, k=k, K=K,
            X=X, U=U, tried_X=tried_X, tried_U=tried_U, best_X=best_X, best_U=best_U, kept_X=kept_X, kept_U=kept_U,
            later_K=later_K,
        )  # fmt: skip

    def run(self, begin: int, end: int) -> None:
        """Solve some of the problems that the worker was given."""
        self.worker.next, self.worker.end = begin, end
        loop.run(self.worker.address)


def lane_of(**given: Any) -> Lane:
    """A lane without a problem, of which all else is zero."""
    return filled(Lane, stage=IDLE, age=-1, sweep=NOT_SWEPT, contracted=np.zeros(3, dtype=np.int64), **given)


def worker_of(problem: Problem, solver: DDP, routines: Routines, **given: Any) -> tuple[Worker, Any]:
    """A worker without lanes, who solves problems like one, and what it points to."""
    d, N, objective = problem.dynamics, problem.horizon, problem.objective
    search, rule = solver.search, solver.regularization
    assert isinstance(search, Backtracking)
    steps = rule if isinstance(rule, Tenfold) else RULES[GAUSS_NEWTON]
    ratio = rule if isinstance(rule, ByRatio) else RULES[DAMPED]
    runs = objective.runs.copy()
    separable, costs = problem.separable.astype(np.int64), np.zeros(N + 1)
    worker = filled(
        Worker, N=N, nx=d.nx, n=d.n, nu=d.nu, records=d.record_size, expand=routines.address("expand"),
        context=routines.context, terms=len(objective.table_with_notes), runs=address(runs), run_count=len(runs),
        bends=int(problem.curved), separable=address(separable), costs=address(costs),
        batched=int(problem.structure.batched), limited=int(problem.limited), lower=problem.lower, upper=problem.upper,
        hands_over=int(solver.hands_over(problem)), tolerance=solver.tolerance, limit=solver.max_iterations,
        share=search.share, shortest=search.shortest, generous=search.generous, last_sweep=int(solver.last_sweep),
        is_exact=int(solver.hessian != "gauss-newton"),
        rule=OWN_RULES if rule is None else TENFOLD if isinstance(rule, Tenfold) else BY_RATIO,
        factor=steps.factor, short=steps.short, long=steps.long, floor=ratio.floor,  # type: ignore[union-attr]
        taken=np.zeros(WIDTH, dtype=np.int64), **given,
    )  # fmt: skip
    return worker, (runs, separable, costs)


class Native:
    """The compiled loop for problems of one kind; threads share them, and each has ``most`` lanes, no more."""

    def __init__(self, problem: Problem, solver: DDP, threads: int, most: int) -> None:
        self._problem, self._solver = problem, solver
        self._memories = [_Memory(problem, solver, most) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads - 1, thread_name_prefix="mayne") if threads > 1 else None

    def solve(
        self, x0: Array, guess: Guess, tables: list[NDArray[np.int64]], out: Results, which: Any = slice(None)
    ) -> None:  # fmt: skip
        """Solve problems from x0 (M, nx), or some of them, with tables of cost terms of each, or one for all."""
        if not isinstance(which, slice):
            X, U, K = (part if len(part) == 1 else part[which] for part in (guess.X, guess.U, guess.K))
            some = Results.empty(self._problem, len(which))
            self.solve(x0[which], Guess(X, U, K, guess.alone), tables, some)
            for name, values in vars(some).items():
                getattr(out, name)[which] = values
            return
        x0 = np.ascontiguousarray(x0)
        d, M = self._problem.dynamics, len(x0)
        u0 = np.ascontiguousarray(np.broadcast_to(guess.U[:, 0], (M, d.nu))).copy()
        if not guess.alone:
            moved = d.difference(np.broadcast_to(guess.X[:, 0], x0.shape), x0)
            u0 += np.einsum("mij,mj->mi", np.broadcast_to(guess.K[:, 0], (M, d.nu, d.n)), moved)
        table = np.ascontiguousarray(np.stack(tables))
        for memory in self._memories:
            w = memory.worker
            w.alone, w.x0, w.u0, w.X, w.U, w.K = int(guess.alone), x0, u0, guess.X, guess.U, guess.K
            w.tables, w.table_step = table.reshape(-1), table[0].size if len(table) > 1 else 0
            w.to_X, w.to_U, w.to_k, w.to_K, w.numbers = out.X, out.U, out.k, out.K, out.numbers
        size = SHARE if self._pool is not None else ALONE
        shares = deque((begin, min(begin + size, M)) for begin in range(0, M, size))

        def work(memory: _Memory) -> None:
            while True:
                try:
                    begin, end = shares.popleft()
                except IndexError:
                    return
                memory.run(begin, end)

        if self._pool is None:
            work(self._memories[0])
            return

        others = [self._pool.submit(work, memory) for memory in self._memories[1:]]
        work(self._memories[0])
        for other in others:
            other.result()

    def close(self) -> None:
        """End threads."""
        if self._pool is not None:
            self._pool.shutdown()
