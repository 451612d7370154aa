"""Costs, constraints and ready-made problems of robots with rods: a result that is checked, or one sentence."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order
from rod_oracles import SILICONE, moved
from thorough import cases

import ddp
import dynamics
import problems
import viz
from ddp.errors import DDPError
from dynamics import Assembly, Circle, Rod, Tendon
from problems import constraints, costs, frame_limits, obstacles, soft
from problems.contact_costs import StateLimits

TIP = "rod/tip"


def build(robot=None):
    """A rod between joints whose numbers in q are not where they are in v, on a robot or a ball."""
    if robot is None:
        begun = Assembly("hybrid").joint("ball", pin.JointModelSpherical(), inertia=pin.Inertia.FromSphere(1.0, 0.1))
        on = "ball"
    else:
        begun, on = Assembly.of(robot), "tool0"
    rod = Rod("rod", 0.4, Circle(0.02), SILICONE, bending=1, stretch=0, gauss=3)
    begun.rod(rod, on, tendons=[Tendon("cable", lambda x: (0.0, 0.01))])
    return begun.joint("slide", pin.JointModelPX(), TIP, inertia=pin.Inertia.FromSphere(0.2, 0.05)).robot()


POSE = pin.SE3(pin.utils.rotate("y", 0.4), np.array([0.1, 0.2, 0.3]))
SPHERES = obstacles.Sphere((0.3, 0.1, 0.2), 0.1)

TERMS = {
    "JointLimits": lambda r: costs.JointLimits(r, 2.0, np.full(r.nq, -0.05), np.full(r.nq, 0.05)),
    "CenterOfMass": lambda r: costs.CenterOfMass(r, [0.1, 0.2, 0.3], 2.0),
    "FramePose": lambda r: costs.FramePose(r, TIP, POSE, np.arange(1.0, 7.0)),
    "FramePosition": lambda r: costs.FramePosition(r, "slide", [0.1, 0.2, 0.3], 2.0),
    "FrameVelocity": lambda r: costs.FrameVelocity(r, "slide", np.ones(6), np.arange(1.0, 7.0)),
    "Energy": lambda r: costs.Energy(r, 1.0, 0.1),
    "Momentum": lambda r: costs.Momentum(r, np.ones(6), np.arange(1.0, 7.0)),
    "StateLimits": lambda r: StateLimits(r, *([[s * np.inf] * 3 + [s * 0.05] * (2 * r.nv - 3) for s in (-1, 1)]), 2.0),
}
CONSTRAINTS = {
    "JointLimits": lambda r: constraints.JointLimits(r, -0.1, 0.1, joints=["rod", "slide"]),
    "VelocityLimits": lambda r: constraints.VelocityLimits(r, 1.0, joints=["slide"]),
    "FramePositionEquality": lambda r: constraints.FramePositionEquality(r, TIP, [0.1, 0.2, 0.3]),
    "FramePoseEquality": lambda r: constraints.FramePoseEquality(r, TIP, POSE),
    "FramePositionLimits": lambda r: frame_limits.FramePositionLimits(r, TIP, lower=[-1.0, -np.inf, 0.0]),
    "CenterOfMassLimits": lambda r: frame_limits.CenterOfMassLimits(r, lower=[-1.0, -np.inf, 0.0]),
    "FrameVelocityLimits": lambda r: frame_limits.FrameVelocityLimits(r, TIP, upper=1.0, reference="world"),
    "SphereClearance": lambda r: obstacles.SphereClearance(r, TIP, 0.02, [SPHERES]),
    "CapsuleClearance": lambda r: obstacles.CapsuleClearance(r, ("rod/base", TIP), 0.02, [SPHERES]),
}
REFUSED = {"SelfClearance": lambda r: obstacles.SelfClearance(r)}


def state(robot, seed=0):
    rng = np.random.default_rng(seed)
    return robot.random_configuration(rng), rng.normal(size=robot.nv)


def at(robot, q, v, d):
    """x ⊕ d."""
    return np.concatenate([moved(robot, q, d[: robot.nv]), v + d[robot.nv :]])


@pytest.mark.parametrize("name", TERMS)
def test_derivatives_of_costs_are_differences(name):
    robot, u, rng = build(), np.zeros(2), np.random.default_rng(1)
    (q, v), term = state(robot), TERMS[name](robot)
    x, n = np.concatenate([q, v]), 2 * robot.nv
    value, gradient, hessian = term.value(x, u), term.gradient(x, u), term.hessian(x, u)
    assert np.isfinite(value)
    assert value > 0.0
    for _ in range(3):
        d = rng.normal(size=n) / np.sqrt(n)
        slope = fourth_order(lambda t, d=d: term.value(at(robot, q, v, t * d), u))
        assert abs(gradient[:n] @ d - slope) < 1e-6 * max(1.0, np.abs(gradient).max())
        h = 2e-3
        steps = h * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
        bent = np.dot([-1, 16, -30, 16, -1], [term.value(at(robot, q, v, t * d), u) for t in steps]) / (12 * h * h)
        assert abs(d @ hessian[:n, :n] @ d - bent) < 1e-5 * max(1.0, np.abs(hessian).max())


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_derivatives_of_constraints_are_differences(name):
    robot, U, rng = build(), np.zeros((1, 2)), np.random.default_rng(1)
    (q, v), constraint = state(robot), CONSTRAINTS[name](robot)
    X, n = np.concatenate([q, v])[None], 2 * robot.nv
    values, J = constraint.values(X, U)[0], constraint.jacobian(X, U)[0]
    weight = rng.normal(size=len(values))
    H = constraint.curvature(X, U, weight[None])[0]

    def along(d):
        return lambda t: constraint.values(at(robot, q, v, t * d)[None], U)[0]

    for _ in range(3):
        d = rng.normal(size=n) / np.sqrt(n)
        np.testing.assert_allclose(J[:, :n] @ d, fourth_order(along(d)), atol=1e-7 * max(1.0, np.abs(J).max()))
        h = 2e-3
        steps = h * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
        bent = np.dot([-1, 16, -30, 16, -1], [weight @ along(d)(t) for t in steps]) / (12 * h * h)
        assert abs(d @ H[:n, :n] @ d - bent) < 1e-5 * max(1.0, np.abs(H).max())


def test_values_of_constraints_on_frames_are_those_of_the_chain():
    robot = build()
    (q, v), data = state(robot), robot.chain.createData()
    pin.forwardKinematics(robot.chain, data, robot.to_chain(q))
    tip = data.oMi[robot.chain.getJointId("rod/4")]
    base = data.oMi[robot.chain.getJointId("ball")]
    X, U = np.concatenate([q, v])[None], np.zeros((1, 2))
    position = CONSTRAINTS["FramePositionEquality"](robot).values(X, U)[0]
    np.testing.assert_allclose(position, tip.translation - [0.1, 0.2, 0.3], atol=1e-12)
    pose = CONSTRAINTS["FramePoseEquality"](robot).values(X, U)[0]
    np.testing.assert_allclose(pose, pin.log6(POSE.actInv(tip)).vector, atol=1e-10)
    away = np.array([0.3, 0.1, 0.2])
    found = CONSTRAINTS["SphereClearance"](robot).values(X, U)[0, 0]
    assert abs(found - (np.linalg.norm(tip.translation - away) - 0.12)) < 1e-12
    axis = tip.translation - base.translation
    s = np.clip((away - base.translation) @ axis / (axis @ axis), 0.0, 1.0)
    found = CONSTRAINTS["CapsuleClearance"](robot).values(X, U)[0, 0]
    assert abs(found - (np.linalg.norm(base.translation + s * axis - away) - 0.12)) < 1e-12
    low = CONSTRAINTS["CenterOfMassLimits"](robot).values(X, U)[0]
    np.testing.assert_allclose(low, pin.centerOfMass(robot.chain, data, robot.to_chain(q))[[0, 2]], atol=1e-12)


ASKED = {
    "frame_position": lambda r, x: dynamics.frame_position(r, x[: r.nq], TIP) @ np.array([1.0, -2.0, 3.0]),
    "frame_placement": lambda r, x: (dynamics.frame_placement(r, x[: r.nq], "slide")[:3, :] ** 2).sum(),
    "frame_velocity": lambda r, x: (dynamics.frame_velocity(r, x[: r.nq], x[r.nq :], "slide") ** 2).sum(),
    "center_of_mass": lambda r, x: (dynamics.center_of_mass(r, x[: r.nq]) ** 2).sum(),
    "inverse_dynamics": lambda r, x: (dynamics.inverse_dynamics(r, x[: r.nq], x[r.nq :], 0.0 * x[r.nq :]) ** 2).sum(),
}


@pytest.mark.parametrize("name", cases(list(ASKED), ["frame_placement", "inverse_dynamics"]))
def test_costs_of_users_may_ask_for_quantities_of_robots_with_rods(name):
    robot = build()
    q, v = state(robot)
    x, system = np.concatenate([q, v]), dynamics.RobotDynamics(robot, 0.01, integrator="sdirk2")
    problem = ddp.Problem(system, [lambda x, u: u @ u], [lambda x, u: ASKED[name](robot, x)], x, 1)
    X, U = np.stack([x, x]), np.zeros((1, system.nu))
    assert problem.cost(X, U) == pytest.approx(ASKED[name](robot, x), rel=1e-12)
    assert ddp.check_derivatives(problem, X, U).ok


def functions():
    """Public functions of the problems that take a robot, and classes that do."""
    for found in pkgutil.walk_packages(problems.__path__, "problems."):
        if any(part in found.name for part in ("__main__", ".command", ".checks", ".layout", ".cli")):
            continue
        module = importlib.import_module(found.name)
        for name, function in vars(module).items():
            if name.startswith("_") or getattr(function, "__module__", "") != module.__name__ or not callable(function):
                continue
            try:
                parameters = inspect.signature(function).parameters
            except (TypeError, ValueError):
                continue
            if {"robot", "arm"} & set(parameters):
                yield name, function, parameters


KNOWN = {
    *TERMS, *CONSTRAINTS, *REFUSED, "group_of", "scalar_joints", "SoftSystem", "Stance", "TorqueLimits", "base_pose",
    "with_base", "miss",
}  # fmt: skip
"""Tested here or in test_soft_motions.py, records, and helpers of robots on legs, which have been checked."""


def test_problems_refuse_robots_with_rods_in_one_sentence():
    robot = build(dynamics.load("ur5"))
    given = {"joints": ["shoulder_pan_joint"], "q": robot.q0, "pose": pin.SE3.Identity(), "feet": ["tool0"]}
    for name, function, parameters in functions():
        if name in KNOWN:
            continue
        first = "robot" if "robot" in parameters else "arm"
        needed = [p.name for p in parameters.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL,)]
        arguments = {p: given.get(p, 1.0) for p in needed} | {first: robot}
        with pytest.raises(DDPError) as refused:
            function(**arguments)
        assert "\n" not in str(refused.value), name
    for make in REFUSED.values():
        with pytest.raises(DDPError, match="rods"):
            make(robot)


def test_solutions_of_soft_robots_are_drawn_and_explained(tmp_path):
    problem = soft.reach(horizon=5)
    robot = problem.dynamics.robot
    clear = obstacles.CapsuleClearance(robot, ("arm/base", "arm/tip"), 0.03, [obstacles.Sphere((1.0, 0.0, 0.0), 0.1)])
    solution = ddp.solve(replace(problem, constraints=[clear]), ddp.DDP(max_iterations=3), throw=False)
    viz.save_html(tmp_path / "reach.html", solution)
    viz.save_html(tmp_path / "states.html", robot, solution.X, 0.02, frames=["arm/tip"])
    assert (tmp_path / "states.html").stat().st_size > 10_000
    assert "arm/tip" in str(solution.explain())
