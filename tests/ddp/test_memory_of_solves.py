"""Solves in memory that problems of the same sizes have left have the bits of solves in processes that have none."""

import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest
from fresh import ROOT
from same_bits import same

import ddp
from ddp.batch.compiled_iterations import CompiledIterations
from ddp.interior.layout import Workplace
from ddp.parallel import workers
from ddp.parallel.workers import MOST_KEPT
from dynamics import FunctionDynamics, RobotDynamics
from problems import arm, cartpole, pendulum, quadrotor

SERVER = """
import os, pickle, sys
import ddp, dynamics, problems
problems.arm, problems.pendulum
wishes, answers = sys.stdin.buffer, sys.stdout.buffer
while True:
    try:
        wish = pickle.load(wishes)
    except EOFError:
        break
    reading, writing = os.pipe()
    if os.fork() == 0:
        with open(writing, "wb") as out:
            pickle.dump(ddp.solve(pickle.loads(wish), throw=False), out)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as found:
        pickle.dump(found.read(), answers)
    answers.flush()
    os.wait()
"""


@pytest.fixture(scope="module")
def afresh():
    """Solve a problem in a process of its own, which has solved nothing."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=-1, stdout=-1, cwd=ROOT)

    def solve(problem):
        pickle.dump(pickle.dumps(problem), server.stdin)
        server.stdin.flush()
        return pickle.loads(pickle.load(server.stdout))

    yield solve
    server.communicate()


@pytest.fixture(autouse=True)
def recent(monkeypatch):
    """Let this thread begin without memory."""
    monkeypatch.setattr(workers, "_recent", workers._Recent())
    return workers._recent


def with_dynamics(problem, **options):
    """The problem with dynamics of its robot that are made anew."""
    d = problem.dynamics
    return replace(problem, dynamics=RobotDynamics(d.robot, **{"dt": d.dt} | options))


def heavier(problem):
    return problem.varying(masses=1.5 * problem.number("masses"))


CHANGES = {
    "nothing": lambda p: p,
    "a copy": copy.deepcopy,
    "masses": heavier,
    "masses of a copy": lambda p: heavier(copy.deepcopy(p)),
    "a target": lambda p: p.varying(target=(p.number("target") @ np.diag([-1.0, -1.0, 1.0, 1.0]))),
    "weights": lambda p: p.varying({"terminal[0].weights": 20.0}),
    "a start": lambda p: p.varying(x0=p.x0 + 0.1),
    "limits": lambda p: replace(p, control_limits=(-30.0, 30.0)),
    "wider limits": lambda p: replace(p, control_limits=(-1e3, 1e3)),
    "actuation": lambda p: with_dynamics(p, actuation=np.diag([0.5, 1.0, 1.0, 2.0, 1.0, 1.0])),
    "a step": lambda p: with_dynamics(p, dt=0.011),
    "an integrator": lambda p: with_dynamics(p, integrator="euler"),
    "a longer horizon": lambda p: replace(p, horizon=p.horizon + 1),
    "no end": lambda p: replace(p, terminal=[p.terminal[1]]),
    "a robot": lambda p: arm.reach("ur10"),
}


@pytest.fixture(scope="module")
def sent():
    """A pickle of a problem that has been solved."""
    problem = arm.reach("ur5")
    ddp.solve(problem)
    return pickle.dumps(problem)


@pytest.fixture(scope="module")
def known(afresh, sent):
    """Solutions of problems that are changed, each by a process that has solved nothing else."""
    return {name: afresh(change(pickle.loads(sent))) for name, change in CHANGES.items()}


def solve(problem):
    return ddp.solve(problem, throw=False)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_problem_is_solved_in_the_memory_of_another_as_in_a_process_of_its_own(name, sent, known, recent):
    for before in range(1, 4):  # solves that have left memory: of Python's iterations, of compiled ones
        problem = pickle.loads(sent)
        for _ in range(before):
            solve(problem)
        other = CHANGES[name](pickle.loads(sent))
        if before == 2:  # of a problem that is gone
            del problem
            gc.collect()
        for _ in range(2):
            assert same(solve(other), known[name])
        if before == 3:  # and back
            assert same(solve(problem), known["nothing"])


def test_changes_come_one_after_the_other(sent, known, rng):
    """In any order, all in the memory of the ones before, which are gone."""
    for name in rng.permutation([*CHANGES, *CHANGES]):
        assert same(solve(CHANGES[name](pickle.loads(sent))), known[name])


def test_memory_serves_changed_problems_that_all_stay(sent, known, recent):
    made = {name: change(pickle.loads(sent)) for name, change in CHANGES.items()}
    for _ in range(3):
        for name, problem in made.items():
            assert same(solve(problem), known[name])
    assert len(recent._works) <= MOST_KEPT


def test_threads_solve_changed_problems_at_once(sent, known):
    problem = pickle.loads(sent)
    solve(problem)
    others = {name: CHANGES[name](problem) for name in ("nothing", "masses", "a target", "limits")}
    failures, barrier = [], threading.Barrier(len(others))

    def work(first):
        names = [*others]
        at = names.index(first)
        barrier.wait()
        try:
            for name in 3 * (names[at:] + names[:at]):
                assert same(solve(others[name]), known[name])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(name,)) for name in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("hessian", ["gauss-newton", "exact", "auto"])
def test_every_model_turns_to_other_masses(hessian, sent, monkeypatch):
    solver = ddp.DDP(hessian=hessian, step="rollout")
    problem = pickle.loads(sent)
    others = [problem.varying(masses=scale * problem.number("masses")) for scale in (1.0, 1.5, 0.7)]
    alone_ = []
    for other in others:
        monkeypatch.setattr(workers, "_recent", workers._Recent())
        alone_.append(ddp.solve(other, solver, throw=False))
    monkeypatch.setattr(workers, "_recent", workers._Recent())
    models = [ddp.DDP(hessian=one, step="rollout") for one in ("auto", "exact")]
    for _ in range(3):
        for k, scale in enumerate((1.0, 1.5, 0.7)):
            twin = problem.varying(masses=scale * problem.number("masses"))
            for model in models[: k + 1]:  # whose memory shares sweeps
                ddp.solve(twin, model, throw=False)
            assert same(ddp.solve(twin, solver, throw=False), alone_[k])


def swinging(lengths):
    """A pendulum as a function of one's own, of the first of some lengths."""

    def f(x, u):
        return np.array([x[0] + 0.05 * x[1], x[1] + 0.05 * (9.81 / lengths[0] * np.sin(x[0]) + u[0])])

    return ddp.Problem(
        FunctionDynamics(f, 2, 1), [lambda x, u: 1e-3 * u[0] ** 2],
        [lambda x, u: 50.0 * x[0] ** 2 + 5.0 * x[1] ** 2], np.array([2.0, 0.0]), 40,
    )  # fmt: skip


