"""Iterations in one compiled call do what Python's do, bit by bit, in memory that no solve leaves traces in."""

import gc
import threading
import weakref
from dataclasses import dataclass, replace

import numpy as np
import pytest
from same_bits import same

import ddp
import problems
from ddp.batch import compiled_iterations
from ddp.batch.compiled_iterations import CompiledIterations
from ddp.models.regularization import Tenfold
from ddp.parallel import workers
from dynamics import ContinuousDynamics
from problems import arm, gaits, pendulum


@dataclass(frozen=True)
class InPython(ddp.Backtracking):
    """Search of one's own, for which iterations are made in Python."""


def solved(problem, guess=None, search=None, **options):
    solver = ddp.DDP(step="rollout", search=ddp.Backtracking() if search is None else search, **options)
    return ddp.solve(problem, solver, guess, throw=False)


def starts(problem, count, spread):
    rng = np.random.default_rng(7)
    return [spread * rng.normal(size=(problem.horizon, problem.dynamics.nu)) for _ in range(count)]


@pytest.mark.parametrize("hessian", ["auto", "gauss-newton", "exact"])
@pytest.mark.parametrize("name", ["pendulum/swing-up", "cartpole/swing-up", "arm/reach", "integrator/reach"])
def test_compiled_iterations_are_those_of_python(name, hessian):
    problem = problems.find(name).build()
    solved(problem, hessian=hessian)
    for guess in (None, *starts(problem, 3, 2.0)):
        own = solved(problem, guess, hessian=hessian)
        assert same(own, solved(replace(problem), guess, InPython(), hessian=hessian))
        assert own.iterations > 1


def test_compiled_iterations_serve_wherever_they_can(monkeypatch):
    made = []
    improve = CompiledIterations.improve
    monkeypatch.setattr(CompiledIterations, "improve", lambda *args: made.append(1) or improve(*args))
    problem = arm.reach()
    for again in range(3):  # in Python the first time, but for the first solve of a process
        made.clear()
        found = solved(problem)
        assert len(made) == found.iterations or again == 0
    X = np.tile(problem.x0, (problem.horizon + 1, 1))
    X[-1, 0] += 0.1
    made.clear()
    torn = solved(problem, (X, found.U))
    assert len(made) == torn.iterations
    assert torn.start == "the states given"
    assert same(torn, solved(replace(problem), (X, found.U), InPython()))


@pytest.mark.parametrize("hessian", ["auto", "gauss-newton", "exact"])
@pytest.mark.parametrize("name", ["pendulum/swing-up", "cartpole/swing-up", "quadrotor/loop"])
def test_compiled_iterations_close_gaps_as_those_of_python_do(name, hessian, monkeypatch):
    """Of one step or several, in flat spaces and on manifolds, within limits; or go back to the motion of the guess."""
    made, improve = [], CompiledIterations.improve
    monkeypatch.setattr(CompiledIterations, "improve", lambda *args: made.append(1) or improve(*args))
    problem = problems.find(name).build()
    if name.startswith("pendulum"):
        problem = replace(problem, control_limits=(-6.0, 6.0))
    d, rest = problem.dynamics, np.tile(problem.x0, (problem.horizon + 1, 1))
    astray = d.integrate(rest, 0.3 * np.random.default_rng(1).normal(size=(len(rest), d.n)))
    best = solved(problem, hessian=hessian)
    for guess, goes_back in (((astray, best.U), False), ((rest, best.U), True)):
        in_python = solved(replace(problem), guess, InPython(), hessian=hessian)
        for _ in range(2):  # in Python the first time
            made.clear()
            assert same(solved(problem, guess, hessian=hessian), in_python)
        assert len(made) == in_python.iterations
        some_open = any(record.gap > 0.0 for record in in_python.history)
        assert some_open or hessian == "exact" or (goes_back and name != "cartpole/swing-up")
        if goes_back:
            costs = [record.cost for record in in_python.history]
            assert max(costs) > in_python.cost
            assert in_python.cost <= best.cost * (1.0 + 1e-9)


