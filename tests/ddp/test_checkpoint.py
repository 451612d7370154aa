"""Solves that are ended go on from their checkpoint, to the same bits."""

import json
from dataclasses import replace

import numpy as np
import pytest
from commands import fails_with, mayne

import ddp
from ddp import checkpoint
from problems import cartpole, pendulum


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


@pytest.mark.parametrize("made", [
    lambda: (pendulum.swing_up(horizon=40), None), lambda: (cartpole.swing_up(horizon=80), None), imposed, limited,
    constrained, fenced, in_units,
])  # fmt: skip
@pytest.mark.parametrize("end", [3, 6])
def test_a_solve_that_was_ended_has_the_result_of_one_that_was_not(made, end, tmp_path):
    problem, guess = made()
    whole = ddp.solve(problem, guess=guess, checkpoint=tmp_path / "whole.npz")
    file, ends = tmp_path / "file.npz", 0
    while True:
        try:
            solution = ddp.solve(problem, guess=guess, checkpoint=file, callback=ended_after(end if ends < 2 else 999))
            break
        except EndedError:
            ends += 1
    assert ends > 0 or whole.iterations < end
    for name in ("X", "U", "K", "multipliers"):
        assert np.array_equal(getattr(solution, name), getattr(whole, name)), name
    assert solution.cost == whole.cost
    assert [record._replace(seconds=0.0) for record in solution.history] == [
        record._replace(seconds=0.0) for record in whole.history
    ]
    plain = ddp.solve(problem, guess=guess)
    assert whole.converged
    assert whole.cost == pytest.approx(plain.cost, rel=1e-6)
    if problem.constrained:  # which writes where it stands, and is not ended for that
        assert whole.iterations == plain.iterations > 8
        assert np.array_equal(whole.X, plain.X)
        assert np.array_equal(whole.multipliers, plain.multipliers)


def test_a_solve_that_has_ended_is_read_and_not_made_again(tmp_path):
    problem, file = pendulum.swing_up(horizon=40), tmp_path / "file.npz"
    first = ddp.solve(problem, checkpoint=file)
    again = ddp.solve(problem, checkpoint=file, callback=ended_after(1))
    assert np.array_equal(again.X, first.X)
    assert again.problem is problem
    assert np.array_equal(ddp.Solution.load(file, problem).U, first.U)


def test_more_iterations_go_on_where_the_limit_was(tmp_path):
    problem, file = pendulum.swing_up(horizon=40), tmp_path / "file.npz"
    few = ddp.solve(problem, ddp.DDP(max_iterations=5), checkpoint=file, throw=False)
    assert not few.converged
    assert few.iterations == 5
    more = ddp.solve(problem, checkpoint=file)
    assert more.converged
    assert more.history[:5] == few.history


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
    (name,) = (one for one in arrays if one.endswith("numbers"))
    np.savez(file, **arrays | {name: arrays[name][1:]})
    with pytest.raises(ddp.ProblemError, match=r"checkpoint: .*file.npz.* is of another version of mayne"):
        ddp.solve(problem, ddp.DDP(step="linear"), checkpoint=file)


def test_the_command_goes_on_where_it_was_ended(tmp_path):
    file, saved = tmp_path / "file.npz", tmp_path / "solution.npz"
    given = "pendulum/swing-up", "--horizon", 40
    first = mayne("solve", *given, "--max-iterations", 6, "--checkpoint", file)
    assert first.exit_code == 1
    told = json.loads(mayne("resume", file, "--save", saved, "--json").stdout)
    assert told["converged"]
    assert told["problem"] == "pendulum/swing-up"
    assert told["cost"] == pytest.approx(ddp.solve(pendulum.swing_up(horizon=40)).cost, rel=1e-6)
    assert ddp.Solution.load(saved).X.shape == (41, 2)
    fails_with(mayne("resume", saved), 2, "is no checkpoint of `mayne solve --checkpoint`")
    fails_with(mayne("solve", "cartpole/swing-up", "--checkpoint", file), 2, "is of another solve")
    free = mayne("solve", "quadruped/trot", "--durations", "free", "--checkpoint", file)
    fails_with(free, 2, "--checkpoint: expected without --durations")
