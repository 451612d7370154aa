"""Sliders of a page bring another motion, from this machine alone, and errors are told in the page."""

import base64
import gzip
import json
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from listeners import refused
from pages import Page, moves, unpack

import dynamics
import viz
from ddp.errors import ProblemError
from problems import pendulum
from problems.command import teaching
from problems.registry import find
from viz.exploring import _Objects
from viz.robots import Shapes
from viz.scene import build


def post(address, numbers, origin=None, raw=None):
    data = json.dumps(numbers).encode() if raw is None else raw
    request = urllib.request.Request(address, data=data, method="POST")
    request.add_header("Origin", origin or address.split("/", 3)[0] + "//" + address.split("/", 3)[2])
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


@pytest.fixture(scope="module")
def explored():
    robot = pendulum.pendulum()

    def make(numbers):
        if numbers["angle"] > 2.5:
            raise ProblemError("angle: too much")
        X = np.zeros((3, 2))
        X[:, 0] = numbers["angle"]
        system = SimpleNamespace(robot=robot, dt=0.1)
        return SimpleNamespace(X=X, U=np.zeros((2, 1)), problem=SimpleNamespace(dynamics=system)), f"at {X[0, 0]:.2f}"

    angle = viz.Slider("angle", 1.0, 0.0, 3.0, unit="rad")
    return viz.explore([angle], make, "a pendulum", notes="1. Why?\nSolution: so")


def test_the_page_has_the_sliders_and_asks_its_own_program_only(explored):
    text = urllib.request.urlopen(explored, timeout=60).read().decode()
    page = Page(text)
    (slider,) = page.scene["sliders"]
    assert (slider["name"], slider["value"], slider["low"], slider["high"], slider["unit"]) == ("angle", 1, 0, 3, "rad")
    assert "connect-src 'self'" in text
    assert "at 1.00" in text
    assert "<p>1. Why?</p><details><summary>Solution</summary>so</details>" in text


def test_numbers_bring_the_motion_that_they_make_and_stay_in_their_range(explored):
    for asked, told in ((2.0, 2.0), (-5.0, 0.0)):
        answer = post(explored, {"angle": asked})
        assert answer["told"] == f"at {told:.2f}"
        scene = unpack(gzip.decompress(base64.b64decode(answer["scene"])))
        _, turns = moves(scene["messages"])["/mayne/robot/1 hinge", "quaternion"]
        assert np.allclose(2.0 * np.arctan2(turns[0][0], turns[0][3]), told)


def test_what_a_page_has_shown_from_the_start_is_not_sent_again(monkeypatch):
    """Until it has shown something else in between: a page that goes back needs the first again."""
    robot = dynamics.load("ur5")
    system, turned = SimpleNamespace(robot=robot, dt=0.1), np.zeros((3, 12))
    motion = SimpleNamespace(X=turned, U=np.zeros((2, 6)), problem=SimpleNamespace(dynamics=system))
    read = Shapes()
    first = build(motion, frames=["tool0"], read=read)
    page = _Objects(first)
    again = page.without(build(motion, frames=["tool0"], read=read))
    sent = {m["path"] for m in again.messages if m["type"] == "set_object"}
    assert not [path for path in sent if path.startswith("/mayne/robot") and "/axes/" not in path]
    assert "/mayne/traces/tool0" in sent
    assert [m for m in again.messages if m["type"] != "set_object"] == [
        m for m in build(motion, frames=["tool0"], read=read).messages if m["type"] != "set_object"
    ]
    monkeypatch.setattr(viz.robots, "shapes_of", viz.chains.shapes_of)  # which conftest.py remembers
    others = page.without(build(motion, frames=["tool0"], read=Shapes()))  # of other meshes
    bodies = {m["path"] for m in others.messages if m["type"] == "set_object" and "/robot/" in m["path"]}
    bodies = {path for path in bodies if "axes" not in path}
    assert bodies
    back = page.without(first)
    assert bodies <= {m["path"] for m in back.messages if m["type"] == "set_object"}


def test_errors_are_told_and_end_nothing(explored):
    assert post(explored, {"angle": 2.9}) == {"told": "angle: too much", "scene": None}
    assert post(explored, {})["scene"] is None
    assert post(explored, {}, raw=b"not json")["scene"] is None
    assert post(explored, {"angle": 1.0})["told"] == "at 1.00"


def test_other_pages_and_long_requests_are_refused(explored):
    for origin, raw in (("http://example.org", None), (None, b"0" * 200_000)):
        with refused("405|413"):
            post(explored, {"angle": 1.0}, origin, raw)


def test_a_lesson_solves_by_both_methods_for_the_numbers_of_its_sliders():
    entry = find("pendulum/swing-up")
    numbers = {slider.name: slider.value for slider in teaching.sliders(entry)}
    assert {"control_weight", "limit", "start of hinge"} <= set(numbers)
    solutions, told = teaching.solved(entry, numbers | {"limit": 4.0, "start of hinge": 0.5, "control_weight": 0.2})
    assert set(solutions) == {"iLQR", "DDP"}
    assert told.startswith("iLQR: ")
    for solution in solutions.values():
        assert solution.X[0, 0] == 0.5
        assert np.abs(solution.U).max() <= 4.0
        assert solution.converged


def test_fields_of_a_gaits_weights_are_sliders():
    entry = find("quadruped/stand")
    numbers = {slider.name: slider.value for slider in teaching.sliders(entry)}
    once, thrice = (teaching.chosen(entry, numbers | {"weights_torque": k * numbers["weights_torque"]}) for k in (1, 3))
    X, U = once.guess
    U = U + np.linspace(0.0, 9.0, U.size).reshape(U.shape)
    assert once.total(X, U) == pytest.approx(entry().total(X, U), rel=1e-12)
    assert thrice.total(X, U) > 1.5 * once.total(X, U)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: viz.Slider("a", 2.0, 0.0, 1.0), "a: expected low <= value <= high"),
        (lambda: viz.Slider("a", 0.5, 0.0, 1.0, logarithmic=True), "low: expected a positive number"),
        (lambda: viz.Slider("a", np.nan, 0.0, 1.0), "value: expected finite"),
        (lambda: viz.explore([], dict), "sliders: expected at least one"),
        (lambda: viz.explore([3], dict), r"sliders\[0\]: expected a viz.Slider"),
        (lambda: viz.explore([viz.Slider("a", 0.5, 0.0, 1.0)], 3), "make: expected a function"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ProblemError, match=message):
        make()
