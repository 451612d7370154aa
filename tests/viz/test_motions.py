"""Several motions share a scene, a page holds each mesh once, and its numbers are those of the scene."""

import base64
import gzip
import html
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from pages import Page, moves, triangles, unpack, vertices

import dynamics.robots.model as dynamics
import viz
from ddp.errors import ProblemError
from viz.messages import pack, set_object
from viz.motions import as_motions
from viz.scene import PAUSE, build
from viz.shapes import Mesh


@pytest.fixture(scope="module")
def panda():
    return dynamics.load("panda")


def solution(robot, steps, dt, scale=1.0):
    """As much of a Solution as is drawn."""
    X = np.tile(np.concatenate([robot.q0, np.zeros(robot.nv)]), (steps + 1, 1))
    X[:, 0] = scale * np.linspace(0.0, 1.0, steps + 1)
    problem = SimpleNamespace(dynamics=SimpleNamespace(robot=robot, dt=dt))
    return SimpleNamespace(X=X, U=np.zeros((steps, robot.nv)), problem=problem)


def test_numbers_of_meshes_come_out_of_a_page_as_they_went_in(rng):
    meshes = [Mesh(rng.normal(size=(n, 3)) * s, rng.integers(0, n, size=(2 * n, 3))) for n, s in ((4, 1e-3), (300, 50))]
    messages = [set_object(f"/{k}", mesh) for k, mesh in enumerate(meshes)]
    scene = unpack(gzip.decompress(base64.b64decode(pack({"duration": 0.5}, messages))))
    assert scene["duration"] == 0.5
    for mesh, message in zip(meshes, scene["messages"], strict=True):
        side = np.ptp(mesh.vertices, axis=0).max()
        assert np.abs(vertices(message) - mesh.vertices).max() <= 0.51 * side / 65535
        assert np.array_equal(triangles(message), mesh.triangles)


def test_a_mesh_is_in_a_page_once_however_many_motions_show_it(tmp_path, panda):
    pages = {}
    for count in (2, 4):
        motions = {f"number {k}": solution(panda, 10, 0.1, k) for k in range(count)}
        viz.save_html(tmp_path / "page.html", motions, ghost=motions["number 0"].X[-1])
        pages[count] = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
        assert len(pages[count].text) < 2.5e6
    two, four = (len(pages[count].scene["arrays"]) for count in (2, 4))
    assert two == four
    assert len(pages[4].objects("/mayne/motion 3/")) == len(pages[4].objects("/mayne/robot/")) - len(
        pages[4].objects("/mayne/robot/0 ")
    )


def test_each_motion_moves_by_its_own_times_and_all_end_together(panda):
    motions = {"slow": solution(panda, 20, 0.1), "fast": solution(panda, 10, 0.05), "states": np.zeros((21, 9))}
    scene = build(motions)
    assert scene.duration == pytest.approx(2.0)
    moved = moves(scene.messages)
    for root, steps, dt in (("/mayne/robot", 20, 0.1), ("/mayne/motion 1", 10, 0.05)):
        times, turns = moved[f"{root}/1 panda_joint1", "quaternion"]
        assert np.allclose(times, [*dt * np.arange(steps + 1), 2.0 + PAUSE])
        angle = 2.0 * np.arctan2(np.array(turns)[:, 2], np.array(turns)[:, 3])
        assert np.allclose(angle, [*np.linspace(0.0, 1.0, steps + 1), 1.0])
    labels = [entry.label for entry in scene.legend]
    assert labels[1:4] == ["slow", "fast", "states"]
    assert len({entry.color for entry in scene.legend[1:4]}) == 3


def test_tick_boxes_name_all_that_they_hide(tmp_path, panda):
    motions = {"a": solution(panda, 5, 0.1), "b & <c>": solution(panda, 5, 0.1, 0.5)}
    viz.save_html(tmp_path / "two.html", motions, frames=["panda_hand"], obstacles=[viz.Sphere([1, 0, 0], 0.1)])
    text = (tmp_path / "two.html").read_text(encoding="utf-8")
    boxes = dict(re.findall(r'data-paths="([^"]*)"[^>]*><i[^>]*></i>([^<]*)<', text))
    hidden = {html.unescape(label): json.loads(html.unescape(paths)) for paths, label in boxes.items()}
    assert hidden["a"] == ["/mayne/robot", "/mayne/traces/panda_hand"]
    assert hidden["b & <c>"][0] == "/mayne/motion 1"
    assert hidden["obstacle"] == ["/mayne/obstacles"]
    drawn = {m["path"] for m in Page(text).objects()}
    for paths in hidden.values():
        assert all(any(path.startswith(hiding) for path in drawn) for hiding in paths)


