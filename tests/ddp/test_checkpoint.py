"""Solves that are ended go on from their checkpoint, to the same bits."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from commands import fails_with, mayne
from test_handover import hanging

import ddp
import problems
from ddp import checkpoint
from ddp.models.built_in import Mixed
from dynamics import RobotDynamics, load
from problems import arm, cartpole, pendulum
from problems.costs import ControlCost, StateCost


class EndedError(Exception):
    """Raised by a callback to end a solve from outside."""


def ended_after(count):
    """A callback that ends a solve at one of its iterations."""
    seen = []

    def callback(record):
        seen.append(record)
        if len(seen) == count:
            raise EndedError

    return callback


@pytest.fixture(autouse=True)
def short_legs(monkeypatch):
    monkeypatch.setattr(checkpoint, "LEG", 4)


def imposed():
    """A swing-up from states that do not follow from the controls."""
    problem = pendulum.swing_up(horizon=40)
    return problem, (np.linspace(problem.x0, [np.pi, 0.0], 41), np.zeros((40, 1)))


def limited():
    """A swing-up whose torque is limited."""
    return replace(pendulum.swing_up(), control_limits=(-3.0, 3.0)), None


def constrained():
    """A swing-up that ends upright and at rest."""
    upright = ddp.Equality(lambda x, u: x - [np.pi, 0.0])
    return replace(pendulum.swing_up(), terminal=[], terminal_constraints=[upright]), None


def in_units():
    """A swing-up whose rows at the end differ by orders of magnitude."""
    upright = ddp.Equality(lambda x, u: np.array([3e4, 2e-5]) * (x - [np.pi, 0.0]))
    return replace(pendulum.swing_up(), terminal=[], terminal_constraints=[upright]), None


def fenced():
    """A swing-up that ends upright within limits of torque and speed."""
    problem, guess = constrained()
    speed = ddp.Inequality(lambda x, u: x[1], lower=-9.0, upper=9.0)
    return replace(problem, control_limits=(-6.0, 6.0), constraints=[speed]), guess


def on_a_rail():
    """A swing-up on a rail that is too short, by attempts whose constraints give way."""
    rail, swing = ddp.Inequality(lambda x, u: x[0], lower=-0.3, upper=0.3), cartpole.swing_up(horizon=60)
    upright = ddp.Equality(lambda x, u: x - [0.0, np.pi, 0.0, 0.0])
    held = {"constraints": [rail], "terminal_constraints": [upright], "control_limits": (-12.0, 12.0)}
    return replace(swing, terminal=[], **held), None


def falling():
    """An arm too weak to hold itself, from states that stay where it begins."""
    system = RobotDynamics(load("ur10"), 0.01)
    limits, rest = 0.25 * system.robot.model.effortLimit, np.zeros(6)
    start, goal = np.r_[system.robot.q0, rest], np.r_[system.robot.q0 + 1.0, rest]
    costs = [ControlCost(rest, np.full(6, 1e-4))], [StateCost(system, goal, np.full(12, 100.0))]
    problem = ddp.Problem(system, *costs, start, 60, control_limits=(-limits, limits))
    U = np.tile(np.clip(system.nominal_control(start), -limits, limits), (60, 1))
    return problem, (np.tile(start, (61, 1)), U)


def warm():
    """A swing-up from the solution of one that began elsewhere."""
    problem, _ = fenced()
    return problem.starting_at([0.05, 0.0]), ddp.solve(problem)


def named(name):
    return lambda: (problems.find(name)(), None)


def alike(one, other):
    """Whether two solutions are the same to the last bit, but for times."""
    for name in ("X", "U", "k", "K", "multipliers", "penalties"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    for name in ("cost", "gradient", "violation", "status", "kind", "iterations", "start"):
        assert repr(getattr(one, name)) == repr(getattr(other, name)), name
    records = [[repr(record._replace(seconds=0.0)) for record in each.history] for each in (one, other)]
    assert records[0] == records[1]


def interrupted(problem, solver, guess, file, end):
    """A solve that is ended after each ``end`` iterations, twenty times at most; with how often it was."""
    for ends in range(21):
        try:
            told = ended_after(end if ends < 20 else -1)
            return ddp.solve(problem, solver, guess, told, throw=False, checkpoint=file), ends
        except EndedError:
            pass


@pytest.mark.parametrize(("made", "options"), [
    (lambda: (pendulum.swing_up(horizon=40), None), {}), (lambda: (cartpole.swing_up(horizon=80), None), {}),
    (lambda: (cartpole.swing_up(pole_mass=3.0), None), {}), (imposed, {}), (falling, {"max_iterations": 45}),
    (lambda: (hanging(3, 2.0, 75), None), {"max_iterations": 20}),
    (limited, {}), (limited, {"step": "linear"}), (constrained, {}), (constrained, {"step": "rollout"}), (fenced, {}),
    (in_units, {}), (on_a_rail, {"max_iterations": 90}), (warm, {}), (named("arm/reach"), {}),
    (named("car/parking"), {}), (named("quadruped/bound"), {}),
    *((lambda: (cartpole.swing_up(horizon=80), None), own) for own in (
        {"step": "rollout"}, {"reuse": 2}, {"multipliers": "costate"}, {"hessian": "exact"},
        {"hessian": "gauss-newton", "max_iterations": 30}, {"max_iterations": 8, "last_sweep": False},
    )),
])  # fmt: skip
def test_a_solve_that_is_ended_again_and_again_has_the_result_of_one_without_a_checkpoint(made, options, tmp_path):
    (problem, guess), solver = made(), ddp.DDP(**options)
    plain = ddp.solve(problem, solver, guess, throw=False)
    found, ends = interrupted(problem, solver, guess, tmp_path / "file.npz", 5)
    assert ends >= min(1, plain.iterations // 5)
    alike(found, plain)


KILLED = """
import os, signal, sys
import ddp
from ddp import checkpoint
from problems import cartpole
checkpoint.LEG = 4
told = []
def kill(record):
    told.append(record)
    if len(told) == 7:
        os.kill(os.getpid(), signal.SIGKILL)
