"""Frames of robots with rods, and costs on them."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order, relative_error
from rod_oracles import cable_arm, golden_state, moved, random_hybrid

import dynamics
from ddp.errors import DDPError
from problems import constraints, costs


def pose_of(robot, data, name, q):
    """Pose by Pinocchio's kinematics of the chain of rigid segments, whose data it overwrites."""
    rod, point = name.split("/")
    last = next(one for one in robot.rods if one.name == rod).gauss + 1
    point = {"tip": last, "base": 0}.get(point) if point in ("tip", "base") else int(point)
    pin.forwardKinematics(robot.chain, data, robot.to_chain(q))
    if point:
        return data.oMi[robot.chain.getJointId(f"{rod}/{point}")].copy()
    first = robot.chain.getJointId(f"{rod}/1")
    return data.oMi[robot.chain.parents[first]] * robot.chain.jointPlacements[first]


@pytest.mark.parametrize("seed", range(2))
def test_frames_are_those_of_the_chain(seed, rng):
    robot = random_hybrid(seed)
    q, w = robot.random_configuration(rng), rng.normal(size=6)
    data = robot.chain.createData()  # dozens of megabytes
    for rod, at in zip(robot.rods, ("2", "tip", "base"), strict=True):
        for name in (f"{rod.name}/{at}",):
            here = pose_of(robot, data, name, q)
            np.testing.assert_allclose(dynamics.frame_placement(robot, q, name), here.homogeneous, atol=1e-12)

            def twist(d, name=name, here=here):
                return pin.log6(here.actInv(pose_of(robot, data, name, moved(robot, q, d)))).vector

            jacobian = dynamics.frame_placement_derivatives(robot, q, name)
            truth = np.array([fourth_order(lambda t, e=e, twist=twist: twist(t * e)) for e in np.eye(robot.nv)]).T
            np.testing.assert_allclose(jacobian, truth, atol=1e-9 * max(1.0, np.abs(truth).max()))
            H, h = dynamics.frame_placement_hessian(robot, q, name, w), 2e-3
            some = rng.normal(size=(3, robot.nv)) / np.sqrt(robot.nv)
            steps = np.array([-2, -1, 0, 1, 2]) * h
            bent = [np.dot([-1, 16, -30, 16, -1], [w @ twist(t * d) for t in steps]) / (12 * h * h) for d in some]
            found = np.einsum("ki,ij,kj->k", some, H, some)
            np.testing.assert_allclose(found, bent, atol=1e-6 * max(1.0, np.abs(H).max()))


def test_costs_have_exact_derivatives(rng):
    robot, (q, v, _) = cable_arm(), golden_state()
    x, u = np.concatenate([q, v]), np.zeros(5)
    terms = [
        costs.FramePosition(robot, "arm/tip", [0.1, 0.2, -0.3], 3.0),
        costs.FramePose(robot, "arm/3", pin.SE3.Random(), rng.uniform(0.5, 2.0, 6)),
        costs.FrameVelocity(robot, "arm/tip", rng.normal(size=6), rng.uniform(0.5, 2.0, 6), "local-world-aligned"),
        costs.CenterOfMass(robot, [0.1, 0.2, -0.3], 3.0),
        costs.Energy(robot, 1.0, 2.0),
        costs.Momentum(robot, rng.normal(size=6), rng.uniform(0.5, 2.0, 6)),
    ]
    for term in terms:
        e = np.eye(53)
        gradient = [fourth_order(lambda t, d=d, f=term: f.value(x + t * d[:48], u)) for d in e]
        hessian = [fourth_order(lambda t, d=d, f=term: f.gradient(x + t * d[:48], u)) for d in e]
        assert relative_error(term.gradient(x, u), np.array(gradient)) < 1e-9
        assert relative_error(term.hessian(x, u), np.array(hessian)) < 1e-9


@pytest.mark.parametrize(
    "make",
    [
        lambda r: r.frame_id("arm/tip"),
        lambda r: dynamics.PhasedDynamics(r, 0.01, dynamics.Phase(knots=3)),
        lambda r: dynamics.contact_dynamics(r, *np.zeros((3, r.nv)), []),
        lambda r: dynamics.linearize(r, *np.zeros((3, r.nv))),
        lambda r: constraints.JointLimits(r),
        lambda r: dynamics.Assembly.of(r),
    ],
)
def test_costs_refuse_rods(make):
    with pytest.raises(DDPError):
        make(cable_arm(3, torsion=0, bending=1, stretch=0, shear=None))
