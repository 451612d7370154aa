"""Examples of feedback: what they print says that robots come back."""

import re
from itertools import islice

import numpy as np
import pytest
from click.testing import CliRunner
from thorough import cases

import ddp
from problems import arm, balance, examples
from problems.examples import PUSHES


@pytest.fixture(scope="module")
def talos():
    problem = balance.standing()
    return problem, balance.regulator(problem)


def test_a_humanoid_comes_back_after_pushes(talos):
    problem, keeper = talos
    for push in PUSHES:
        x0 = balance.pushed(problem, (*push, 0.0))
        X = balance.balance(problem, keeper, x0)
        away = np.abs(problem.dynamics.difference(np.tile(problem.x0, (len(X), 1)), X))
        assert away[0].max() > 0.09
        assert away[-1].max() < 0.01 * away[0].max()


def test_pushed_soles_do_not_move(talos):
    problem, _ = talos
    x0 = balance.pushed(problem, (0.15, 0.1, 0.0))
    held = problem.dynamics.held_directions(problem.x0) @ problem.dynamics.difference(problem.x0, x0)
    assert np.abs(held).max() < 1e-9


def test_a_humanoid_stays_on_its_soles_in_mujoco(monkeypatch):
    pushes = cases(PUSHES, [max(PUSHES, key=np.linalg.norm)])
    monkeypatch.setattr(examples, "PUSHES", pushes)
    lines = list(examples.stand())
    assert len(lines) == len(pushes)
    for line in lines:
        assert "fell" not in line
        assert float(re.search(r"rms ([\d.e-]+)", line)[1]) < 0.02


def test_feedback_throws_where_torques_alone_miss():
    found = [[float(number) for number in re.findall(r"(\d+\.\d+) m", line)][:2] for line in examples.throw()]
    (missed, _), (place, speed) = found
    assert place < 0.5 * missed
    assert place < 0.01
    assert speed < 0.15


def test_a_quadruped_trots_and_jumps_closer_to_its_plan_than_by_a_joint_pd():
    count = cases(2, 1)
    lines = list(islice(examples.trot_and_jump(["solo12"]), count))
    assert [line.split(":")[0] for line in lines] == ["solo12 trot", "solo12 jump"][:count]
    for line in lines:
        found = re.findall(r"(\d+\.\d+|falls) \(PD (\d+\.\d+|falls)\)", line)
        assert len(found) == 4
        assert all(pd == "falls" or float(ours) < float(pd) for ours, pd in found)
        assert "falls" not in [ours for ours, _ in found]


def test_examples_are_run_by_name():
    done = CliRunner().invoke(examples.main, ["throw"])
    assert done.exit_code == 0
    assert done.output.startswith("A UR5 throws in MuJoCo")
    refused = CliRunner().invoke(examples.main, ["thrw"])
    assert refused.exit_code == 2
    assert "there is no example 'thrw'" in refused.output


@pytest.mark.parametrize("problem", [3, arm.reach("ur5")])
def test_only_standing_robots_are_regulated(problem):
    with pytest.raises(ddp.ProblemError, match="problem: expected one of `standing`"):
        balance.regulator(problem)
