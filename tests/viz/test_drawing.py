"""Animations are whole, move as the trajectory says, and say what they could not draw."""

import re

import example_robot_data
import numpy as np
import pinocchio as pin
import pytest
from pages import Page, vertices
from thorough import cases

import dynamics.robots.model as dynamics
import viz
from ddp.errors import ModelError, ProblemError
from viz.bodies import bodies, skeleton
from viz.scene import build

HALF_MISSING = """<robot name="stick">
  <link name="base"><visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual></link>
  <link name="tip"><inertial><origin xyz="0 0 0.5"/><mass value="1"/>
    <inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="no_such_mesh.stl"/></geometry></visual></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="tip"/><axis xyz="1 0 0"/></joint>
</robot>"""


@pytest.fixture(scope="module")
def ur5():
    return dynamics.load("ur5")


@pytest.fixture
def motion(ur5):
    q0, q1 = np.array([0, -1.2, 1.4, -1.77, -1.57, 0]), np.array([1.6, -0.8, 0.9, -0.6, -0.8, 0.7])
    return np.array([np.concatenate([q0 + s * (q1 - q0), np.zeros(6)]) for s in np.linspace(0, 1, 21)])


@pytest.fixture
def pole():
    model = pin.Model()
    model.name = "pole"
    cart = model.addJoint(0, pin.JointModelPY(), pin.SE3.Identity(), "cart")
    pole = model.addJoint(cart, pin.JointModelRX(), pin.SE3.Identity(), "pole")
    model.appendBodyToJoint(cart, pin.Inertia(1.0, np.zeros(3), np.eye(3) * 1e-3), pin.SE3.Identity())
    model.appendBodyToJoint(
        pole, pin.Inertia(0.1, np.array([0, 0, -0.5]), np.eye(3) * 1e-3), pin.SE3.Identity()
    )
    return dynamics.load(model)


def test_a_file_fetches_nothing_and_holds_every_mesh(tmp_path, ur5, motion):
    drawn = viz.save_html(tmp_path / "reach.html", ur5, motion, 0.05, frames=["tool0"], ghost=motion[-1])
    text = (tmp_path / "reach.html").read_text(encoding="utf-8")
    page = Page(text)
    assert drawn == (str(tmp_path / "reach.html"), ())
    assert not [attrs for _, attrs in page.tags if "src" in attrs or "href" in attrs]
    assert "default-src 'none'" in text
    assert {tag for tag, _ in page.tags} >= {"html", "head", "body", "script"}
    assert all(len(vertices(m)) for m in page.objects("/mayne/"))
    joints = {int(re.match(r"/mayne/robot/(\d+) ", m["path"]).group(1)) for m in page.objects("/mayne/robot")}
    assert joints == set(range(7))
    assert len(page.objects("/mayne/traces/tool0")) == 1
    moving = {m["path"].split("/")[3] for m in page.objects("/mayne/robot") if "/0 " not in m["path"]}
    assert {m["path"].split("/")[4] for m in page.objects("/mayne/ghost")} == moving
    assert len(text) < 1.6e6  # the viewer is .85 of it


def test_bodies_move_along_the_trajectory(ur5, motion):
    scene = build(ur5, motion, 0.05)
    (animation,) = [m for m in scene.messages if m["type"] == "set_animation"]
    data = ur5.model.createData()
    clips = {clip["path"]: clip["clip"] for clip in animation["animations"]}
    for joint in range(1, 7):
        clip = clips[f"/mayne/robot/{joint} {ur5.model.names[joint]}"]
        position, turn = (track["keys"] for track in clip["tracks"])
        for k, x in enumerate(motion):
            pin.forwardKinematics(ur5.model, data, x[:6])
            assert position[k]["time"] / clip["fps"] == pytest.approx(0.05 * k)
            assert np.allclose(position[k]["value"], data.oMi[joint].translation)
            assert np.allclose(pin.Quaternion(np.array(turn[k]["value"])).matrix(), data.oMi[joint].rotation)
        assert position[-1]["value"] == position[-2]["value"]
        assert position[-1]["time"] > position[-2]["time"]
    assert scene.duration == pytest.approx(1.0)


def test_a_trace_passes_where_the_frame_does(ur5, motion):
    scene = build(ur5, motion, 0.05, frames=["tool0"])
    (trace,) = [m for m in scene.messages if m["path"] == "/mayne/traces/tool0"]
    data = ur5.model.createData()
    for x in motion:
        pin.framesForwardKinematics(ur5.model, data, x[:6])
        point = data.oMf[ur5.model.getFrameId("tool0")].translation
        assert np.linalg.norm(vertices(trace) - point, axis=1).min() < 0.01


def test_a_ghost_stands_where_it_is_put(ur5, motion):
    data = ur5.model.createData()
    messages = build(ur5, motion, 0.05, ghost=motion[[0, -1]]).messages
    placed = {m["path"]: np.reshape(m["matrix"], (4, 4)).T for m in messages if m["type"] == "set_transform"}
    for k, x in enumerate(motion[[0, -1]]):
        pin.forwardKinematics(ur5.model, data, x[:6])
        for joint in range(1, 7):
            path = f"/mayne/ghost/{k}/{joint} {ur5.model.names[joint]}"
            assert np.allclose(placed[path], data.oMi[joint].homogeneous)
    ghosts = [m for m in messages if m["type"] == "set_object" and m["path"].startswith("/mayne/ghost")]
    assert all(m["object"]["materials"][0]["opacity"] < 1.0 for m in ghosts)


