"""Arrows are as long as forces are large, cones as wide as friction allows, and both are there while a foot is."""

import inspect

import numpy as np
import pinocchio as pin
import pytest
from pages import Page, at, held, moves, vertices

import dynamics.robots.model as dynamics
import viz
from ddp.errors import ModelError, ProblemError
from viz.scene import build

N, DT = 12, 0.05
MASS = 5.0
FEET = ("left", "right")


@pytest.fixture(scope="module")
def hopper():
    """A box on two feet that stand 0.4 m below its centre of mass."""
    model = pin.Model()
    model.name = "hopper"
    body = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "body")
    model.appendBodyToJoint(body, pin.Inertia(MASS, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    for name, y in zip(FEET, (0.1, -0.1), strict=True):
        model.addFrame(pin.Frame(name, body, 0, pin.SE3(np.eye(3), np.array([0.0, y, -0.4])), pin.FrameType.OP_FRAME))
    return dynamics.load(model)


@pytest.fixture
def motion(hopper, rng):
    q = pin.neutral(hopper.model)
    q[2] = 0.4
    path = [q]
    for _ in range(N):
        path.append(pin.integrate(hopper.model, path[-1], 0.03 * rng.normal(size=6)))
    return np.array(path)


@pytest.fixture
def forces(rng):
    size = 10.0 ** rng.uniform(-1.0, 2.5, size=(2, N, 1))  # from arrows shorter than their heads to long ones
    pushes = size * rng.normal(size=(2, N, 3))
    pushes[0, 3:5] = 0.0
    pushes[0, 8] = np.nan
    pushes[1, 6] = [0.0, 0.0, -70.0]
    pushes[1, :2, 0] = np.nan
    return dict(zip(FEET, pushes, strict=True))


def objects(scene, prefix):
    return {m["path"]: m for m in scene.messages if m["type"] == "set_object" and m["path"].startswith(prefix)}


def arrow(scene, name, time):
    """The vector from tail to tip that is drawn at a time, None while it is hidden."""
    root = f"/mayne/contacts/{name}"
    track = moves(scene.messages)
    if not at(track[root, "visible"], time):
        return None
    head, shaft = (vertices(objects(scene, root)[f"{root}/force/{part}"]) for part in ("head", "shaft"))
    lifted = at(track[f"{root}/force/head", "position"], time)
    top = at(track[f"{root}/force/shaft", "scale"], time) * [0.0, 0.0, shaft[:, 2].max()]
    assert np.allclose(lifted, top)  # the head sits on the shaft
    tip = at(track[f"{root}/force", "scale"], time) * (lifted + np.array([0.0, 0.0, head[:, 2].max()]))
    return pin.Quaternion(at(track[f"{root}/force", "quaternion"], time)).matrix() @ tip


def test_an_arrow_is_the_force_to_scale_while_it_acts_and_hidden_while_it_does_not(hopper, motion, forces):
    scene = build(hopper, motion, DT, forces=forces, force_scale=0.003)
    for name, force in forces.items():
        for k in range(N):
            for time in (k * DT, (k + 0.9) * DT):
                drawn = arrow(scene, name, time)
                if np.isnan(force[k]).any() or not force[k].any():
                    assert drawn is None
                else:
                    assert np.allclose(drawn, 0.003 * force[k], rtol=1e-5)


def test_arrows_grow_with_forces_and_with_the_scale(hopper, motion):
    force = np.outer(np.arange(1.0, N + 1), [0.0, 3.0, 4.0])
    lengths = {
        scale: [
            np.linalg.norm(arrow(build(hopper, motion, DT, forces={"left": force}, force_scale=scale), "left", k * DT))
            for k in range(0, N, 4)
        ]
        for scale in (1e-3, 1e-2)
    }
    assert all(np.all(np.diff(length) > 0.0) for length in lengths.values())
    assert np.allclose(np.divide(lengths[1e-2], lengths[1e-3]), 10.0, rtol=1e-5)


def test_forces_of_states_are_shown_from_their_state_on_and_those_of_intervals_to_their_end(hopper, motion, forces):
    extra = {name: np.concatenate([force, [[1.0, 2.0, 3.0]]]) for name, force in forces.items()}
    states = build(hopper, motion, DT, forces=extra, force_scale=0.1)
    intervals = build(hopper, motion, DT, forces=forces, force_scale=0.1)
    assert np.allclose(arrow(states, "left", N * DT), [0.1, 0.2, 0.3])
    assert np.allclose(arrow(intervals, "left", N * DT), 0.1 * forces["left"][-1], rtol=1e-5)


def test_arrows_start_where_the_frame_is(hopper, motion, forces):
    times, places = moves(build(hopper, motion, DT, forces=forces).messages)["/mayne/contacts/right", "position"]
    data = hopper.model.createData()
    for k, q in enumerate(motion):
        pin.framesForwardKinematics(hopper.model, data, q)
        assert times[k] == pytest.approx(k * DT)
        assert np.allclose(places[k], data.oMf[hopper.model.getFrameId("right")].translation)


def test_by_default_the_weight_is_as_long_as_the_robot_stands_high(hopper, motion):
    weight = np.tile([0.0, 0.0, 9.81 * MASS], (N, 1))
    scene = build(hopper, motion, DT, forces=dict.fromkeys(FEET, weight))
    assert np.allclose(arrow(scene, "left", 0.0), [0.0, 0.0, 0.4], rtol=1e-5)
    assert "force arrows: 1 m for 123 N" in [entry.label for entry in scene.legend]


def test_a_cone_opens_by_the_coefficient_of_friction_and_belongs_to_the_contact(hopper, motion, forces):
    for mu in (0.2, 0.7, 1.5):
        cones = objects(build(hopper, motion, DT, forces=forces, cones=mu), "/mayne/contacts")
        for name in FEET:
            points = vertices(cones[f"/mayne/contacts/{name}/cone"])
            assert np.allclose(np.hypot(points[:, 0], points[:, 1]), mu * points[:, 2], atol=1e-6)
            assert points[:, 2].max() > 0.05
            assert cones[f"/mayne/contacts/{name}/cone"]["object"]["materials"][0]["opacity"] < 0.5
    one = build(hopper, motion, DT, forces=forces, cones={"right": 0.5})
    assert [path for path in objects(one, "/mayne/contacts") if path.endswith("cone")] == ["/mayne/contacts/right/cone"]
    assert "friction cones: μ = 0.5" in [entry.label for entry in one.legend]
    assert not [p for p in objects(build(hopper, motion, DT, forces=forces), "/mayne/contacts") if p.endswith("cone")]


def test_a_foot_has_one_colour_for_trace_and_arrow_and_feet_differ(hopper, motion, forces):
    scene = build(hopper, motion, DT, frames=["right", "left"], forces=forces)

    def color(path):
        return objects(scene, path)[path]["object"]["materials"][0]["color"]

    for name in FEET:
        assert color(f"/mayne/traces/{name}") == color(f"/mayne/contacts/{name}/force/shaft")
    assert color("/mayne/traces/left") != color("/mayne/traces/right")
    assert {entry.label for entry in scene.legend} >= {"path and force of left", "path and force of right"}


def test_arrows_move_with_their_frames_and_jump_from_force_to_force(hopper, motion, forces):
    messages = build(hopper, motion, DT, forces=forces).messages
    smooth = set(moves(messages)) - held(messages)
    contacts = {(path, name) for path, name in smooth if path.startswith("/mayne/contacts")}
    assert contacts == {(f"/mayne/contacts/{name}", "position") for name in FEET}
    assert ("/mayne/robot/1 body", "position") in smooth


def test_everything_that_moves_ends_at_the_same_time(hopper, motion, forces):
    ends = {times[-1] for times, _ in moves(build(hopper, motion, DT, forces=forces).messages).values()}
    assert len(ends) == 1


def test_durations_may_differ_and_an_impact_takes_no_time(hopper, motion, forces):
    steps = np.linspace(0.02, 0.1, N)
    steps[4] = 0.0
    scene = build(hopper, motion, steps, forces=forces, force_scale=0.01)
    times, _ = moves(scene.messages)["/mayne/contacts/left", "position"]
    assert np.allclose(times[: N + 1], np.concatenate([[0.0], np.cumsum(steps)]))
    assert scene.duration == pytest.approx(steps.sum())
    assert np.allclose(arrow(scene, "right", steps[:9].sum()), 0.01 * forces["right"][9], rtol=1e-5)


def test_obstacles_stand_where_they_are(hopper, motion, rng):
    center, a, b = rng.normal(size=(3, 3))
    obstacles = [viz.Sphere(center, 0.3), viz.Capsule(a, b, 0.2), viz.Capsule(a, a, 0.1)]
    scene = build(hopper, motion, DT, obstacles=obstacles)
    ball, pill, point = (vertices(m) for m in objects(scene, "/mayne/obstacles").values())
    assert np.allclose(np.linalg.norm(ball - center, axis=1), 0.3, atol=1e-6)
    assert np.allclose(np.linalg.norm(point - a, axis=1), 0.1, atol=1e-6)
    along = np.clip((pill - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
    assert np.allclose(np.linalg.norm(pill - a - np.outer(along, b - a), axis=1), 0.2, atol=1e-6)
    assert along.min() == 0.0
    assert along.max() == 1.0
    assert "obstacle" in [entry.label for entry in scene.legend]


def test_a_capsule_that_points_down_is_drawn(hopper, motion):
    scene = build(hopper, motion, DT, obstacles=[viz.Capsule([0, 0, 1], [0, 0, 0], 0.1)])
    (message,) = objects(scene, "/mayne/obstacles").values()
    assert np.allclose([vertices(message)[:, 2].min(), vertices(message)[:, 2].max()], [-0.1, 1.1])


def test_the_camera_steps_back_for_obstacles_and_long_arrows(hopper, motion, forces):
    def distance(**extra):
        messages = build(hopper, motion, DT, **extra).messages
        (place,) = [m["value"] for m in messages if m.get("property") == "position"]
        return np.linalg.norm(place)

    assert distance(obstacles=[viz.Sphere([9.0, 0.0, 0.0], 1.0)]) > 5.0 * distance()
    assert distance(forces=forces, force_scale=1.0) > 5.0 * distance(forces=forces, force_scale=1e-6)


@pytest.mark.parametrize("height", [-0.3, 0.0, 0.2])
def test_the_ground_is_a_plane_at_its_height_with_the_grid_on_it(hopper, motion, height):
    lines, plane = (vertices(m) for m in objects(build(hopper, motion, DT, ground=height), "/mayne/ground").values())
    assert np.allclose(lines[:, 2], height, atol=0.01)
    assert np.allclose(plane[:, 2], height, atol=0.02)
    assert lines[0, 2] > plane[0, 2]
    assert np.ptp(plane[:, :2], axis=0) == pytest.approx(np.ptp(lines[:, :2], axis=0))
    assert len(objects(build(hopper, motion, DT), "/mayne/ground")) == 1


def test_obstacles_below_leave_the_grid_where_it_was(hopper, motion):
    def height(**extra):
        (lines,) = objects(build(hopper, motion, DT, **extra), "/mayne/ground").values()
        return vertices(lines)[:, 2].mean()

    assert height(obstacles=[viz.Sphere([0.0, 0.0, -0.5], 0.3)]) == pytest.approx(height(), abs=0.01)


def test_a_trotting_robot_in_a_file_has_all_of_it_and_fetches_nothing(tmp_path):
    hyq = dynamics.load("hyq")
    feet = ["lf_foot", "rf_foot", "lh_foot", "rh_foot"]
    X = np.tile(hyq.q0, (7, 1))
    X[:, 0] = np.linspace(0.0, 0.3, 7)
    push = np.full((2, 6, 3), np.nan)
    push[0, :3] = push[1, 3:] = [10.0, 0.0, 400.0]
    pushes = {foot: push[int(foot in ("rf_foot", "lh_foot"))] for foot in feet}
    viz.save_html(
        tmp_path / "trot.html", hyq, X, 0.1, frames=feet, forces=pushes, cones=0.6, ground=0.0,
        obstacles=[viz.Sphere([1.0, 0.5, 0.2], 0.2)],
    )  # fmt: skip
    text = (tmp_path / "trot.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not [attrs for _, attrs in page.tags if "src" in attrs or "href" in attrs]
    for foot in feet:
        assert f"path and force of {foot}" in text
        assert len(page.objects(f"/mayne/contacts/{foot}/")) == 3
        times, shown = moves(page.messages)[f"/mayne/contacts/{foot}", "visible"]
        first = foot not in ("rf_foot", "lh_foot")
        assert shown == ([True, False, False] if first else [False, True, True])
        assert times[1] == pytest.approx(0.3)
    assert len(page.objects("/mayne/obstacles/")) == 1
    assert len(page.objects("/mayne/ground/")) == 2
    assert len(text) < 5e6


def test_files_and_the_live_viewer_take_the_same_arguments():
    names = [list(inspect.signature(function).parameters) for function in (build, viz.save_html, viz.animate)]
    own = [n for n in names[0] if n != "read"]  # shapes of earlier scenes, which nobody gives
    assert own == [n for n in names[1] if n not in ("path", "title", "iterations")]
    assert own == [n for n in names[2] if n not in ("open_browser", "title")]
    assert set(names[1]) - {"path", "iterations"} == set(names[2]) - {"open_browser"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forces": {"lft": np.ones((N, 3))}}, "forces: hopper has no frame 'lft'; did you mean 'left'"),
        ({"forces": {"left": np.ones((N - 1, 3))}}, r"forces\['left'\]: expected 12 or 13 rows, got 11"),
        ({"forces": {"left": np.ones((N, 6))}}, r"forces\['left'\]: expected rows of 3 numbers, got \(12, 6\)"),
        ({"forces": {"left": np.full((N, 3), np.inf)}}, r"forces\['left'\]: expected finite numbers, or NaN"),
        ({"forces": [np.ones((N, 3))]}, "forces: expected a mapping from names to arrays"),
        ({"force_scale": 0.0}, "force_scale: expected a positive number, got 0.0"),
        ({"cones": -0.5}, "cones: expected a positive number"),
        ({"cones": {"left": np.nan}}, r"cones\['left'\]: expected a positive number"),
        ({"cones": {"rigth": 0.5}}, "cones: expected names of frames with forces, got 'rigth'; did you mean 'right'"),
        ({"cones": 0.5, "forces": None}, "cones: expected forces as well"),
        ({"obstacles": [viz.Sphere([0, 0, 0], 1), "wall"]}, r"obstacles\[1\]: expected a viz.Sphere .* got 'wall'"),
        ({"ground": np.nan}, "ground: expected finite numbers"),
        ({"ground": [0.0, 1.0]}, "ground: expected a number"),
        ({"dt": np.full(N - 1, 0.1)}, r"dt: expected shape \(12,\), got \(11,\)"),
        ({"dt": np.full(N, -0.1)}, "dt: expected durations of at least 0 s"),
    ],
)
def test_bad_input_is_named(hopper, motion, forces, change, message):
    arguments = {"dt": DT, "forces": forces} | change
    with pytest.raises((ProblemError, ModelError), match=message):
        build(hopper, motion, **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: viz.Sphere([0, 0], 1.0), r"center of a sphere: expected shape \(3,\), got \(2,\)"),
        (lambda: viz.Sphere([0, 0, np.nan], 1.0), "center of a sphere: expected finite numbers"),
        (lambda: viz.Sphere([0, 0, 0], -1.0), "radius of a sphere: expected a positive number"),
        (lambda: viz.Capsule("a", [0, 0, 1], 1.0), "start of a capsule: expected real numbers"),
        (lambda: viz.Capsule([0, 0, 0], [0, 0, np.inf], 1.0), "end of a capsule: expected finite numbers"),
        (lambda: viz.Capsule([0, 0, 0], [0, 0, 1], 0.0), "radius of a capsule: expected a positive number"),
    ],
)
def test_a_bad_obstacle_is_named_where_it_is_made(make, message):
    with pytest.raises(ProblemError, match=message):
        make()
