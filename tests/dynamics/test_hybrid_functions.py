"""Every public function on a robot with rods: a result that other tests check, or a ModelError in one sentence."""

import inspect

import numpy as np
import pinocchio as pin
import pytest

import dynamics
from ddp.errors import ModelError
from dynamics import Assembly, Circle, Contact, Material, Rod, Tendon

REFUSED = {
    "OneSample", "PhasedDynamics", "KinematicDynamics", "MimicDynamics", "ContactForces", "held_directions",
    "linearize",
    *(f"{kind}_dynamics{order}" for kind in ("contact", "impact")
      for order in ("", "_derivatives", "_hessian", "_second_derivatives")),
}  # fmt: skip
"""Functions that refuse rods. All else is checked by oracles in test_rods.py, test_rod_frames.py, test_rod_forces.py,
test_rod_steps.py and test_hybrid_quantities.py, and sensors in tests/problems/test_soft_motions.py."""


def hybrid():
    soft = Material(1e6, 0.45, 1000.0, 1e3)
    build = Assembly("hybrid").joint("hinge", pin.JointModelRX(), inertia=pin.Inertia.Random())
    rod = Rod("rod", 0.4, Circle(0.02), soft, bending=1, stretch=0, gauss=3)
    return build.rod(rod, "hinge", tendons=[Tendon("cable", lambda x: (0.0, 0.01))]).robot()


def given(robot):
    """Arguments by name."""
    rng = np.random.default_rng(0)
    v, a, tau, mu = rng.normal(size=(4, robot.nv))
    return {
        "robot": robot, "q": np.full(robot.nq, 0.1), "v": v, "a": a, "tau": tau, "mu": mu, "weight": mu,
        "u": np.ones(1), "frame": "rod/tip", "contacts": [Contact("rod/tip")], "target": np.zeros(3), "dt": 0.01,
        "phases": [dynamics.Phase([Contact("rod/tip")], 3)], "integrator": "sdirk2",
    }  # fmt: skip


NAMES = [
    name for name in dynamics.__all__
    if callable(getattr(dynamics, name)) and "robot" in inspect.signature(getattr(dynamics, name)).parameters
]  # fmt: skip


def finite(found):
    """Whether all numbers of a result are finite."""
    if isinstance(found, tuple):
        return all(finite(part) for part in found)
    if isinstance(found, pin.SE3):
        return bool(np.isfinite(found.homogeneous).all())
    if isinstance(found, dynamics.Rest):
        return bool(found.converged) and finite(found.q)
    return bool(np.isfinite(found).all())


@pytest.mark.parametrize("name", NAMES)
def test_functions_answer_or_refuse_in_one_sentence(name):
    function, robot = getattr(dynamics, name), hybrid()
    sizes = dict.fromkeys(("momentum_hessian", "frame_velocity_hessian", "frame_placement_hessian"), 6)
    sizes["center_of_mass_hessian"] = 3
    known = given(robot) | ({"u": np.ones(2)} if name == "statics" else {})
    known["weight"] = np.ones(sizes.get(name, robot.nv))
    arguments = {p: known[p] for p in inspect.signature(function).parameters if p in known}
    if name not in REFUSED:
        found = function(**arguments)
        assert not isinstance(found, (tuple, np.ndarray, float, dynamics.Rest)) or finite(found)
        return
    with pytest.raises(ModelError) as refused:
        function(**arguments)
    assert_one_sentence(refused.value)


def assert_one_sentence(error):
    message = str(error)
    assert "rods" in message
    assert "\n" not in message
    assert ". " not in message


def test_wrenches_of_the_world_are_refused():
    robot = hybrid()
    wrenches = np.zeros((robot.tree.nb + 1, 6))
    for name in ("inverse_dynamics", "forward_dynamics_hessian"):
        known = given(robot)
        arguments = {p: known[p] for p in inspect.signature(getattr(dynamics, name)).parameters if p in known}
        with pytest.raises(ModelError) as refused:
            getattr(dynamics, name)(**arguments, fext=wrenches, fext_frame="world")
        assert_one_sentence(refused.value)


def test_a_model_of_rigid_joints_alone_is_refused():
    """Numbers of the model are elsewhere than those of the robot: whatever reads them would be wrong without a word."""
    robot = hybrid()
    for use in (lambda: robot.model, lambda: robot.with_masses(robot.masses), lambda: robot.frame_id("rod/tip")):
        with pytest.raises(ModelError) as refused:
            use()
        assert_one_sentence(refused.value)


def test_systems_of_contacts_refuse_rods():
    robot = hybrid()
    with pytest.raises(ModelError, match="rods"):
        dynamics.PhasedDynamics(robot, 0.01, dynamics.Phase([Contact("rod/tip")], knots=1))


@pytest.mark.parametrize("path", [lambda x: (0.0, 0.03), lambda x: (0.015, 0.015 + 0.01 * x)])
def test_a_tendon_outside_of_its_section_is_named(path, caplog):
    rod = Rod("rod", 0.4, Circle(0.02), Material(1e6, 0.45, 1000.0), bending=1, stretch=0, gauss=3)
    Assembly().rod(rod, tendons=[Tendon("inside", lambda x: (0.0, 0.02))])
    assert not caplog.records
    Assembly().rod(rod, tendons=[Tendon("cable", path)])
    assert "tendon 'cable' leaves the section of rod 'rod'" in caplog.text
