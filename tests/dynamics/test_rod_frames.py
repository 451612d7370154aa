"""Frames of robots with rods, and every other function on one: a result that is checked, or a refusal."""

import inspect

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order, relative_error
from rod_oracles import cable_arm, golden_state, random_hybrid

import dynamics
from ddp.errors import DDPError, ModelError
from dynamics.geometry.configuration import integrate_batch
from problems import constraints, costs


def moved(robot, q, d):
    """q ⊕ d."""
    out = np.zeros((1, robot.nq + robot.nv))
    x = np.concatenate([q, np.zeros(robot.nv)])[None]
    integrate_batch(robot.tree, x, np.concatenate([d, np.zeros(robot.nv)])[None], out)
    return out[0, : robot.nq]


def pose_of(robot, data, name, q):
    """Pose by Pinocchio's kinematics of the chain of rigid segments, whose data it overwrites."""
    rod, point = name.split("/")
    part = next(part for part in robot.recipe.parts if part.name == rod)
    last = part.moves.gauss + 1
    point = {"tip": last, "base": 0}.get(point) if point in ("tip", "base") else int(point)
    pin.forwardKinematics(robot.chain, data, robot.to_chain(q))
    if point:
        return data.oMi[robot.chain.getJointId(f"{rod}/{point}")].copy()
    return data.oMi[robot.chain.parents[robot.chain.getJointId(f"{rod}/1")]] * part.placement


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


def test_cost_of_a_tip_has_exact_derivatives(rng):
    robot, (q, v, _) = cable_arm(), golden_state()
    x, u = np.concatenate([q, v]), np.zeros(5)
    terms = [
        costs.FramePosition(robot, "arm/tip", [0.1, 0.2, -0.3], 3.0),
        costs.FramePose(robot, "arm/3", pin.SE3.Random(), rng.uniform(0.5, 2.0, 6)),
    ]
    for term in terms:
        e = np.eye(53)
        gradient = [fourth_order(lambda t, d=d, f=term: f.value(x + t * d[:48], u)) for d in e]
        hessian = [fourth_order(lambda t, d=d, f=term: f.gradient(x + t * d[:48], u)) for d in e]
        assert relative_error(term.gradient(x, u), np.array(gradient)) < 1e-9
        assert relative_error(term.hessian(x, u), np.array(hessian)) < 1e-9


CHECKED = {
    "Assembly", "inverse_dynamics", "inverse_dynamics_derivatives", "inverse_dynamics_hessian", "mass_matrix",
    "internal_forces", "internal_forces_derivatives", "tendon_forces", "tendon_forces_derivatives",
    "tendon_forces_hessian", "frame_placement", "frame_placement_derivatives", "frame_placement_hessian", "statics",
    "JointSensor", "FrameSensor",
}  # fmt: skip
"""Functions with a test of their own here, in test_rods.py, test_rod_forces.py or test_rod_steps.py."""


def arguments(robot, function):
    """Plausible arguments of a function on a robot, by their names."""
    nv = robot.nv
    known = {
        "robot": robot, "q": robot.neutral(), "v": np.zeros(nv), "a": np.zeros(nv), "tau": np.zeros(nv),
        "mu": np.ones(nv), "weight": np.ones(nv), "u": np.zeros(len(robot.tendons)), "frame": "arm/tip", "dt": 0.01,
        "frames": ["arm/tip"], "joints": ["arm"], "q0": robot.q0, "model": robot,
    }  # fmt: skip
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    return {p.name: known.get(p.name, np.zeros(nv)) for p in needed if p.kind is not p.VAR_POSITIONAL}


@pytest.mark.parametrize("name", sorted(set(dynamics.__all__) - CHECKED))
def test_other_functions_refuse_rods(name):
    robot, function = cable_arm(3, torsion=0, bending=1, stretch=0, shear=None), getattr(dynamics, name)
    if not callable(function) or "robot" not in inspect.signature(function).parameters:
        return
    given = arguments(robot, function)
    if name.startswith(("center", "momentum", "frame_velocity")) and "weight" in given:
        given["weight"] = np.ones(3 if name.startswith("center") else 6)
    if "phases" in given:
        given["phases"] = [dynamics.Phase([dynamics.Contact("arm/tip")], 3)]
    if "contacts" in given:
        given["contacts"] = [dynamics.Contact("arm/tip")]
    with pytest.raises(ModelError, match="rods"):
        function(**given)


@pytest.mark.parametrize(
    "make",
    [
        lambda r: costs.FrameVelocity(r, "arm/tip", np.zeros(6), np.ones(6)),
        lambda r: costs.CenterOfMass(r, np.zeros(3), 1.0).value(np.zeros(2 * r.nv), np.zeros(5)),
        lambda r: r.frame_id("arm/tip"),
        lambda r: dynamics.PhasedDynamics(r, 0.01, dynamics.Phase(knots=3)),
        lambda r: dynamics.contact_dynamics(r, *np.zeros((3, r.nv)), []),
        lambda r: dynamics.linearize(r, *np.zeros((3, r.nv))),
        lambda r: constraints.JointLimits(r),
        lambda r: constraints.FramePositionEquality(r, "arm/tip", np.zeros(3)),
        lambda r: dynamics.Assembly.of(r),
    ],
)
def test_costs_refuse_rods(make):
    with pytest.raises(DDPError):
        make(cable_arm(3, torsion=0, bending=1, stretch=0, shear=None))
