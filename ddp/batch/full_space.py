# mypy: allow-untyped-defs, allow-untyped-calls
"""Full-space steps of lanes whose rollouts are short: those of `ddp.solve`, see `ddp.interior.handover`.

They take a lane from there to the minimum; first sweeps of their iterations are shared, as those of rollouts are.
Where `ddp.solve` would do anything else, the problem is left to it.
"""

from typing import Any

from ddp.batch.iterates import close_gaps, forget
from ddp.batch.lanes import FOLLOWS, NOT_SWEPT, SWEEPS, Derived, FullSpace, Lane, Worker
from ddp.batch.loop import leave
from ddp.batch.sweeps import copy
from ddp.compiling.kernel import callback, kernel
from ddp.derivatives import Derivatives
from ddp.interior import iteration, passes, trials
from ddp.interior.correction import choose_first, choose_next
from ddp.interior.course import KNOWN, MOVED, NEARLY, START, UNKNOWN, magnitude
from ddp.interior.handover import WORSE
from ddp.interior.iteration import ENDS, INDEFINITE, TOOK, Decisions
from ddp.interior.layout import Workplace
from ddp.interior.memory import Memory, trajectory
from ddp.interior.solve import PATIENCE_WITHIN
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import floats_at
from ddp.machine.written import address, assign, copied, filled
from ddp.options import DDP
from ddp.parallel.workers import local
from ddp.problem import Problem
from ddp.sweeps.sweeping import Sweeping
from ddp.systems.system import Routines


def full_space_of(problem: Problem, solver: DDP, routines: Routines) -> tuple[FullSpace, Any]:
    """Memory of one lane's full-space steps for problems like one, and what it points to."""
    place = Workplace(problem, problem.rows, local(problem), False, routines)
    place.serve(place.bounds)
    memory, terms, limit, swept = place.memory, problem.objective.table.copy(), solver.max_iterations, place.swept
    memory.terms = address(terms)
    assign(memory, {"given": place.bounds.address, "imposed": place.imposed.address})
    first, (k, K) = place.decisions, place.backward.policy
    assign(first, {"tolerance": solver.tolerance, "limit": limit})
    course = copied(first)
    derived = {name: address(array) for name, array in zip(Derivatives._fields, swept[:-1], strict=False)}
    record = filled(
        FullSpace, go_on=_go_on.address, most=limit - PATIENCE_WITHIN, memory=memory.address, course=course.address,
        first_course=first.address, course_words=len(first._words), derived=filled(Derived, **derived),
        T=address(place.backward.second), k=address(k), K=address(K), gaps=address(place.own["gaps"]),
        sweeping=memory.sweeping,
    )  # fmt: skip
    return record, (place, terms, course)


def go_on(worker, lane, unused, none):  # type: ignore[no-untyped-def]
    """C function: take steps until a lane waits for a sweep, or for the rollout at the end; or leave its problem."""
    w, one = Worker(worker), Lane(lane)
    f, came = one.full_space, TOOK
    p, s = Memory(f.memory), Decisions(f.course)
    if one.linear == 0:
        begin(w, one, f, p)
    elif Sweeping(p.sweeping).failed < 0:
        came, _ = iteration.run(f.memory, f.course, 1)
    elif choose_next(s, p):
        wait(one, p)
        return
    else:
        came = INDEFINITE
    if came == TOOK and s.done - s.fell < PATIENCE_WITHIN:
        if s.known == MOVED:
            passes.differentiate(f.memory)
        passes.contract(f.memory)
        passes.condense(f.memory)
        s.known, s.chosen = KNOWN, 1
        if choose_first(s, p):
            wait(one, p)
            return
    one.linear, one.sweep = 0, NOT_SWEPT
    if came == ENDS and finish(w, one, f, p, s):
        one.stage, one.alpha = FOLLOWS, 1.0
    else:
        leave(w, one)


@kernel
def wait(lane, p):
    """Let a lane wait for a sweep of the Hessian that is chosen."""
    lane.torn, lane.linear = 1 if p.horizon == p.torn_horizon else 0, 1
    lane.stage, lane.sweep = SWEEPS, NOT_SWEPT


@kernel
def begin(w, lane, f, p):
    """Begin where a lane is: with gaps, derivatives, the scale and first multipliers there."""
    N, nz = w.N, w.n + w.nu
    copy(integers_at(f.course, (f.course_words,)), integers_at(f.first_course, (f.course_words,)), f.course_words)
    copy(integers_at(p.terms, (5 * w.terms,)), integers_at(lane.table, (5 * w.terms,)), 5 * w.terms)
    copy(floats_at(p.X), lane.X, (N + 1) * w.nx)
    copy(floats_at(p.tried_U), lane.U, N * w.nu)
    p.valued = 0
    close_gaps(w, lane)
    trials.begin(f.memory)
    passes.begin(f.memory)
    (X, U, _, _), H, diagonal = trajectory(p), array_at(p.lzz, (N + 1, nz, nz)), array_at(p.diagonal, (N + 1, nz))
    found = magnitude(array_at(p.l, (N + 1,)), integers_at(p.costs_separable, (N + 1,)), H, diagonal, X, U)
    p.scale = found if found > 0.0 else 1.0
    p.barrier = START * p.scale
    iteration.begin(f.memory, f.course, lane.iterations, UNKNOWN)


@kernel
def finish(w, lane, f, p, s):
    """Take a lane to the minimum that steps have led to, with the gains of their last sweep; whether it is one."""
    if not (s.exact and p.gap <= NEARLY and p.cost <= lane.cost + WORSE * abs(lane.cost)):
        return False
    copy(lane.X, floats_at(p.X), (w.N + 1) * w.nx)
    copy(lane.U, floats_at(p.U), w.N * w.nu)
    copy(lane.K, floats_at(f.K), w.N * w.nu * w.n)
    for i in range(w.N * w.nu):
        lane.k[i] = 0.0
    forget(lane)
    lane.iterations, lane.scaled, lane.followed, lane.age, lane.torn = s.done, 0, 1, -1, 0
    return True


_go_on = callback(go_on)