ddp.solve(cartpole.swing_up(pole_mass=3.0, horizon=80), checkpoint=sys.argv[1], callback=kill)
"""


def test_a_process_that_was_killed_has_left_what_another_goes_on_from(tmp_path):
    problem, file = cartpole.swing_up(pole_mass=3.0, horizon=80), tmp_path / "file.npz"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert ddp.Solution.load(file, problem).iterations >= 4
    alike(ddp.solve(problem, checkpoint=file), ddp.solve(problem))


def test_the_guess_is_that_of_the_first_time(tmp_path):
    problem, guess = imposed()
    few = ddp.DDP(max_iterations=2)
    ddp.solve(problem, few, guess, throw=False, checkpoint=tmp_path / "file.npz")
    alike(ddp.solve(problem, checkpoint=tmp_path / "file.npz"), ddp.solve(problem, guess=guess))


def test_solves_by_models_of_ones_own_begin_anew(tmp_path):
    problem, solver = cartpole.swing_up(horizon=80), ddp.DDP(hessian=Mixed, step="rollout")
    found, ends = interrupted(problem, solver, None, tmp_path / "file.npz", 9)
    assert ends == 20
    alike(found, ddp.solve(problem, solver))


def test_a_solve_that_has_ended_is_read_and_not_made_again(tmp_path):
    problem, file = pendulum.swing_up(horizon=40), tmp_path / "file.npz"
    first = ddp.solve(problem, checkpoint=file)
    again = ddp.solve(problem, checkpoint=file, callback=ended_after(1))
    assert np.array_equal(again.X, first.X)
    assert again.problem is problem
    assert np.array_equal(ddp.Solution.load(file, problem).U, first.U)


def test_more_iterations_go_on_where_the_limit_was(tmp_path):
    problem, file = pendulum.swing_up(horizon=40), tmp_path / "file.npz"
    few = ddp.solve(problem, ddp.DDP(max_iterations=5, step="rollout"), checkpoint=file, throw=False)
    assert not few.converged
    assert few.iterations == 5
    more = ddp.solve(problem, ddp.DDP(step="rollout"), checkpoint=file)
    assert more.converged
    assert more.history[:5] == few.history


def noisy():
    """A reach around obstacles, from controls of noise: Newton's steps begin where rollouts lead."""
    problem = problems.find("arm/obstacles")()
    rng = np.random.default_rng(5)
    return problem, 3.0 * rng.normal(size=(problem.horizon, problem.dynamics.nu))


