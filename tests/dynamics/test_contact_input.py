"""Mistakes in contacts are named."""

import numpy as np
import pinocchio as pin
import pytest

import dynamics
from ddp.errors import ModelError, ProblemError
from dynamics import Contact

ROBOT = dynamics.load("anymal")
STATE = ROBOT.q0, np.zeros(18), np.zeros(18)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Contact("LF_FOOT", "points"), "kind of the contact at 'LF_FOOT': unknown 'points'; did you mean"),
        (lambda: Contact("LF_FOOT", reference="world"), "reference of the contact at 'LF_FOOT': unknown 'world'"),
        (lambda: Contact("LF_FOOT", gains=(0.0, -1.0)), "expected no negative number, got (0.0, -1.0)"),
        (lambda: Contact("LF_FOOT", gains=(1.0,)), "gains of the contact at 'LF_FOOT': expected shape (2,), got (1,)"),
        (lambda: Contact("LF_FOOT", gains=(9.0, 6.0)), "target of the contact at 'LF_FOOT': expected where"),
        (lambda: Contact("LF_FOOT", target=(1.0, 2.0)), "target of the contact at 'LF_FOOT': expected shape (3,)"),
        (lambda: Contact("LF_FOOT", "surface", target=2.0 * np.eye(4)), "right-handed rotation"),
    ],
)  # fmt: skip
def test_bad_contacts_are_named(make, words):
    with pytest.raises(ProblemError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("contacts", "words", "error"),
    [
        (["LF_FOOT"], "contacts[0]: expected a Contact, got 'LF_FOOT'", ProblemError),
        (None, "contacts: expected a list of Contacts, got None", ProblemError),
        ("LF_FOOT", "contacts: expected a list of Contacts, got 'LF_FOOT'", ProblemError),
        ([Contact("LF_FOT")], "anymal has no frame 'LF_FOT'; did you mean 'LF_FOOT'", ModelError),
        ([Contact("LF_FOOT"), Contact("LF_FOOT", "surface")], "the frame 'LF_FOOT' is listed 2 times", ProblemError),
        ([Contact("universe")], "'universe' is fixed to the world", ProblemError),
        (
            [Contact("LF_FOOT", target=np.zeros(3), gains=(1.0, 1.0)),
             Contact("LF_SHANK", target=np.ones(3), gains=(1.0, 1.0))],
            "'LF_SHANK' and 'LF_FOOT' contradict each other", ProblemError,
        ),
    ],
)  # fmt: skip
def test_bad_sets_of_contacts_are_named(contacts, words, error):
    with pytest.raises(error) as caught:
        dynamics.contact_dynamics(ROBOT, *STATE, contacts)
    assert words in str(caught.value)


def test_bad_numbers_are_named():
    foot = Contact("LF_FOOT")
    with pytest.raises(ProblemError, match="restitution: expected a number from 0 to 1, got"):
        dynamics.impact_dynamics(ROBOT, *STATE[:2], foot, 1.5)
    with pytest.raises(ProblemError, match="regularization: expected at least 0, got -1"):
        dynamics.contact_dynamics(ROBOT, *STATE, foot, regularization=-1.0)
    with pytest.raises(ProblemError, match=r"force_weight: expected shape \(3,\), got \(4,\)"):
        dynamics.contact_dynamics_hessian(ROBOT, *STATE, foot, force_weight=np.zeros(4))
    with pytest.raises(ProblemError, match=r"tau: expected shape \(18,\), got \(12,\)"):
        dynamics.contact_dynamics(ROBOT, *STATE[:2], np.zeros(12), foot)
    with pytest.raises(ProblemError, match="fext: expected shape"):
        dynamics.contact_dynamics(ROBOT, *STATE, foot, np.zeros((3, 6)))


def test_targets_cannot_be_written_on_behind_the_back_of_kernels():
    target = np.zeros(3)
    foot = Contact("LF_FOOT", target=target)
    target[0] = 1.0
    assert not foot.target.any()
    with pytest.raises(ValueError, match="read-only"):
        foot.target[0] = 1.0


def test_a_singular_mass_matrix_is_an_error():
    model = pin.Model()
    body = pin.Inertia(1.0, np.zeros(3), np.zeros((3, 3)))
    model.appendBodyToJoint(model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "spin"), body, pin.SE3.Identity())
    model.addFrame(pin.Frame("tip", 1, 0, pin.SE3(np.eye(3), np.ones(3)), pin.OP_FRAME))
    robot = dynamics.load(model)
    with pytest.raises(ModelError, match="mass matrix is not positive definite"):
        dynamics.contact_dynamics(robot, np.zeros(1), np.zeros(1), np.zeros(1), Contact("tip"))


@pytest.mark.parametrize(
    ("call", "words", "error"),
    [
        (lambda: dynamics.mass_matrix("anymal", ROBOT.q0), "robot: expected a Robot from mayne.load, got 'anymal'",
         ModelError),
        (lambda: dynamics.frame_placement(ROBOT, ROBOT.q0, None), "frame: anymal has no frame None", ModelError),
        (lambda: dynamics.frame_velocity(ROBOT, *STATE[:2], "base", []), "reference: unknown []", ProblemError),
        (lambda: dynamics.impact_dynamics(ROBOT, *STATE[:2], Contact("LF_FOOT"), None),
         "restitution: expected a real number, got None", ProblemError),
        (lambda: dynamics.PhasedDynamics(ROBOT, 0.01, 3), "phases: expected a list of Phases, got 3", ProblemError),
        (lambda: dynamics.Phase(None), "contacts of a phase: expected a list of Contacts, got None", ProblemError),
        (lambda: dynamics.FunctionDynamics(lambda x, u: x, 10**8, 1), "nx: 100000000 would need", ProblemError),
        (lambda: dynamics.load("x" * 1000), "is called 'xxxx", ModelError),
    ],
)  # fmt: skip
def test_arguments_of_another_kind_are_named(call, words, error):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert len(str(caught.value)) < 500


def test_forces_of_a_frame_are_those_of_its_contact_alone_in_their_order(rng):
    """By contact dynamics of the same contacts the other way round."""
    feet = [Contact("LF_FOOT"), Contact("RH_FOOT", "surface"), Contact("RF_FOOT")]
    forces, x = dynamics.ContactForces(ROBOT, feet), np.r_[ROBOT.q0, 0.1 * rng.normal(size=18)]
    u = rng.normal(size=forces.nu)
    (found,) = forces.values(x[None], u[None])
    backward = dynamics.contact_dynamics(ROBOT, x[:19], x[19:], forces.actuation @ u, feet[::-1]).f
    theirs = dict(zip(["RF_FOOT", "RH_FOOT", "LF_FOOT"], np.split(backward, [3, 9]), strict=True))
    for frame, force in theirs.items():
        np.testing.assert_allclose(found[forces.rows(frame)], force, rtol=1e-9, atol=1e-9)
    with pytest.raises(ProblemError, match="frame: no contact at 'LH_FOOT'; did you mean"):
        forces.rows("LH_FOOT")