def test_a_solution_is_drawn_as_its_robot_states_and_times_are(panda):
    solved = solution(panda, 6, 0.1)
    alone, given, usual = build(solved), build(panda, solved), build(panda, solved.X, 0.1)
    for scene in (alone, given):
        assert json.dumps(moves(scene.messages)[("/mayne/robot/1 panda_joint1", "quaternion")][1]) == json.dumps(
            moves(usual.messages)[("/mayne/robot/1 panda_joint1", "quaternion")][1]
        )
    solved.problem.dynamics.durations = np.array([0.1, 0.0, 0.3, 0.1, 0.1, 0.1])
    assert build(solved).duration == pytest.approx(0.7)
    solved.X[4:] = np.nan
    assert build(solved).duration == pytest.approx(0.4)


def test_a_robot_alone_stands_in_its_usual_posture(panda):
    for given in ((panda,), (panda, panda.q0), (panda, panda.q0, 0.1)):
        (motion,) = as_motions(*given)
        assert np.array_equal(motion.Q, panda.q0[None])
        assert motion.times.tolist() == [0.0]
    shown = moves(build(panda).messages)
    assert shown.keys() == moves(build(panda, panda.q0, 0.1).messages).keys()


def test_a_solution_without_its_problem_is_asked_for_it(tmp_path, panda):
    bare = SimpleNamespace(**{**vars(solution(panda, 2, 0.1)), "problem": None})
    with pytest.raises(ProblemError, match=r"robot: expected a solution with its problem: solution.attached"):
        viz.save_html(tmp_path / "a.html", bare)


def test_a_simulation_is_drawn_beside_its_plan_at_its_own_times(panda):
    plan = solution(panda, 4, 0.1)
    t, X = np.array([0.0, 0.01, 0.03, 0.04]), plan.X[:4] + 0.0
    played = SimpleNamespace(X=X, t=t)
    _, motion = as_motions({"plan": plan, "run": played})
    assert np.allclose(motion.times, t)
    assert np.array_equal(motion.Q, X[:, : panda.nq])
    assert motion.name == "run"


def test_the_camera_stands_where_it_is_put(panda):
    eye, target = np.array([2.0, 1.0, 1.5]), np.array([0.3, 0.2, 0.1])
    scene = build(panda, panda.q0, 0.1, camera=(eye, target))
    (place,) = [m["value"] for m in scene.messages if m.get("property") == "position"]
    x, y, z = eye - target
    assert np.allclose(place, [x, z, -y])
    (root,) = [m["matrix"] for m in scene.messages if m["path"] == "/mayne"]
    assert np.allclose(root[12:15], -target)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda p: ({},), "robot: expected a mapping .* got no Solution"),
        (lambda p: ({"a": p.q0},), "robot: expected a mapping .* got no Solution"),
        (lambda p: ({"a": solution(p, 4, 0.1), "b": np.zeros((3, 9))},), r"robot\['b'\]: expected 5 states, .* got 3"),
        (lambda p: ({"a": solution(p, 4, 0.1), "b": "x"},), r"robot\['b'\]: expected one row of real numbers"),
        (lambda p: ({3: solution(p, 4, 0.1)},), "robot: a name: expected a text"),
        (lambda p: (solution(p, 4, 0.1), None, 0.1), "dt: expected none beside a Solution"),
        (lambda p: (p, np.tile(p.q0, (3, 1))), r"dt: expected the time from one to the next of 3 states"),
        (lambda p: (p, None, 0.1), "X: expected it with a robot"),
        (lambda p: (SimpleNamespace(model=p.model, name="p"),), "X: expected it with a robot"),
        (lambda p: ("panda", p.q0, 0.1), "robot: expected a Robot from mayne.load, or solutions, got 'panda'"),
        (lambda p: (np.tile(p.q0, (3, 1)),), r"got an array of shape .*; states come after their robot: save_html\("),
        (lambda p: (SimpleNamespace(horizon=3),), "got SimpleNamespace; a problem has no motion before it is solved"),
        (lambda p: (SimpleNamespace(X=p.q0),), "of a simulation give its robot, .X and a step of time"),
        (lambda p: ([solution(p, 4, 0.1)] * 2,), "several have names: "),
        (lambda p: (p, p.q0, 0.1, (), None, {"camera": ([0, 0, 1],)}), "camera: expected a point to look from"),
        (lambda p: (p, p.q0, 0.1, (), None, {"camera": ([0, 0, 1], [0, 0, 1])}), "camera: expected points that are at"),
    ],
)
def test_bad_input_is_named(panda, arguments, message):
    given = arguments(panda)
    options = given[-1] if len(given) > 5 else {}
    with pytest.raises(ProblemError, match=message):
        build(*given[:5], **options)