def on_a_longer_rail():
    """A swing-up on a rail that is longer, but still too short."""
    problem, guess = on_a_rail()
    return replace(problem, constraints=[ddp.Inequality(lambda x, u: x[0], lower=-0.8, upper=0.8)]), guess


def pushed():
    """A swing-up of a cart whose force is limited: full-space steps are given up for rollouts."""
    return replace(cartpole.swing_up(), control_limits=(-12.0, 12.0)), None


@pytest.mark.parametrize(("made", "most", "cuts"), [
    (named("cartpole/swing-up"), 100, (1, 13)), (named("cartpole/swing-up"), 100, (3, 10, 15)),
    (named("acrobot/swing-up"), 100, (8, 13)), (falling, 45, (8,)), (pushed, 100, (5, 13)), (noisy, 100, (5, 8)),
    (on_a_longer_rail, 95, (92,)),
])  # fmt: skip
def test_a_solve_that_limits_have_cut_ends_as_one_with_the_last_limit(made, most, cuts, tmp_path):
    (problem, guess), file, shown = made(), tmp_path / "file.npz", []
    for limit in (*cuts, most):
        solver = ddp.DDP(max_iterations=limit)
        found = ddp.solve(problem, solver, guess, shown.append, throw=False, checkpoint=file)
        alike(found, ddp.solve(problem, solver, guess, throw=False))
    assert {repr(record._replace(seconds=0.0)) for record in found.history} <= {
        repr(record._replace(seconds=0.0)) for record in shown
    }


def test_a_lower_limit_goes_on_from_before_what_it_would_not_have_allowed(tmp_path):
    problem, file = cartpole.swing_up(pole_mass=3.0, horizon=80), tmp_path / "file.npz"
    with pytest.raises(EndedError):  # full-space steps have begun, which take more than these are given below
        ddp.solve(problem, callback=ended_after(25), checkpoint=file)
    for limit in (30, 1000):
        solver = ddp.DDP(max_iterations=limit)
        found = ddp.solve(problem, solver, throw=False, checkpoint=file)
        alike(found, ddp.solve(problem, solver, throw=False))
        assert any(record.full_space for record in found.history) == (limit == 1000)


def far():
    """A reach whose default guess leads to a minimum that is dearer than that of its second start."""
    near = arm.reach("ur5")
    turned = near.x0[:6] + np.array([1.8, -1.2, 1.3, -1.4, 0.1, -1.5])
    return arm.reach("ur5", arm._pose(near.dynamics.robot, "tool0", turned))


def test_second_starts_are_made_where_a_limit_had_left_no_iterations_for_them(tmp_path):
    problem = far()
    plain, shown, most = ddp.solve(problem), [], []
    rest = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    once = ddp.solve(problem, guess=rest)
    assert plain.cost < 0.9 * once.cost
    for limit in (once.iterations, once.iterations + 2, plain.iterations - 1, 1000):
        solver = ddp.DDP(max_iterations=limit)
        found = ddp.solve(problem, solver, callback=shown.append, checkpoint=tmp_path / "file.npz")
        alike(found, ddp.solve(problem, solver))
        most.append(found.iterations)
    alike(found, plain)
    assert most == [once.iterations, once.iterations + 2, plain.iterations - 1, plain.iterations]
    assert len(shown) == plain.iterations


