"""A stage shows where a robot is, takes what its newest page does, and lets go when that page closes."""

import json
from dataclasses import replace
from urllib.request import Request, urlopen

import numpy as np
import pytest
from listeners import refused
from pages import Page, vertices

import dynamics
import viz
from ddp.errors import ProblemError
from dynamics.steps.doubts import obstacles_of
from problems import arm, pendulum
from problems.command.playing import draw_beside
from problems.constraints import FramePositionLimits
from problems.play.played import Play
from viz import stage as stages

STILL = {"who": "a", "hand": None, "command": [0.0, 0.0, 0.0], "target": None, "kicks": [], "again": False}


@pytest.fixture(autouse=True)
def _pages_stay(monkeypatch):
    """A page is there until a test closes it, however long a busy machine takes between two requests."""
    monkeypatch.setattr(stages, "GONE", np.inf)


@pytest.fixture(scope="module")
def robot():
    return pendulum.pendulum()


def tell(stage, **what):
    origin = "/".join(stage.where.split("/")[:3])
    request = Request(stage.where, json.dumps(STILL | what).encode(), {"Origin": origin})
    return json.loads(urlopen(request, timeout=60).read())


def test_a_page_is_answered_where_each_joint_is():
    robot = dynamics.load("ur5")
    stage = viz.Stage(robot, robot.q0, "an arm", target=[0.1, 0.2, 0.3])
    page = Page(urlopen(stage.where, timeout=60).read().decode())
    assert page.scene["stage"]["target"] is True
    assert page.scene["stage"]["commands"] == []
    assert not [m for m in page.messages if m.get("path", "").startswith("/mayne/center of mass")]
    q = robot.random_configuration(np.random.default_rng(0))
    stage.show(q, "moved", (np.zeros(3), np.ones(3)), [0.4, 0.5, 0.6])
    found = tell(stage, first=True)
    assert found["told"] == "moved"
    assert found["arrow"] == [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    assert found["target"] == [0.4, 0.5, 0.6]
    for joint in range(1, 7):
        placement = dynamics.frame_placement(robot, q, robot.model.names[joint])
        np.testing.assert_allclose(found["places"][joint - 1][:3], placement[:3, 3], atol=1e-6)
    stage.show(np.full(6, np.nan), "lost")
    assert tell(stage)["told"] == "moved"


def test_what_a_reader_does_is_taken_once(robot):
    stage = viz.Stage(robot, robot.q0, commands=("forward", "left", "turning"))
    assert not stage.watching
    hand = {"joint": 1, "point": [0.1, 0.0, 0.0], "toward": [0.5, 0.6, 0.7]}
    tell(stage, first=True, hand=hand, command=[5.0, -0.5, 0.0], target=[1.0, 2.0, 3.0], kicks=[[0.0, 1.0, 0.0]])
    assert stage.watching
    assert stage.hand.joint == 1
    np.testing.assert_array_equal(stage.hand.toward, [0.5, 0.6, 0.7])
    np.testing.assert_array_equal(stage.command, [1.0, -0.5, 0.0])
    np.testing.assert_array_equal(stage.target, [1.0, 2.0, 3.0])
    tell(stage, again=True)
    kicks, again = stage.asked()
    assert [way.tolist() for way in kicks] == [[0.0, 1.0, 0.0]]
    assert again
    assert stage.asked() == ([], False)
    assert stage.hand is None


def test_numbers_of_sliders_are_taken_within_their_ranges_and_stay(robot, monkeypatch):
    stage = viz.Stage(robot, robot.q0, sliders=[viz.Slider.about("a", 2.0), viz.Slider("b", 0.5, 0.0, 1.0)])
    page = Page(urlopen(stage.where, timeout=60).read().decode())
    assert [(s["name"], s["low"], s["high"]) for s in page.scene["sliders"]] == [("a", 0.02, 200.0), ("b", 0.0, 1.0)]
    assert tell(stage, first=True, numbers=None)["numbers"] == {"a": 2.0, "b": 0.5}
    tell(stage, numbers={"a": 1e9, "b": 0.25})
    assert stage.numbers == {"a": 200.0, "b": 0.25}
    for wrong in ({"a": float("nan"), "b": 0.1}, {"a": float("inf"), "b": 0.1}, {"a": "much", "b": 0.1}, {"a": 1.0}, 3):
        assert tell(stage, numbers=wrong) == {"told": "not understood"}
    monkeypatch.setattr(stages, "GONE", 0.0)
    assert not stage.watching
    assert tell(stage, who="b", first=True)["numbers"] == stage.numbers == {"a": 200.0, "b": 0.25}


def test_the_newest_page_acts_and_others_look_on(robot):
    stage = viz.Stage(robot, robot.q0)
    tell(stage, first=True, command=[1.0, 0.0, 0.0])
    tell(stage, who="b", first=True)
    assert tell(stage, command=[1.0, 0.0, 0.0])["places"]
    assert stage.command.tolist() == [0.0, 0.0, 0.0]


def test_all_is_let_go_when_the_page_closes(robot, monkeypatch):
    stage = viz.Stage(robot, robot.q0)
    tell(stage, first=True, command=[1.0, 0.0, 0.0], hand={"joint": 1, "point": [0.0] * 3, "toward": [0.0] * 3})
    monkeypatch.setattr(stages, "GONE", 0.0)
    assert not stage.watching
    assert stage.hand is None
    assert stage.command.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "what",
    [
        {"hand": {"joint": 2, "point": [0.0] * 3, "toward": [0.0] * 3}}, {"hand": {"joint": 1}}, {"command": [1.0]},
        {"hand": {"joint": 1.7, "point": [0.0] * 3, "toward": [0.0] * 3}}, {"kicks": [float("inf")]},
        {"hand": {"joint": float("inf"), "point": [0.0] * 3, "toward": [0.0] * 3}}, {"command": ["a", 0, 0]},
        {"target": [float("nan")] * 3}, {"kicks": [[1.0]]}, {"kicks": 3}, {"hand": [1]},
    ],
)  # fmt: skip
def test_what_is_not_understood_does_nothing(robot, what):
    stage = viz.Stage(robot, robot.q0)
    tell(stage, first=True)
    assert tell(stage, **what) == {"told": "not understood"}
    assert stage.hand is None
    assert stage.asked() == ([], False)
    assert tell(stage)["places"]


