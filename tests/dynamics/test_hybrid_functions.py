"""Every public function on a robot with rods: a result that other tests check, or a ModelError in one sentence."""

import inspect

import numpy as np
import pinocchio as pin
import pytest

import dynamics
from ddp.errors import ModelError
from dynamics import Assembly, Circle, Contact, Material, Rod, Tendon

CHECKED = {
    "frame_placement", "frame_placement_derivatives", "frame_placement_hessian", "internal_forces",
    "internal_forces_derivatives", "inverse_dynamics", "inverse_dynamics_derivatives", "inverse_dynamics_hessian",
    "mass_matrix", "simulate", "statics", "tendon_forces", "tendon_forces_derivatives", "tendon_forces_hessian",
}  # fmt: skip
"""Functions that know rods, whose results test_rods.py, test_rod_frames.py, test_rod_forces.py and others check."""


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
        "u": np.ones(1), "frame": "rod/tip", "contacts": [Contact("rod/tip")], "target": np.zeros(3),
    }  # fmt: skip


FUNCTIONS = [
    name for name in dynamics.__all__
    if inspect.isfunction(getattr(dynamics, name)) and "robot" in inspect.signature(getattr(dynamics, name)).parameters
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


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_answer_or_refuse_in_one_sentence(name):
    function, robot = getattr(dynamics, name), hybrid()
    known = given(robot) | ({"u": np.ones(2)} if name == "statics" else {})
    arguments = {p: known[p] for p in inspect.signature(function).parameters if p in known}
    if name in CHECKED:
        assert finite(function(**arguments))
        return
    with pytest.raises(ModelError) as refused:
        function(**arguments)
    message = str(refused.value)
    assert "rods" in message
    assert "\n" not in message
    assert ". " not in message


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