def test_configurations_alone_are_enough(ur5, motion):
    assert build(ur5, motion[:, :6], 0.05).duration == build(ur5, motion, 0.05).duration


def test_a_robot_without_meshes_is_drawn_as_a_skeleton(tmp_path, pole):
    shapes = skeleton(pole.model)
    assert set(shapes) == {1, 2}
    tip = min(mesh.vertices[:, 2].min() for mesh in shapes[2])
    assert -0.6 < tip < -0.5  # the ball about the pole's mass
    drawn = viz.save_html(tmp_path / "pole.html", pole, np.zeros((5, 4)), 0.1)
    assert drawn.missing == ()
    assert len(Page((tmp_path / "pole.html").read_text()).objects("/mayne/robot")) >= 3


def test_missing_meshes_are_named_and_the_rest_is_drawn(tmp_path, caplog):
    (tmp_path / "stick.urdf").write_text(HALF_MISSING)
    robot = dynamics.load(tmp_path / "stick.urdf")
    X = np.tile(np.concatenate([robot.neutral(), np.zeros(1)]), (3, 1))
    drawn = viz.save_html(tmp_path / "stick.html", robot, X, 0.1)
    assert drawn.missing == ("no_such_mesh.stl",)
    assert "no_such_mesh.stl" in caplog.text
    text = (tmp_path / "stick.html").read_text()
    assert "no_such_mesh.stl" in text
    assert {m["path"].split("/")[3].split()[0] for m in Page(text).objects("/mayne/robot")} == {"0", "1"}


def test_titles_are_text_not_markup(tmp_path, pole):
    viz.save_html(tmp_path / "pole.html", pole, np.zeros((5, 4)), 0.1, title="<b>$x & y</b>")
    assert "<h1>&lt;b&gt;$x &amp; y&lt;/b&gt;</h1>" in (tmp_path / "pole.html").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((5, 3))}, "X: expected states of 4 numbers or configurations of 2"),
        ({"X": np.full((5, 4), np.nan)}, "X: expected finite numbers"),
        ({"dt": 0.0}, "dt: expected a positive number"),
        ({"ghost": np.zeros(7)}, "ghost: expected states of 4"),
        ({"frames": ["pol"]}, "pole has no frame 'pol'"),
    ],
)
def test_bad_input_is_named(pole, change, message):
    arguments = {"X": np.zeros((5, 4)), "dt": 0.1} | change
    with pytest.raises((ProblemError, ModelError), match=message):
        build(pole, **arguments)


def test_quaternions_that_are_no_rotations_are_refused():
    robot = dynamics.load("hector")
    X = np.tile(np.concatenate([robot.neutral(), np.zeros(robot.nv)]), (3, 1))
    build(robot, X, 0.1)
    X[2, 3:7] *= 2.0
    with pytest.raises(ProblemError, match=r"X\[2\]: expected quaternions and \(cos, sin\) of length one, got"):
        build(robot, X, 0.1)


def test_a_file_needs_a_folder(tmp_path, pole):
    with pytest.raises(ProblemError, match="existing folder"):
        viz.save_html(tmp_path / "no" / "pole.html", pole, np.zeros((5, 4)), 0.1)
    for name in ("pole.txt", "pole"):
        with pytest.raises(ProblemError, match=r"path: expected \.html or \.htm, got"):
            viz.save_html(tmp_path / name, pole, np.zeros((5, 4)), 0.1)
    assert not list(tmp_path.iterdir())


def test_the_live_viewer_answers_on_this_machine_and_prints_nothing(pole, capsys):
    from urllib.request import urlopen

    drawn = viz.animate(pole, np.zeros((5, 4)), 0.1)
    assert drawn.where.startswith("http://127.0.0.1:")
    with urlopen(drawn.where, timeout=60) as answer:
        assert b"meshcat" in answer.read().lower()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", cases(["go2", "ur5"], ["go2"]))
def test_bodies_of_several_surfaces_are_drawn_whole(name):
    """Pinocchio numbers the triangles of their files' second and later surfaces wrongly: its vertices are right."""
    robot = dynamics.load(name)
    drawn, _ = bodies(robot)
    for shape in example_robot_data.load(name).visual_model.geometryObjects:
        place = np.asarray(shape.placement.homogeneous)
        points = np.asarray(shape.geometry.vertices()) * np.asarray(shape.meshScale)
        points = points @ place[:3, :3].T + place[:3, 3]
        own = np.concatenate([mesh.vertices[mesh.triangles.ravel()] for mesh in drawn[shape.parentJoint]])
        assert (own.min(axis=0) <= points.min(axis=0) + 1e-3).all(), shape.name
        assert (own.max(axis=0) >= points.max(axis=0) - 1e-3).all(), shape.name