def test_functions_of_ones_own_are_not_taken_for_each_other(monkeypatch):
    own = []
    for length in (1.0, 3.0):
        monkeypatch.setattr(workers, "_recent", workers._Recent())
        own.append(solve(swinging([length])))
    assert own[0].cost != own[1].cost
    monkeypatch.setattr(workers, "_recent", workers._Recent())
    lengths = [1.0]
    changing = swinging(lengths)
    for _ in range(3):
        for k, length in enumerate((1.0, 3.0)):
            assert same(solve(swinging([length])), own[k])
            lengths[0] = length  # which the function reads: it is traced again
            assert same(solve(changing), own[k])


@pytest.mark.parametrize("build", [pendulum.swing_up, cartpole.swing_up, quadrotor.loop])
def test_bits_are_those_without_memory(build, monkeypatch, recent):
    """Of robots with free joints, too, and of limits that solves meet."""
    made = [build(), replace(build(), control_limits=(-3.0, 9.0)), heavier(build())]
    own = []
    for problem in made:
        monkeypatch.setattr(workers, "_recent", workers._Recent())
        own.append(solve(problem))
    monkeypatch.setattr(workers, "_recent", recent)
    there = [pickle.dumps(problem) for problem in made]
    for _ in range(3):
        for one, found in zip(there, own, strict=True):
            assert same(solve(pickle.loads(one)), found)
    assert len(recent._works) <= MOST_KEPT


