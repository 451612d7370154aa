# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loop over many problems: eight roll out, or sweep, at once, and each goes on alone until it
needs the next rollout or sweep.

Decisions are those of `ddp.solve`: globalisation.py, `ddp.search.judged` and `ddp.descent.judged`. What a problem comes
to depends on no other: a lane's arithmetic is its own, and whoever is done makes room for the next one.
"""

import numpy as np

from ddp.batch import iterates, later_policies
from ddp.batch.lanes import (
    BEGINS,
    COMES_SOONER,
    CONVERGED,
    COST,
    DONE,
    ENDING,
    EXACT_GAINS,
    EXPECTED,
    FOLLOWS,
    GOES_FURTHER,
    GRADIENT,
    IDLE,
    ITERATIONS,
    LEFT,
    NO_STEP,
    NOT_SWEPT,
    OPENS,
    ROUNDING,
    SEARCHES,
    SWEEPS,
    Lane,
    Worker,
)
from ddp.batch.sweeps import copy, know, price, sweep_together
from ddp.compiling.kernel import apart, call_contraction, kernel
from ddp.derivatives import FIRST, GAUSS_NEWTON
from ddp.descent import CONVERGED as ENDS_CONVERGED
from ddp.descent import GOES_ON, STATIONARY
from ddp.iterate import swept_last
from ddp.machine.memory import address_of
from ddp.machine.number import WIDTH
from ddp.models.globalisation import NOBODY, OWN, Outcome, attempted, follow_up, leads_astray, searched
from ddp.search import SHORT, SURPASSED, TAKEN, judged
from ddp.starts import ASTRAY, CLOSED, WORSE


@kernel
def run(worker):
    """Solve the problems from ``next`` on, to ``end``: whatever more lanes wait for, sweeps or rollouts, comes next."""
    w = Worker(worker)
    while True:
        sweeping, rolling = 0, 0
        for k in range(w.count):
            lane = Lane(w.lanes[k])
            while lane.stage == IDLE and w.next < w.end:
                load(w, lane)
            sweeping += 1 if lane.stage == SWEEPS else 0
            rolling += 1 if lane.stage >= BEGINS else 0
        if sweeping + rolling == 0:
            return
        if sweeping > rolling:
            sweep(w)
        else:
            roll_out(w)


@kernel
def sweep(w):
    """Sweep for lanes that wait for that, and go on."""
    sweep_together(w)
    for k in range(w.count):
        lane = Lane(w.lanes[k])
        if lane.stage == SWEEPS and lane.sweep != NOT_SWEPT and lane.linear != 0:
            call_contraction(lane.full_space.go_on, w.address, lane.address, 0, 0)
        elif lane.stage == SWEEPS and lane.sweep != NOT_SWEPT:
            propose(w, lane, lane.decisions.model)


@kernel
def roll_out(w):
    """Roll out for eight lanes that wait for that, and go on; where there are fewer, the first one is there again."""
    eight, count = w.eight, 0
    eight.torn, eight.any_imposed = 0, 0
    for i in range(w.count):
        k = (w.turn + i) % w.count
        if Lane(w.lanes[k]).stage >= BEGINS and count < WIDTH:
            w.taken[count] = k
            count += 1
    for i in range(WIDTH):
        lane = Lane(w.lanes[w.taken[i if i < count else 0]])
        eight.X[i], eight.U[i], eight.to_X[i] = address_of(lane.X), address_of(lane.U), address_of(lane.tried_X)
        eight.k[i], eight.K[i], eight.to_U[i] = address_of(lane.k), address_of(lane.K), address_of(lane.tried_U)
        if lane.stage == COMES_SOONER:
            eight.X[i], eight.U[i] = address_of(lane.best_X), address_of(lane.best_U)
            eight.K[i] = address_of(lane.later_K)
        eight.gaps[i], eight.alphas[i] = address_of(lane.gaps), lane.alpha
        eight.imposed[i] = 1.0 if lane.stage == OPENS else 0.0
        eight.torn |= lane.torn
        eight.any_imposed |= 1 if lane.stage == OPENS else 0
    w.turn = w.taken[count - 1] + 1
    call_contraction(w.follow, w.context, eight.address, 0, 0)
    for i in range(count):
        lane = Lane(w.lanes[w.taken[i]])
        arrive(w, lane, price(w, lane, lane.tried_X, lane.tried_U, lane.tried_X, 0))


@kernel
def load(w, lane):
    """Give a lane the next problem: its rollout is that of the guess."""
    lane.problem = w.next
    w.next += 1
    M, N, nx, nu = lane.problem, w.N, w.nx, w.nu
    lane.table = address_of(w.tables) + 8 * w.table_step * M
    copy(lane.X, w.X[M if len(w.X) > 1 else 0], (N + 1) * nx)
    copy(lane.U, w.U[M if len(w.U) > 1 else 0], N * nu)
    copy(lane.K, w.K[M if len(w.K) > 1 else 0], N * nu * w.n)
    for t in range(N + 1 if w.alone != 0 else 1):
        copy(lane.X[t * nx :], w.x0[M], nx)
    copy(lane.U, w.u0[M], nu)
    if w.alone != 0:
        iterates.clip(w, lane.U, lane.U)
    lane.limited, lane.timed = 0, 1 if w.alone == 0 else 0
    for i in range(N * nu):
        lane.k[i] = 0.0
    iterates.forget(lane)
    iterates.close_gaps(w, lane)
    lane.scaled, lane.followed, lane.age, lane.settled, lane.iterations = 0, 0, -1, 0, 0
    lane.stage, lane.sweep = BEGINS, NOT_SWEPT
    lane.alpha = 1.0
    renew(lane.decisions, w.fresh)


@kernel
def renew(s, f):
    """Decisions of a solve that begins."""
    s.mode, s.entered, s.model, s.place, s.best = f.mode, f.mode, f.mode, OWN, NOBODY
    s.count, s.previous, s.astray = 0, f.previous, 0
    for m in range(3):
        s.mu[m], s.blend[m], s.failed_mu[m], s.failed[m] = f.mu[m], f.blend[m], 0.0, -1
        s.last[m], s.before[m], s.longest[m], s.trusted[m] = 1.0, 1.0, 1.0, 0
        s.wait[m], s.patience[m], s.tries[m] = 0, 1, f.tries[m]


@kernel
def arrive(w, lane, cost):
    """Go on from where a rollout led, at that cost, or wait for the rollout of another step.

    Kernels that are `apart` are called with a lane without a problem: there they leave it if they cannot be compiled.
    """
    if lane.stage == BEGINS:
        lane.stage = IDLE
        begin(w, lane, cost)
    elif lane.stage == OPENS:
        lane.stage = IDLE
        begin_torn(w, lane)
    elif lane.stage == SEARCHES:
        found = judged(lane, w.share, w.generous, lane.alpha, cost)
        if found == TAKEN:
            search_ended(w, lane, lane.alpha, cost, lane.tried_X, lane.tried_U)
        elif found == SURPASSED:
            keep(w, lane, cost)
            lane.stage, lane.ahead, lane.alpha = GOES_FURTHER, 0, 2.0
        elif lane.alpha >= 2.0 * w.shortest:
            lane.alpha *= 0.5
        else:
            search_ended(w, lane, 0.0, lane.cost, lane.X, lane.U)
    elif lane.stage == FOLLOWS:
        follow_to_end(w, lane, cost)
    elif lane.stage == COMES_SOONER:
        lane.stage = IDLE
        if later_policies.ends(w, lane, cost) and end_iteration(w, lane, GOES_ON, False):
            iterates.begin_iteration(lane.decisions)
            propose(w, lane, lane.decisions.mode)
    else:
        if -np.inf < cost < lane.reached:
            keep(w, lane, cost)
        if lane.alpha == 2.0 or lane.alpha == 8.0 or lane.longer == lane.alpha == 4.0:
            lane.alpha *= 2.0
        else:
            search_ended(w, lane, lane.longer, lane.reached, lane.kept_X, lane.kept_U)


@kernel
def follow_to_end(w, lane, cost):
    """End full-space steps where controls lead, at that cost."""
    copy(lane.X, lane.tried_X, (w.N + 1) * w.nx)
    copy(lane.U, lane.tried_U, w.N * w.nu)
    lane.cost, lane.highest = cost, cost
    if abs(cost) < np.inf and not (cost < 0.0 and iterates.is_far(w, lane)):
        lane.stage = IDLE
        conclude(w, lane, 0.0, CONVERGED)
    else:
        leave(w, lane)


@kernel
def keep(w, lane, cost):
    """Keep the last rollout, while longer steps are tried."""
    lane.reached, lane.longer = cost, lane.alpha
    copy(lane.kept_X, lane.tried_X, (w.N + 1) * w.nx)
    copy(lane.kept_U, lane.tried_U, w.N * w.nu)


@apart
def begin(w, lane, cost):
    """Begin to iterate where the guess leads, or, if that is not worth following, with the states of the guess."""
    iterates.clip(w, lane.U, lane.best_U)
    stayed, worse = price(w, lane, lane.X, lane.best_U, lane.X, 0), WORSE if w.alone != 0 else ASTRAY
    if stayed < np.inf and cost - stayed > (worse - 1.0) * abs(stayed):
        copy(lane.U, lane.best_U, w.N * w.nu)
        lane.cost, lane.highest, lane.stage = stayed, stayed, OPENS
        return
    if not abs(cost) < np.inf:
        leave(w, lane)
        return
    copy(lane.X, lane.tried_X, (w.N + 1) * w.nx)
    copy(lane.U, lane.tried_U, w.N * w.nu)
    lane.cost, lane.highest = cost, cost
    start(w, lane)


@kernel
def start(w, lane):
    """Begin the first iteration."""
    if w.limited != 0 and iterates.is_at_limits(w, lane):
        iterates.limit(w, lane)
    know(w, lane, FIRST | GAUSS_NEWTON)
    propose(w, lane, lane.decisions.mode)


@apart
def begin_torn(w, lane):
    """Begin to iterate with the states of the guess, and the gaps that these leave open."""
    iterates.scale_gaps(w, lane, 1.0)
    if not (lane.gap < np.inf and abs(lane.cost) < np.inf):
        leave(w, lane)
        return
    start(w, lane)


@kernel
def propose(w, lane, model):
    """Sweep until there is a step to search along, or the solve is over; model: to be tried first, or `NOBODY`.

    Where sweeps are shared, the first one of every attempt is waited for.
    """
    s = lane.decisions
    while True:
        while model != NOBODY:
            if w.share_sweeps != 0 and lane.sweep == NOT_SWEPT:
                lane.stage = SWEEPS
                return
            found = attempted(s, model, lane)
            lane.sweep = NOT_SWEPT
            if found.failed < 0:
                lane.expected, lane.gradient, lane.slope = found.expected, found.gradient, lane.found_slope
                lane.contracted[model] = lane.by
                lane.stage, lane.ahead, lane.unpriced = SEARCHES, 0, 0
                lane.alpha = max(s.longest[model], w.shortest)
                return
            model = follow_up(s, lane, False)
        if not finish_iteration(w, lane):
            return
        iterates.begin_iteration(s)
        model = s.mode


@kernel
def search_ended(w, lane, alpha, cost, X, U):
    """Enter an attempt that led to X, U, and go on."""
    s = lane.decisions
    model = s.model
    searched(s, model, lane, Outcome(lane.expected, lane.gradient, -1), alpha, cost)
    following = follow_up(s, lane, True)
    if s.best == model and alpha > 0.0:
        if following != NOBODY:
            copy(lane.best_X, X, (w.N + 1) * w.nx)
            copy(lane.best_U, U, w.N * w.nu)
            X, U = lane.best_X, lane.best_U
        lane.reached_X, lane.reached_U = address_of(X), address_of(U)
    propose(w, lane, following)


@kernel
def finish_iteration(w, lane):
    """Accept the best attempt of an iteration; whether another one follows now."""
    s = lane.decisions
    if s.best == NOBODY and w.single.address != 0:
        iterates.report(w, lane, NO_STEP, False)
        return False
    if s.best == NOBODY and w.limited != 0 and lane.limited == 0:
        iterates.limit(w, lane)
        return True
    if s.best == NOBODY:
        leave(w, lane)
        return False
    f = lane.full_space
    if f.address != 0 and w.alone != 0 and lane.iterations == 0 and f.most >= 0 and leads_astray(s, lane):
        call_contraction(f.go_on, w.address, lane.address, 0, 0)
        return False
    before = lane.cost
    verdict, touches = iterates.accept(w, lane)
    if verdict == GOES_ON and lane.limited != 0:
        lane.stage = IDLE
        if later_policies.begins(w, lane, before):
            return False
    return end_iteration(w, lane, verdict, touches)


@kernel
def end_iteration(w, lane, verdict, touches):
    """Report an iteration, or end the solve or not, by the verdict on it; whether another one follows now.

    touches: whether sweeps have to know limits of controls from now on.
    """
    s = lane.decisions
    if w.single.address != 0:
        iterates.report(w, lane, verdict, touches)
        return False
    if touches:
        iterates.limit(w, lane)
    lane.iterations += 1
    if verdict == STATIONARY or (lane.cost < 0.0 and iterates.is_far(w, lane)):
        leave(w, lane)
        return False
    if verdict != GOES_ON:
        lane.stage = IDLE
        conclude(w, lane, s.expected[s.best], CONVERGED if verdict == ENDS_CONVERGED else ROUNDING)
        return False
    if w.hands_over != 0 and lane.limited != 0 and s.alpha[s.best] <= SHORT:
        leave(w, lane)
        return False
    if lane.iterations >= w.limit and lane.gap >= CLOSED:
        leave(w, lane)
        return False
    if lane.iterations >= w.limit:
        lane.stage = IDLE
        conclude(w, lane, s.expected[s.best], ITERATIONS)
        return False
    return True


@apart
def conclude(w, lane, expected, ending):
    """Sweep for the last gains, and write the result; what is no minimum for certain is left to `ddp.solve`."""
    gradient, exact = lane.gradient, False
    if ending != ITERATIONS or w.last_sweep != 0:
        lane.age = -1
        found, exact = swept_last(lane, ending != ITERATIONS or w.is_exact != 0)
        gradient = found.gradient
        if ending != ITERATIONS and not (exact and iterates.is_minimum(w, lane)):
            leave(w, lane)
            return
        if ending != ITERATIONS and w.is_exact == 0:
            lane.age = -1
            found, exact = swept_last(lane, False)
            gradient = found.gradient
        if found.failed >= 0:
            for i in range(w.N * w.nu):
                lane.k[i] = 0.0
            for i in range(w.N * w.nu * w.n):
                lane.K[i] = 0.0
            gradient = np.nan
    M, N, nx, nu = lane.problem, w.N, w.nx, w.nu
    copy(w.to_X[M], lane.X, (N + 1) * nx)
    copy(w.to_U[M], lane.U, N * nu)
    copy(w.to_k[M], lane.k, N * nu)
    copy(w.to_K[M], lane.K, N * nu * w.n)
    out = w.numbers[M]
    out[COST], out[GRADIENT], out[EXPECTED], out[DONE] = lane.cost, gradient, expected, float(lane.iterations)
    out[ENDING], out[EXACT_GAINS] = float(ending), 1.0 if exact else 0.0
    iterates.close_gaps(w, lane)


@kernel
def leave(w, lane):
    """Leave a problem to `ddp.solve`."""
    w.numbers[lane.problem][ENDING] = float(LEFT)
    iterates.close_gaps(w, lane)
    lane.stage = IDLE