def test_problems_with_many_parts_of_long_names_go_on(tmp_path):
    def how_far_it_has_come_and_how_fast_it_turns(x, u):
        return x[:1] + 0.1 * u

    held = ddp.Soft(ddp.Inequality(how_far_it_has_come_and_how_fast_it_turns, upper=9.0), 1.0)
    stretches = {range(k, k + 9): [held] for k in range(10, 20)}
    problem, file = replace(pendulum.swing_up(horizon=40), constraints_at=stretches), tmp_path / "file.npz"
    few = ddp.solve(problem, ddp.DDP(max_iterations=2), checkpoint=file, throw=False)
    assert ddp.solve(problem, ddp.DDP(max_iterations=2), checkpoint=file, throw=False).history == few.history


def test_files_of_other_solves_are_refused_with_what_differs(tmp_path):
    problem, file = pendulum.swing_up(horizon=40), tmp_path / "file.npz"
    solution = ddp.solve(problem, checkpoint=file)
    with pytest.raises(ddp.ProblemError, match=r"checkpoint: .*file.npz.* is of another solve, which differs in x0"):
        ddp.solve(problem.starting_at([0.1, 0.0]), checkpoint=file)
    with pytest.raises(ddp.ProblemError, match="which differs in solver"):
        ddp.solve(problem, ddp.ILQR(), checkpoint=file)
    solution.save(tmp_path / "solution.npz")
    with pytest.raises(ddp.ProblemError, match=r"checkpoint: .*solution.npz.* is not one"):
        ddp.solve(problem, checkpoint=tmp_path / "solution.npz")
    (tmp_path / "text.npz").write_text("no file of arrays")
    with pytest.raises(ddp.ProblemError, match=r"checkpoint: .*text.npz.* is not one, or is damaged"):
        ddp.solve(problem, checkpoint=tmp_path / "text.npz")
    with pytest.raises(ddp.ProblemError, match="checkpoint: expected a file in an existing folder"):
        ddp.solve(problem, checkpoint=tmp_path / "none" / "file.npz")


def test_files_of_other_versions_are_refused(tmp_path):
    (problem, _), file = fenced(), tmp_path / "file.npz"
    ddp.solve(problem, ddp.DDP(max_iterations=9, step="linear"), checkpoint=file, throw=False)
    arrays = dict(np.load(file))
    none = {name: array for name, array in arrays.items() if not name.startswith("journal")}
    for others in (none, arrays | {"journal_version": np.array(3)}):  # whose motions came sooner elsewhere
        np.savez(file, **others)
        with pytest.raises(ddp.ProblemError, match=r"checkpoint: .*file.npz.* is of another version of mayne"):
            ddp.solve(problem, ddp.DDP(step="linear"), checkpoint=file)
    for journal in (arrays["journal"][:-1], -arrays["journal"], np.full(9, np.inf)):
        np.savez(file, **arrays | {"journal": journal})
        with pytest.raises(ddp.ProblemError, match=r"checkpoint: .*file.npz.* is damaged"):
            ddp.solve(problem, ddp.DDP(step="linear"), checkpoint=file)


def test_the_command_goes_on_where_it_was_ended(tmp_path):
    file, saved = tmp_path / "file.npz", tmp_path / "solution.npz"
    given = "pendulum/swing-up", "--horizon", 40
    first = mayne("solve", *given, "--max-iterations", 4, "--checkpoint", file)
    assert first.exit_code == 1
    kept = file.read_bytes()
    fails_with(mayne("resume", file, "--save", file), 2, "--save: expected another file than the checkpoint")
    assert file.read_bytes() == kept
    told = json.loads(mayne("resume", file, "--save", saved, "--json").stdout)
    assert told["converged"]
    assert told["problem"] == "pendulum/swing-up"
    assert told["cost"] == pytest.approx(ddp.solve(pendulum.swing_up(horizon=40)).cost, rel=1e-6)
    assert ddp.Solution.load(saved).X.shape == (41, 2)
    fails_with(mayne("resume", saved), 2, "is no checkpoint of `mayne solve --checkpoint`")
    fails_with(mayne("solve", "cartpole/swing-up", "--checkpoint", file), 2, "is of another solve")
    free = mayne("solve", "quadruped/trot", "--durations", "free", "--checkpoint", file)
    fails_with(free, 2, "--checkpoint: expected without --durations")