def test_what_is_nested_too_deeply_is_not_understood(robot):
    stage = viz.Stage(robot, robot.q0)
    request = Request(stage.where, b"[" * 50_000, {"Origin": "/".join(stage.where.split("/")[:3])})
    assert json.loads(urlopen(request, timeout=60).read()) == {"told": "not understood"}


def test_pages_from_elsewhere_are_refused(robot):
    stage = viz.Stage(robot, robot.q0)
    request = Request(stage.where, json.dumps(STILL).encode(), {"Origin": "http://evil.example"})
    with refused("405"):
        urlopen(request, timeout=60)


def test_a_stage_refuses_what_it_cannot_show(robot):
    stage = viz.Stage(robot, robot.q0)
    for act, words in (
        (lambda: viz.Stage(robot, np.zeros(5)), "q"), (lambda: viz.Stage(robot, robot.q0, commands=["a"]), "commands"),
        (lambda: viz.Stage(robot, robot.q0, target=[1.0]), "target"), (lambda: stage.show(np.zeros(2)), "q"),
        (lambda: viz.Stage(robot, robot.q0, sliders=[viz.Slider.about("a", 1.0)] * 2), "sliders"),
        (lambda: viz.Slider.about("a", 0.0), "value"),
        (lambda: stage.show(robot.q0, "", (np.zeros(3), np.zeros(2))), "arrow"),
    ):  # fmt: skip
        with pytest.raises(ProblemError, match=words):
            act()


def test_surroundings_of_a_problem_stand_beside_simulated_motions_and_its_obstacles_on_stages(tmp_path):
    wall = FramePositionLimits(arm.obstacles().dynamics.robot, "tool0", upper=[np.inf, 2.0, np.inf])
    problem = replace(arm.obstacles(horizon=5), constraints=[*arm.obstacles(horizon=5).constraints, wall])
    known, robot = obstacles_of(problem), problem.dynamics.robot
    assert len(known) == 3
    stage = viz.Stage(robot, robot.q0, obstacles=known)
    on_stage = Page(urlopen(stage.where, timeout=60).read().decode())
    X, still = np.tile(problem.x0, (6, 1)), np.zeros(6)
    run = Play(0.02 * np.arange(6), X, np.zeros((5, 6)), X, still, still, 0.0, False, problem.dynamics)
    draw_beside("played", problem.dynamics, run, str(tmp_path / "p.html"), problem=problem)
    beside = Page((tmp_path / "p.html").read_text())
    for page in (on_stage, beside):
        drawn = [vertices(message).mean(axis=0) for message in page.objects("/mayne/obstacles")]
        np.testing.assert_allclose(drawn, [one.center for one in known], atol=1e-3)
    assert beside.objects("/mayne/targets")
    assert beside.objects("/mayne/walls")
    assert beside.scene["duration"] == pytest.approx(0.1)  # the simulation's time, not that of the problem's steps