@pytest.mark.parametrize("hessian", ["auto", "gauss-newton", "exact"])
def test_gaits_whose_costs_read_contact_forces_are_iterated_in_compiled_code(hessian, monkeypatch):
    made, improve = [], CompiledIterations.improve
    monkeypatch.setattr(CompiledIterations, "improve", lambda *args: made.append(1) or improve(*args))
    problem = gaits.trot()
    assert problem.objective.noted
    torn = solved(replace(problem), None, InPython(), hessian=hessian)
    rolled = solved(replace(problem), torn.U, InPython(), hessian=hessian)
    for guess, in_python in ((None, torn), (torn.U, rolled)):
        for _ in range(2):  # in Python the first time
            made.clear()
            assert same(solved(problem, guess, hessian=hessian), in_python)
        assert len(made) == in_python.iterations


def test_first_solves_are_compiled_where_that_pays(monkeypatch):
    """After a solve of the same kind that took long, and where others follow; not where the last one was short."""
    made, improve = [], CompiledIterations.improve
    monkeypatch.setattr(CompiledIterations, "improve", lambda *args: made.append(1) or improve(*args))
    monkeypatch.setattr(compiled_iterations, "_KINDS", {})
    monkeypatch.setattr(compiled_iterations, "has_compiled", lambda: False)

    def counts(build):
        made.clear()
        return solved(build()).iterations, len(made)

    monkeypatch.setattr(workers, "_recent", workers._Recent())
    (count, none), (again, compiled) = counts(pendulum.swing_up), counts(pendulum.swing_up)
    assert (none, compiled) == (0, again)
    assert count == again >= compiled_iterations.WORTH
    for _ in range(2):
        monkeypatch.setattr(workers, "_recent", workers._Recent())
        assert counts(arm.reach)[1] == 0
    count, compiled = counts(arm.reach)  # in the memory of one that is gone
    assert count == compiled
    made.clear()
    with ddp.RecedingHorizon(arm.reach(), ddp.DDP(step="rollout")) as controller:
        assert controller.solve(controller.problem.x0).iterations == len(made)


@pytest.mark.parametrize("torque", [0.1, 6.0])  # limits that are met on the way, or where a solve begins
@pytest.mark.parametrize("hessian", ["auto", "gauss-newton", "exact"])
def test_compiled_iterations_keep_to_limits_of_controls(torque, hessian, monkeypatch):
    plain, made = pendulum.swing_up(), []
    improve = CompiledIterations.improve
    monkeypatch.setattr(CompiledIterations, "improve", lambda *args: made.append(1) or improve(*args))
    problem = replace(plain, control_limits=(-6.0, 6.0))
    guess = np.full((problem.horizon, 1), torque)
    in_python = solved(replace(problem), guess, InPython(), hessian=hessian)
    for _ in range(3):  # in Python the first time
        made.clear()
        assert same(solved(problem, guess, hessian=hessian), in_python)
    assert len(made) == in_python.iterations


def test_failing_solves_say_what_python_says():
    plain = pendulum.swing_up()
    bounded = replace(plain, running=[*plain.running, lambda x, u: -1e-3 * np.log(1.0 - (u[0] / 4.0) ** 2)])
    stiff = Tenfold(factor=1e3)
    for problem in (plain, bounded):
        for options in ({"max_regularization": 1e-8, "hessian": "exact"}, {"max_regularization": 1e3}):
            options |= {"regularization": stiff}
            solved(problem, **options)
            for guess in starts(problem, 4, 0.5):
                guess = np.clip(guess, -3.9, 3.9)
                assert same(solved(problem, guess, **options), solved(replace(problem), guess, InPython(), **options))


def test_steps_that_lead_nowhere_raise_mu_as_python_does():
    plain = pendulum.swing_up()
    problem = replace(plain, running=[*plain.running, lambda x, u: 1e-3 * np.sqrt(1.0 - x[0])])
    solved(problem)
    for guess in starts(problem, 4, 0.5):
        own = solved(problem, guess)
        assert same(own, solved(replace(problem), guess, InPython()))
        assert any(record.step == 0.0 for record in own.history)


