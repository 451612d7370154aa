"""Robots with rods in the viewer: where their pieces are, and what colours cables have."""

import numpy as np
import pinocchio as pin
import pytest

import dynamics
from ddp.errors import ProblemError
from problems import soft
from viz.chains import Chain, drawn, tension_color
from viz.scene import build, kinematics

TENSIONS = np.linspace(0.0, 20.0, 10).reshape(2, 5)


@pytest.fixture(scope="module")
def arm():
    return soft.cable_arm()


def test_pieces_and_frames_are_where_the_rod_is(arm, rng):
    q = 0.5 * arm.random_configuration(rng)
    chain = drawn(arm)
    assert isinstance(chain, Chain)
    frames = ["arm/base", "arm/3", "arm/tip"]
    indices = [chain.model.getFrameId(name) for name in frames]
    _, paths = kinematics(chain.model, chain.configurations(q[None]), indices)
    for name, path in zip(frames, paths, strict=True):
        place = np.zeros(3) if name == "arm/base" else np.asarray(dynamics.frame_placement(arm, q, name))[:3, 3]
        np.testing.assert_allclose(path[0], place, atol=1e-12)


def test_pieces_cover_the_rod_and_cables_run_at_its_surface(arm):
    chain = drawn(arm)
    assert len(chain.cables) == 5
    for mesh in (meshes[0] for meshes in chain.shapes.values()):
        assert np.hypot(*mesh.vertices[:, 1:].T).max() < 0.0301
    lengths = [np.ptp(meshes[0].vertices[:, 0]) for meshes in chain.shapes.values()]
    assert 0.5 < sum(lengths) < 0.52
    first = next(iter(chain.cables[0][1].values()))
    assert np.abs(first.vertices[:, 2] - 0.03).max() < 0.006  # straight along z, at the radius of the base


def test_cables_are_coloured_by_their_tensions(arm):
    scene = build(arm, np.zeros((3, 24)), 0.1, tensions=TENSIONS)
    colors = [
        track["keys"] for message in scene.messages if message["type"] == "set_animation"
        for clip in message["animations"] for track in clip["clip"]["tracks"] if track["type"] == "color"
    ]  # fmt: skip
    assert len(colors) == 5 * len(drawn(arm).shapes)
    assert colors[0][0]["value"] == pytest.approx(tension_color(0.0))
    assert colors[-1][-1]["value"] == pytest.approx(tension_color(1.0))
    assert any("20 N" in entry.label for entry in scene.legend)


def test_surfaces_and_water_are_in_the_legend():
    for name, label in (("soft/contact", "surface"), ("soft/underwater", "surface of the water")):
        moving = soft.system(name)
        scene = build(moving.robot, moving.x0[None], 0.1)
        assert label in [entry.label for entry in scene.legend]


def test_robots_that_rods_were_added_to_keep_their_meshes(arm):
    rod = dynamics.Rod("finger", 0.2, dynamics.Circle(0.02), soft.SILICONE, bending=0, gauss=1)
    robot = dynamics.Assembly.of(dynamics.load("ur5")).rod(rod, on="tool0").robot()
    chain, alone = drawn(robot), pin.Model(dynamics.load("ur5").model)
    assert chain.model.existFrame("tool0")
    meshes = [meshes for joint, meshes in chain.shapes.items() if joint < alone.njoints]
    assert sum(len(mesh.vertices) for many in meshes for mesh in many) > 10_000
    assert not chain.missing


@pytest.mark.parametrize(
    ("tensions", "message"), [(np.zeros((3, 5)), "tensions: .*shape"), (np.zeros((2, 4)), "tensions: .*shape")]
)
def test_tensions_of_another_size_are_refused(arm, tensions, message):
    with pytest.raises(ProblemError, match=message):
        build(arm, np.zeros((3, 24)), 0.1, tensions=tensions)


def test_tensions_of_rigid_robots_are_refused():
    with pytest.raises(ProblemError, match="tensions: expected a robot with tendons, got ur5"):
        build(dynamics.load("ur5"), np.zeros((3, 6)), 0.1, tensions=TENSIONS)
