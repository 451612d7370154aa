"""Linearisation in continuous time and the inverse mass matrix, against complex step, Pinocchio and the flow itself."""

import numpy as np
import pinocchio as pin
import pytest
from complex_flow import STEP, accelerations_by_complex_step, along_every_direction
from oracles import JOINTS, chain_of, fourth_order, random_state, random_tree, relative_error
from thorough import cases

import dynamics
from ddp.errors import ModelError, ProblemError
from dynamics.rigid_bodies import batch

TREES = range(cases(50, 16))
UPRIGHT = {90: np.array([0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)]), -90: np.array([0.0, -np.sqrt(0.5), 0.0, np.sqrt(0.5)])}
"""Quaternions (x, y, z, w) of a pitch of 90 and of -90 degrees, where Euler angles are singular."""


def brackets(robot, v):
    """-ad_v (nv, nv), joint by joint, from Pinocchio's motion subspaces and its action of motions on one another."""
    out, data = np.zeros((robot.nv, robot.nv)), robot.model.createData()
    pin.forwardKinematics(robot.model, data, robot.neutral(), v)
    for model, joint in zip(list(robot.model.joints)[1:], list(data.joints)[1:], strict=True):
        own, S = slice(model.idx_v, model.idx_v + model.nv), np.asarray(joint.S)
        if model.nv > 1:
            out[own, own] = -S.T @ pin.Motion(S @ v[own]).action @ S
    return out


def exact(robot, q, v, tau, fext, S):
    """A and B by oracles."""
    nv = robot.nv
    motion = np.hstack([brackets(robot, v), np.eye(nv), np.zeros_like(S)])
    return np.split(np.vstack([motion, accelerations_by_complex_step(robot, q, v, tau, fext, S)]), [2 * nv], axis=1)


@pytest.mark.parametrize("seed", TREES)
def test_exact_derivatives_to_rounding_on_random_trees(seed):
    robot, rng = random_tree(seed), np.random.default_rng(seed)
    for pitch in (None, *UPRIGHT) if robot.is_floating else (None,):
        (q, v, tau), S = random_state(robot, rng), rng.normal(size=(robot.nv, 3))
        if pitch is not None:
            q[3:7] = UPRIGHT[pitch]
        fext = rng.normal(size=(robot.model.njoints, 6))
        found = dynamics.linearize(robot, q, v, tau, S, fext)
        for name, ours, truth in zip("AB", found, exact(robot, q, v, tau, fext, S), strict=True):
            assert relative_error(ours, truth) < 1e-12, (name, pitch)


def test_random_trees_have_joints_of_every_kind():
    kinds = {int(kind) for seed in TREES for kind in random_tree(seed).tree.kind}
    assert kinds == {int(kind) for name in JOINTS for kind in chain_of(name).tree.kind}


def mass_matrices_by_complex_step(robot, q):
    """M at complex configurations (nv, nv, nv), one perturbed along each direction."""
    nv = robot.nv
    Q = along_every_direction(robot, q, np.zeros(nv))[0][:nv].copy()
    still, out = np.zeros((nv, nv), complex), np.empty((3, nv, nv, nv), complex)
    memory = np.empty(batch.size(robot.tree.nb, robot.nq, nv), complex)
    batch.inverse_dynamics_derivatives(robot.tree.address, memory, Q, still, still, np.zeros((nv, 0, 6), complex), out)
    return out[2]


@pytest.mark.parametrize("seed", TREES)
def test_inverse_mass_matrix_and_its_derivative_are_exact(seed):
    robot, rng = random_tree(seed), np.random.default_rng(seed)
    q, tau, _ = random_state(robot, rng)[0], *rng.normal(size=(2, robot.nv))
    Minv, T = dynamics.inverse_mass_matrix(robot, q), dynamics.inverse_mass_matrix_derivatives(robot, q)
    inverses = np.linalg.inv(mass_matrices_by_complex_step(robot, q))
    assert relative_error(Minv, inverses[0].real) < 1e-12
    assert relative_error(Minv @ dynamics.mass_matrix(robot, q), np.eye(robot.nv)) < 1e-12
    assert relative_error(T, np.moveaxis(inverses.imag, 0, -1) / STEP) < 1e-12
    contracted = dynamics.inverse_mass_matrix_derivatives(robot, q, tau)
    assert relative_error(contracted, np.einsum("ijk,j->ik", T, tau)) < 1e-12


@pytest.mark.parametrize("seed", [1, 4])
def test_batches_are_their_samples(seed):
    robot, rng = random_tree(seed), np.random.default_rng(seed)
    Q, V, tau = map(np.array, zip(*(random_state(robot, rng) for _ in range(11)), strict=True))
    found = dynamics.linearize(robot, Q, V, tau)
    Minv, T = dynamics.inverse_mass_matrix(robot, Q), dynamics.inverse_mass_matrix_derivatives(robot, Q)
    folded = dynamics.inverse_mass_matrix_derivatives(robot, Q, tau)
    for t in range(11):
        for ours, own in zip(found, dynamics.linearize(robot, Q[t], V[t], tau[t]), strict=True):
            np.testing.assert_array_equal(ours[t], own)
        np.testing.assert_array_equal(Minv[t], dynamics.inverse_mass_matrix(robot, Q[t]))
        np.testing.assert_array_equal(T[t], dynamics.inverse_mass_matrix_derivatives(robot, Q[t]))
        np.testing.assert_array_equal(folded[t], dynamics.inverse_mass_matrix_derivatives(robot, Q[t], tau[t]))