def test_no_solve_depends_on_an_earlier_one():
    problem = arm.reach()
    other = problem.varying(x0=problem.x0 + 0.05, **{"terminal[0].weights": 17.0})
    first, of_other = solved(problem), solved(replace(other))
    for _ in range(2):
        assert same(solved(other), of_other)
        assert same(solved(problem), first)


def test_solutions_stay_as_they_are_when_memory_serves_again():
    problem = pendulum.swing_up()
    solved(problem)
    found = solved(problem)
    before = found.X.copy(), found.U.copy(), found.K.copy()
    solved(problem, starts(problem, 1, 2.0)[0])
    for one, own in zip(before, (found.X, found.U, found.K), strict=True):
        np.testing.assert_array_equal(one, own)


def test_threads_that_solve_one_problem_share_no_memory():
    problem = pendulum.swing_up()
    guesses = starts(problem, 4, 1.0)
    alone_, found = [solved(problem, guess) for guess in guesses], {}

    def work(i):
        found[i] = [solved(problem, guesses[i]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(one, alone_[i]) for i in found for one in found[i])


def test_a_solve_within_a_solve_has_memory_of_its_own():
    problem = pendulum.swing_up()
    first = solved(problem)
    found = ddp.solve(problem, ddp.DDP(step="rollout"), callback=lambda record: solved(problem))
    assert same(found, first)


def test_memory_goes_with_solves_of_other_problems(monkeypatch):
    monkeypatch.setattr(workers, "_recent", workers._Recent())
    loops, leave = [], CompiledIterations.leave
    forget = lambda loop: loops.append(weakref.ref(loop.backward)) or leave(loop)  # noqa: E731
    monkeypatch.setattr(CompiledIterations, "leave", forget)
    problems = [pendulum.swing_up() for _ in range(workers.MOST_KEPT + 3)]
    for problem in [*problems, *problems]:
        solved(problem)
    gone = [weakref.ref(problem) for problem in problems]
    gc.collect()
    gc.disable()
    try:
        del problem, problems
        assert all(found() is None for found in gone)
        assert 1 < len({id(loop()) for loop in loops if loop() is not None}) <= workers.MOST_KEPT
    finally:
        gc.enable()


class Seen:
    """Watcher that keeps the costs of what it is shown."""

    def __init__(self, problem):
        self.problem, self.costs = problem, []

    def watch(self, record, X, U):
        self.costs.append((record.cost, self.problem.cost(X, U)))


def test_watchers_see_every_iterate():
    problem = pendulum.swing_up()
    for _ in range(2):
        seen = Seen(problem)
        found = ddp.solve(problem, ddp.DDP(step="rollout"), callback=seen)
        assert len(seen.costs) == found.iterations
        assert all(cost == told for told, cost in seen.costs)


def test_guesses_at_limits_are_swept_within_them_after_compiled_iterations():
    problem = replace(problems.find("pendulum/swing-up").build(), control_limits=(-5.0, 5.0))
    at_limits = np.full((problem.horizon, 1), 5.0)
    for _ in range(2):  # which leave memory for compiled iterations
        ddp.solve(problem, throw=False)
    assert same(ddp.solve(problem, guess=at_limits), ddp.solve(replace(problem), guess=at_limits))
    best = ddp.solve(problem, guess=at_limits)
    assert ddp.solve(problem, guess=best).iterations <= 2


def test_controls_that_a_look_at_a_longer_step_holds_stay_held_in_compiled_iterations():
    system = ContinuousDynamics(lambda x, u: np.array([x[1], 9.81 * np.sin(x[0]) + u[0] - 0.1 * x[1]]), 2, 1, 0.05)
    problem = ddp.Problem(
        system, [lambda x, u: 1e-4 * u[0] ** 2 + 0.01 * x[0] ** 4 + 0.01 * np.cosh(u[0] / 5.0)],
        [lambda x, u: 0.5 * (55.8 * x[0] ** 2 + 39.4 * x[1] ** 2)], np.array([2.74, 0.27]), 60,
        control_limits=(-0.22, 9.03),
    )  # fmt: skip
    first, *later = (ddp.solve(problem, throw=False) for _ in range(4))
    for solution in later:
        assert same(first, solution)
