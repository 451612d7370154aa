"""Every kind of joint, alone and in chains, against Pinocchio; joints that become chains."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import (
    GROUPS,
    JOINTS,
    chain_of,
    differenced_tensors,
    fourth_order,
    pin_forward_derivatives,
    pin_inverse_derivatives,
    random_inertia,
    random_placement,
    random_state,
    relative_error,
)

import dynamics
from dynamics.steps.robot_dynamics import RobotDynamics

CHAINS = [(kind,) for kind in JOINTS] + [("revolute", kind, "planar", kind) for kind in JOINTS]
ANGLES = (0.0, 1e-7, 1.0, 3.0, np.pi - 1e-6)


@pytest.mark.parametrize("kinds", CHAINS, ids="-".join)
def test_steps_on_the_manifold_are_those_of_pinocchio(kinds, rng):
    robot = chain_of(*kinds)
    system = RobotDynamics(robot, 0.1, actuation=np.eye(robot.nv))
    still = np.zeros(robot.nv)
    for angle in ANGLES:
        q = robot.random_configuration(rng)
        xi = rng.normal(size=robot.nv)
        xi *= angle / np.linalg.norm(xi)
        moved = system.integrate(np.r_[q, still], np.r_[xi, still])[: robot.nq]
        np.testing.assert_allclose(moved, pin.integrate(robot.model, q, xi), atol=1e-13)
        back = system.difference(np.r_[q, still], np.r_[moved, still])[: robot.nv]
        np.testing.assert_allclose(back, pin.difference(robot.model, q, moved), atol=3e-7 if angle > 3.1 else 1e-12)
        np.testing.assert_allclose(back, xi, atol=1e-12)


@pytest.mark.parametrize("kinds", CHAINS, ids="-".join)
def test_dynamics_and_both_orders_of_derivatives_are_those_of_pinocchio(kinds, rng):
    robot = chain_of(*kinds)
    data = robot.model.createData()
    for speed in (0.0, 2.0):
        q, v, a = random_state(robot, rng, speed)
        tau = dynamics.inverse_dynamics(robot, q, v, a)
        assert relative_error(tau, pin.rnea(robot.model, data, q, v, a)) < 1e-12
        assert relative_error(dynamics.forward_dynamics(robot, q, v, tau), a) < 1e-9
        first = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
        for ours, truth in zip(first, pin_inverse_derivatives(robot, data, q, v, a), strict=True):
            np.testing.assert_allclose(ours, truth, atol=1e-12 * max(1.0, np.abs(truth).max()))
        first = dynamics.forward_dynamics_derivatives(robot, q, v, tau)
        for ours, truth in zip(first, pin_forward_derivatives(robot, data, q, v, tau), strict=True):
            np.testing.assert_allclose(ours, truth, atol=1e-9 * max(1.0, np.abs(truth).max()))
        truth = differenced_tensors(robot, lambda q, v, a=a: pin_inverse_derivatives(robot, data, q, v, a), q, v)
        ours = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a)
        for name, value, reference in zip(ours._fields, ours, truth, strict=True):
            np.testing.assert_allclose(value, reference, atol=1e-9 * max(1.0, np.abs(reference).max()), err_msg=name)
        weight = rng.normal(size=robot.nv)
        hessian = dynamics.forward_dynamics_hessian(robot, q, v, tau, weight)
        truth = differenced_tensors(robot, lambda q, v, tau=tau: pin_forward_derivatives(robot, data, q, v, tau), q, v)
        for value, T in zip((hessian.qq, hessian.vv, hessian.qv.T, hessian.qtau.T), truth, strict=True):
            reference = np.einsum("i,ijk", weight, T)
            np.testing.assert_allclose(value, reference, atol=1e-7 * max(1.0, np.abs(T).max()))


@pytest.mark.parametrize("kind", GROUPS)
def test_iterated_and_symmetric_hessians_differ_by_the_joints_brackets(kind, rng):
    robot = chain_of("revolute", kind, "revolute")
    data = robot.model.createData()
    q, v, a = random_state(robot, rng, 2.0)
    mu, delta = rng.normal(size=(2, robot.nv))
    iterated = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu)
    symmetric = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu, symmetric=True)
    assert np.abs(iterated.qq - iterated.qq.T).max() > 0.1
    np.testing.assert_array_equal(symmetric.qq, symmetric.qq.T)

    def rate(t):  # along q ⊕ t δ the body rate is δ all the way
        moved = pin.integrate(robot.model, q, t * delta)
        return mu @ pin_inverse_derivatives(robot, data, moved, v, a)[0] @ delta

    second = fourth_order(rate)
    assert abs(delta @ symmetric.qq @ delta - second) < 1e-9 * np.abs(delta) @ np.abs(symmetric.qq) @ np.abs(delta)

    def column(t, e):
        return mu @ pin_inverse_derivatives(robot, data, pin.integrate(robot.model, q, t * e), v, a)[0]

    truth = np.stack([fourth_order(lambda t, e=e: column(t, e)) for e in np.eye(robot.nv)], axis=1)
    assert relative_error(iterated.qq, truth) < 1e-9


def composite_model(seed):
    """A free body that carries a universal, a ZYX and a composite joint, a branch after the composite."""
    rng = np.random.default_rng(seed)
    model = pin.Model()
    model.name = "composites"
    inner = pin.JointModelComposite()
    inner.addJoint(pin.JointModelRX(), random_placement(rng))
    inner.addJoint(pin.JointModelSpherical(), random_placement(rng))
    inner.addJoint(pin.JointModelPY(), random_placement(rng))
    joints = [
        ("root", 0, pin.JointModelFreeFlyer()),
        ("wrist", 1, pin.JointModelUniversal(np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.6, 0.8]))),
        ("shoulder", 2, pin.JointModelSphericalZYX()),
        ("gimbal", 1, inner),
        ("tip", 4, pin.JointModelRZ()),
    ]
    for name, parent, joint in joints:
        j = model.addJoint(parent, joint, random_placement(rng), name)
        model.appendBodyToJoint(j, random_inertia(rng), random_placement(rng))
        model.addFrame(pin.Frame(f"{name} frame", j, 0, random_placement(rng), pin.FrameType.OP_FRAME))
    model.armature = rng.uniform(0.0, 0.1, model.nv)
    model.lowerPositionLimit, model.upperPositionLimit = -np.ones(model.nq), np.full(model.nq, 2.0)
    model.referenceConfigurations["home"] = pin.neutral(model)
    return model


def test_composite_universal_and_zyx_joints_become_chains_with_the_same_numbers(rng):
    model = composite_model(3)
    robot = dynamics.load(model)
    assert (robot.nq, robot.nv) == (model.nq, model.nv)
    assert robot.joint_names == [
        "root", "wrist_1", "wrist", "shoulder_1", "shoulder_2", "shoulder", "gimbal_1", "gimbal_2", "gimbal", "tip",
    ]  # fmt: skip
    data = model.createData()
    for _ in range(5):
        q, v, a = random_state(robot, rng)
        assert relative_error(dynamics.inverse_dynamics(robot, q, v, a), pin.rnea(model, data, q, v, a)) < 1e-12
        tau = dynamics.inverse_dynamics(robot, q, v, a)
        assert relative_error(dynamics.forward_dynamics(robot, q, v, tau), pin.aba(model, data, q, v, tau)) < 1e-9
        pin.framesForwardKinematics(model, data, q)
        mine = robot.model.createData()
        pin.framesForwardKinematics(robot.model, mine, q)
        for name in ("gimbal frame", "tip frame", "shoulder frame"):
            placed = mine.oMf[robot.frame_id(name)].inverse() * data.oMf[model.getFrameId(name)]
            assert np.abs(placed.homogeneous - np.eye(4)).max() < 1e-12
    for field in ("armature", "lowerPositionLimit", "upperPositionLimit", "damping", "effortLimit"):
        np.testing.assert_array_equal(getattr(robot.model, field), getattr(model, field))
    assert {p.key() for p in robot.model.referenceConfigurations} == {"home"}


def test_a_body_of_several_mjcf_joints_loads_as_a_chain(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(
        '<mujoco model="arm"><worldbody><body name="link"><joint name="hinge" type="hinge" axis="0 0 1"/>'
        '<joint name="slide" type="slide" axis="0 1 0"/><inertial pos="0 0 0.1" mass="1" diaginertia="0.1 0.1 0.1"/>'
        '<body name="hand"><joint name="ball" type="ball"/><inertial pos="0 0 0.1" mass="1" diaginertia="0.1 0.1 0.1"/>'
        "</body></body></worldbody></mujoco>"
    )
    robot = dynamics.load(path)
    assert (robot.nq, robot.nv) == (6, 5)
    truth = pin.buildModelFromMJCF(str(path))
    q, v, a = random_state(robot, np.random.default_rng(0))
    expected = pin.rnea(truth, truth.createData(), q, v, a)
    assert relative_error(dynamics.inverse_dynamics(robot, q, v, a), expected) < 1e-12


def test_children_listed_before_grandchildren_are_no_matter(rng):
    """Pinocchio's rnea takes any order of bodies; its crba and what builds on it want depth first."""
    model = pin.Model()
    model.name = "breadth first"
    kinds = ((0, "free-flyer"), (1, "revolute"), (1, "spherical"), (2, "planar"), (3, "prismatic"), (4, "helical"))
    for parent, kind in kinds:
        j = model.addJoint(parent, JOINTS[kind](rng), random_placement(rng), f"joint{model.njoints}")
        model.appendBodyToJoint(j, random_inertia(rng), pin.SE3.Identity())
    robot = dynamics.load(model)
    data = model.createData()
    q, v, a = random_state(robot, rng)
    tau = pin.rnea(model, data, q, v, a)
    assert relative_error(dynamics.inverse_dynamics(robot, q, v, a), tau) < 1e-12
    assert relative_error(dynamics.forward_dynamics(robot, q, v, tau), a) < 1e-9
    nv, still = robot.nv, np.zeros(robot.nv)
    bias = pin.rnea(model, data, q, v, still)
    M = np.stack([pin.rnea(model, data, q, v, e) - bias for e in np.eye(nv)], axis=1)
    first = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
    assert relative_error(first.da, M) < 1e-12

    def torque(dq, dv):
        return pin.rnea(model, data, pin.integrate(model, q, dq), v + dv, a)

    for value, along in ((first.dq, lambda e: (e, still)), (first.dv, lambda e: (still, e))):
        steps = [fourth_order(lambda t, e=e, along=along: torque(*along(t * e))) for e in np.eye(nv)]
        assert relative_error(value, np.stack(steps, axis=1)) < 1e-9