def test_controls_act_as_the_robots_own_actuation_says():
    robot = dynamics.load("hyq")
    v, tau = np.linspace(-1.0, 1.0, 18), np.linspace(2.0, -3.0, 18)
    B = dynamics.linearize(robot, robot.q0, v, tau).B
    assert B.shape == (36, 12)
    assert not B[:18].any()
    np.testing.assert_allclose(B[18:], np.linalg.inv(dynamics.mass_matrix(robot, robot.q0))[:, 6:], atol=1e-13)


def test_held_contacts_enter_as_forward_dynamics_do(rng):
    robot = dynamics.load("solo12")
    contacts = [dynamics.Contact("FL_FOOT"), dynamics.Contact("HR_FOOT", gains=(3.0, 2.0), target=(0.1, 0.2, 0.0))]
    (q, v, tau), nv = random_state(robot, rng), robot.nv
    found = dynamics.linearize(robot, q, v, tau, contacts=contacts)

    def rate(place, e):
        """∂a/∂q, ∂a/∂v or ∂a/∂τ along a direction e."""
        zero = np.zeros(nv)

        def moved(t):
            dq, dv, dtau = (t * e if k == place else zero for k in range(3))
            at = pin.integrate(robot.model, q, dq)
            return dynamics.contact_dynamics(robot, at, v + dv, tau + dtau, contacts).a

        return fourth_order(moved)

    by_q, by_v, by_tau = (np.stack([rate(place, e) for e in np.eye(nv)], axis=1) for place in range(3))
    np.testing.assert_allclose(found.A[:nv], np.hstack([brackets(robot, v), np.eye(nv)]), atol=1e-14)
    assert relative_error(found.A[nv:], np.hstack([by_q, by_v])) < 1e-8
    assert relative_error(found.B[nv:], by_tau @ robot.actuation) < 1e-8
    free = dynamics.linearize(robot, q, v, tau)
    for ours, truth in zip(dynamics.linearize(robot, q, v, tau, contacts=()), free, strict=True):
        assert relative_error(ours, truth) < 1e-12


def deviations(robot, x0, direction, tau, h, steps):
    """States (steps + 1, nx) from x0, and the linearised flow of a unit deviation along ``direction``, by RK4."""
    nq, nv = robot.nq, robot.nv
    system = dynamics.RobotDynamics(robot, 0.5 * h, actuation=np.eye(nv), integrator="rk4")
    X = system.rollout(x0, np.tile(tau, (2 * steps, 1)))  # and the states half way
    A = dynamics.linearize(robot, X[:, :nq], X[:, nq:], np.tile(tau, (len(X), 1))).A
    d = direction
    for k in range(steps):
        first, middle, last = A[2 * k : 2 * k + 3]
        a = first @ d
        b = middle @ (d + 0.5 * h * a)
        c = middle @ (d + 0.5 * h * b)
        d = d + h / 6.0 * (a + 2.0 * b + 2.0 * c + last @ (d + h * c))
    return system, X, d


@pytest.mark.parametrize("seed", [1, 3])
def test_linearised_flow_is_the_log_of_the_nonlinear_one_to_second_order(seed):
    robot, rng = random_tree(seed), np.random.default_rng(seed)
    q, v, tau = random_state(robot, rng, speed=0.5)
    x0, direction = np.concatenate([q, v]), rng.normal(size=2 * robot.nv)
    h, steps = 1e-3, 60
    system, X, d = deviations(robot, x0, direction, tau, h, steps)
    errors, sizes = [], np.array([1e-2, 1e-3, 1e-4])
    for size in sizes:
        moved = system.rollout(system.integrate(x0, size * direction), np.tile(tau, (2 * steps, 1)))
        errors.append(np.abs(system.difference(X[-1], moved[-1]) - size * d).max())
    slopes = np.diff(np.log(errors)) / np.diff(np.log(sizes))
    assert (slopes >= 1.9).all(), (errors, slopes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": np.zeros(18)}, "q: expected shape (19,), got (18,)"),
        ({"tau": np.zeros(12)}, "tau: expected shape (18,), got (12,)"),
        ({"actuation": np.zeros((12, 18))}, "actuation: expected 18 rows of numbers, got (12, 18)"),
        ({"actuation": np.zeros((18, 0))}, "actuation: expected at least one column, got shape (18, 0); robots"),
        ({"contacts": "lf_foot"}, "contacts: expected a list of Contacts, got 'lf_foot'"),
        ({"fext": np.zeros((3, 6))}, "fext: expected shape (14, 6), got (3, 6)"),
    ],
)
def test_bad_arguments_are_named(change, words):
    robot = dynamics.load("hyq")
    arguments = {"q": robot.q0, "v": np.zeros(18), "tau": np.zeros(18)} | change
    with pytest.raises(ProblemError) as caught:
        dynamics.linearize(robot, **arguments)
    assert words in str(caught.value)


def test_singular_mass_matrices_are_told():
    model = pin.Model()
    model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "joint")
    robot = dynamics.load(model, massless="ignore")
    for call in (dynamics.inverse_mass_matrix, dynamics.inverse_mass_matrix_derivatives):
        with pytest.raises(ModelError, match="the mass matrix is not positive definite"):
            call(robot, np.zeros(1))
    overflowing = chain_of("prismatic", "revolute", "prismatic")
    for value in (1e155, 1e300):
        with pytest.raises(ModelError, match="the mass matrix of sample 5 is not positive definite"):
            dynamics.inverse_mass_matrix(overflowing, np.where(np.arange(21).reshape(7, 3) == 17, value, 0.1))
    with pytest.raises(ModelError, match="the mass matrix of sample 0 is not positive definite"):
        dynamics.linearize(robot, *np.zeros((3, 2, 1)))