def test_a_long_solve_keeps_its_memory_alone_and_a_longer_one_none(recent):
    def left(horizon):
        ddp.solve(pendulum.swing_up(horizon=horizon), ddp.DDP(max_iterations=1), throw=False)
        return [own.derivatives.exact.size for own in recent._works]

    for count in (1, 2):
        assert len(left(10 + count)) == count
    alone_ = left(workers.LARGEST // 9)
    assert len(alone_) == 1
    assert workers.LARGEST < alone_[0] <= workers.LARGEST_ALONE
    assert left(workers.LARGEST_ALONE // 9) == []


def test_memory_holds_no_problem_and_serves_the_next_one(sent, recent, monkeypatch):
    turned, turn = [], CompiledIterations.turned
    monkeypatch.setattr(CompiledIterations, "turned", lambda *args: turned.append(turn(*args)) or turned[-1])
    gone = []
    gc.disable()
    try:
        for _ in range(20):
            problem = pickle.loads(sent)
            gone.append(weakref.ref(problem))
            solve(problem)
            del problem
            assert gone[-1]() is None
            assert len(recent._works) == 1
    finally:
        gc.enable()
    assert sum(turned) >= 18


def test_iterations_are_compiled_in_memory_of_steps_of_another_length(sent, recent, monkeypatch):
    made, improve = [], CompiledIterations.improve
    monkeypatch.setattr(CompiledIterations, "improve", lambda *args: made.append(1) or improve(*args))
    for name in ("nothing", "a step", "nothing"):
        problem = CHANGES[name](pickle.loads(sent))
        for _ in range(3):
            made.clear()
            count = solve(problem).iterations  # and its solution, which has the problem, goes
        assert (len(made), len(recent._works)) == (count, 1)


def test_problems_that_are_solved_in_turn_keep_their_memory(sent, recent):
    problems = [pickle.loads(sent) for _ in range(2)]
    for problem in [*problems, *problems]:
        solve(problem)
    works = {id(work) for work in recent._works}
    assert len(works) == 2
    for problem in problems:
        solve(problem)
    assert {id(work) for work in recent._works} == works


@pytest.mark.parametrize("step", ["linear", "auto"])
def test_limits_of_controls_that_vary_are_kept_as_in_a_problem_made_anew(step):
    problem, solver = replace(pendulum.swing_up(), control_limits=(-4.0, 4.0)), ddp.DDP(step=step)
    with ddp.RecedingHorizon(problem, solver) as controller:
        for most in (4.0, 5.0, 3.0, 6.0):
            controller.restart()
            controller.vary(control_limits=(-most, most))
            found = controller.solve(problem.x0)
            anew = ddp.solve(replace(problem, control_limits=(-most, most)), solver)
            assert np.array_equal(found.U, anew.U)
            assert np.array_equal(found.K, anew.K)
            assert np.abs(found.U).max() <= most


@pytest.mark.parametrize("limits", [None, (-6.0, 6.0)])
def test_gains_of_rollouts_with_constraints_are_found_in_the_memory_of_the_last_solve(limits, recent, monkeypatch):
    slow = ddp.Inequality(lambda x, u: x[1], lower=-6.0, upper=6.0)
    problem = replace(pendulum.swing_up(), control_limits=limits, constraints=[slow])
    solver, laid_out, begin = ddp.DDP(constraints=ddp.AugmentedLagrangian(), step="rollout"), [], Workplace.__init__
    monkeypatch.setattr(Workplace, "__init__", lambda self, *given: laid_out.append(self) or begin(self, *given))
    first, again = ddp.solve(problem, solver), ddp.solve(problem, solver)
    assert first.converged
    assert len(laid_out) == 1
    assert np.array_equal(first.K, again.K)
