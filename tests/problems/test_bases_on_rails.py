"""Legs that carry a base on rails: robots in a plane, as hoppers and walkers of MuJoCo are, are held as free ones."""

import numpy as np
import pinocchio as pin
import pytest

import ddp
import dynamics
import problems
from dynamics import Contact, Phase, PhasedDynamics
from problems.costs import ControlCost, StateCost

LEG = """<body name="{0} thigh" pos="{1} 0 0"><joint name="{0} hip" axis="0 1 0" armature="0.01"/><geom type="capsule"
  size="0.02" fromto="0 0 0 0 0 -0.25" mass="0.8"/><body name="{0} shank" pos="0 0 -0.25"><joint name="{0} knee"
  axis="0 1 0" armature="0.01"/><geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.25" mass="0.3"/>
  <site name="{0} foot" pos="0 0 -0.25"/></body></body>"""
RAILS = """<joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
  <joint name="pitch" axis="0 1 0"/>"""
FEET = "fore foot", "hind foot"


def robot_on(rails):
    """A quadruped in a plane, whose two legs stand 0.6 m apart, 13 cm and more below straight ones."""
    motors = "".join(f'<motor joint="{end} {joint}"/>' for end in ("fore", "hind") for joint in ("hip", "knee"))
    robot = dynamics.load(
        f"""<mujoco><worldbody><body name="trunk" pos="0 0 0.5">{rails}<geom type="box" size="0.35 0.1 0.05" mass="10"/>
        {LEG.format("fore", 0.3)}{LEG.format("hind", -0.3)}</body></worldbody><actuator>{motors}</actuator></mujoco>"""
    )
    q = robot.q0
    q[-4:] = 0.6, -1.2, 0.6, -1.2
    return robot, q


@pytest.fixture(scope="module")
def rise():
    """The trunk rises, tilts and comes back, on feet that stand."""
    robot, q = robot_on(RAILS)
    q[1] = 0.5 * np.cos(0.6) - 0.5
    system = PhasedDynamics(robot, 0.01, Phase(_standing(robot, q), 60, held=True))
    x0 = np.concatenate([q, np.zeros(robot.nv)])
    high, some = x0 + 0.05 * np.eye(14)[1] + 0.1 * np.eye(14)[2], np.concatenate([[0.0, 100.0, 100.0], np.zeros(11)])
    every = np.repeat([1.0, 0.1], 7)
    running = [ControlCost(system.nominal_control(x0), 1e-3), StateCost(system, x0, every)]
    terminal, at = [StateCost(system, x0, 100.0 * every)], {30: [StateCost(system, high, some)]}
    return ddp.solve(ddp.Problem(system, running, terminal, x0, 60, at=at, control_limits=(-50.0, 50.0)))


def _standing(robot, q):
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    return [Contact(foot, target=data.oMf[robot.frame_id(foot)].translation.copy()) for foot in FEET]


def test_a_pushed_base_on_rails_keeps_to_its_path_better_than_by_stiff_joints(rise):
    errors = []
    for policy in ("adaptive", "pd"):
        run = problems.simulate(rise, policy=policy, push=[0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        errors.append(np.sqrt(((run.X - run.plan)[:, :2] ** 2).sum(axis=1).mean()))
        assert run.rms < 0.2  # rad and m: without restoring joints, 0.96
    assert errors[0] < 0.4 * errors[1] < 0.015


def test_a_base_on_joints_without_motors_is_weighed_as_a_free_one():
    """Three rails and a ball joint are a free-flyer: weights, and the joints that resist, are the same."""
    axes = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
    slides = "".join(f'<joint name="{name}" type="slide" axis="{axis}"/>' for name, axis in axes.items())
    free, on_rails = '<freejoint name="root"/>', f'{slides}<joint name="turn" type="ball"/>'
    found = []
    for rails, height in ((free, 0.5), (on_rails, 0.0)):
        robot, q = robot_on(rails)
        q[2] = height + 0.5 * np.cos(0.6) - 0.5
        system = PhasedDynamics(robot, 0.01, Phase(_standing(robot, q), 5))
        X = np.tile(np.concatenate([q, np.zeros(robot.nv)]), (6, 1))
        weights = system.tracked.weights(X, np.zeros((5, 4)))
        feedback = weights.restoring @ system.tracked.free_and_resisted(X[:-1])[1][0]
        found.append([weights.state, weights.control, weights.final, weights.restoring, feedback])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9 * np.abs(one).max())


def test_feet_of_robots_on_rails_that_pull_at_the_ground_are_told_of():
    robot, q = robot_on(RAILS)
    q[1] = 0.5 * np.cos(0.6) - 0.5
    system, x0 = PhasedDynamics(robot, 0.01, Phase(_standing(robot, q), 4)), np.concatenate([q, np.zeros(robot.nv)])
    stands = np.tile(system.nominal_control(x0), (4, 1))
    for U, told in ((stands, False), (-stands, True)):
        X = system.rollout(x0, U)
        found = [one for one in system.excesses(ddp.Problem(system, [], [], x0, 4), X, U) if "pulls" in one]
        assert bool(found) == told == (min(f[:, 2].min() for f in dynamics.ground_forces(system, X, U).values()) < -1.0)


def test_gaits_say_why_they_are_for_free_bases_alone():
    """`load(..., root="free-flyer")`, which helps where the base is fixed, is refused for a base on rails."""
    with pytest.raises(ddp.ProblemError, match="got robot on joints without motors, x first: phases of contacts of"):
        problems.gaits.stand(robot_on(RAILS)[0], feet=FEET)
