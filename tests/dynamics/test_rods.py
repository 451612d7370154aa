"""Rods in trees: inverse dynamics to second order against complex steps, chains of rigid bodies, and golden numbers."""

import pickle

import numpy as np
import pinocchio as pin
import pytest
from oracles import COMPLEX_STEP, complex_steps, random_inertia, relative_error
from rod_oracles import (
    HANGING,
    SILICONE,
    cable_arm,
    chain_inverse_dynamics,
    golden_state,
    random_hybrid,
)

import dynamics
from ddp.errors import ModelError
from dynamics import Assembly, Circle, Rod
from dynamics.geometry.configuration import integrate_batch
from dynamics.rigid_bodies import batch

TREES = range(12)


def run(robot, kernel, samples, shape):
    """A kernel of batch.py on complex samples; its derivative by the step."""
    N, tree = len(samples[0]), robot.tree
    memory = np.zeros(batch.size(tree.nb, robot.nq, robot.nv, tree.room), complex)
    out = np.zeros(shape, complex)
    kernel(tree, memory, *samples, np.zeros((N, 0, 6), complex), out)
    return out.imag / COMPLEX_STEP


def assert_exact(robot, q, v, a, mu):
    nv = robot.nv
    first = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
    second = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu)
    found = [complex_steps(robot, (q, v, a), along) for along in range(3)]
    for value, samples in zip(first, found, strict=True):
        truth = run(robot, batch.inverse_dynamics, samples, (nv, nv)).T
        assert relative_error(value, truth) < 1e-12
    by_q, by_v = (run(robot, batch.inverse_dynamics_derivatives, found[k], (3, nv, nv, nv)) for k in (0, 1))
    truths = {  # row first derivative, column second
        "qq": np.einsum("i,kij->jk", mu, by_q[0]), "qv": np.einsum("i,kij->kj", mu, by_q[1]),
        "vv": np.einsum("i,kij->jk", mu, by_v[1]), "qa": np.einsum("i,kij->kj", mu, by_q[2]),
    }  # fmt: skip
    for name, truth in truths.items():
        assert relative_error(getattr(second, name), truth) < 1e-11, name


@pytest.mark.parametrize("seed", TREES)
def test_derivatives_in_trees_are_complex_steps(seed, rng):
    robot = random_hybrid(seed)
    q, (v, a, mu) = robot.random_configuration(rng), rng.normal(size=(3, robot.nv))
    assert_exact(robot, q, v, a, mu)


@pytest.mark.parametrize("seed", TREES)
def test_inverse_dynamics_are_those_of_a_chain_of_rigid_segments(seed, rng):
    robot = random_hybrid(seed)
    q, (v, a) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    truth = chain_inverse_dynamics(robot, q, v, a)
    assert relative_error(dynamics.inverse_dynamics(robot, q, v, a), truth) < 1e-9  # of differences in the oracle


@pytest.mark.parametrize("scale", [0.0, 1e-7, 1.0, 4.0])
def test_straight_and_strongly_bent_rods_are_exact(scale, rng):
    robot = cable_arm()
    v, a, mu = rng.normal(size=(3, robot.nv))
    q, _, _ = golden_state()
    assert_exact(robot, scale * q, v, a, mu)
    still = np.zeros(robot.nv)
    assert_exact(robot, scale * q, still, still, mu)


def test_golden_numbers_of_the_cable_arm():
    robot, (q, v, a) = cable_arm(), golden_state()
    rod = robot.rods[0]
    tau = dynamics.inverse_dynamics(robot, q, v, a)
    first = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
    # the numbers are the same rod's in another program, rounded: ten digits and more
    golden = np.array([-1.5497493060e-4, 3.6366983454e-5, -5.2889140246e-6, -1.5827726000])
    np.testing.assert_allclose(tau[[0, 1, 2, 15]], golden, rtol=1e-8)
    np.testing.assert_allclose([first.dq[5, 6], first.dq[6, 5]], [-0.022929607872, -0.022912085384], rtol=1e-8)
    norms = [np.linalg.norm(M) for M in (*first, rod.stiffness(), rod.damping())]
    truths = [0.5549176079934, 0.01653273325951, 0.09186312655321, 1025.876289986, 30.7762886995]
    np.testing.assert_allclose(norms, truths, rtol=1e-8)


@pytest.mark.parametrize("count", [1, 3, 5, 11])
def test_batches_are_their_samples(count, rng):
    robot = random_hybrid(3)
    Q = np.array([robot.random_configuration(rng) for _ in range(count)])
    V, A, mu = rng.normal(size=(3, count, robot.nv))
    together = dynamics.inverse_dynamics_hessian(robot, Q, V, A, mu)
    for k in range(count):
        alone = dynamics.inverse_dynamics_hessian(robot, Q[k], V[k], A[k], mu[k])
        for mine, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(mine[k], one, rtol=0, atol=1e-13 * np.abs(one).max())


def test_local_wrenches_act_at_the_tip(rng):
    robot = random_hybrid(2)
    q, (v, a) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    b = int(np.flatnonzero(robot.tree.rod >= 0)[-1])
    fext = np.zeros((robot.tree.nb + 1, 6))
    fext[b + 1] = rng.normal(size=6)
    h = 1e-6
    data, moved = robot.chain.createData(), []
    index = robot.chain.getJointId(f"{robot.joint_names[b]}/{robot.rods[-1].gauss + 1}")
    for e in np.eye(robot.nv):
        for sign in (1.0, -1.0):
            step, out = sign * h * e[None], np.zeros((1, robot.nq + robot.nv))
            integrate_batch(robot.tree, np.concatenate([q, v])[None], np.hstack([step, 0 * step]), out)
            pin.forwardKinematics(robot.chain, data, robot.to_chain(out[0, : robot.nq]))
            moved.append(data.oMi[index].copy())
    power = [pin.log6(moved[2 * i + 1].actInv(moved[2 * i])).vector @ fext[b + 1] / (2 * h) for i in range(robot.nv)]
    free, pushed = dynamics.inverse_dynamics(robot, q, v, a), dynamics.inverse_dynamics(robot, q, v, a, fext)
    np.testing.assert_allclose(free - pushed, power, atol=1e-8)


def test_a_stiff_short_rod_carries_like_a_fixed_joint(rng):
    body = random_inertia(rng)
    q, v, a = rng.normal(size=(3, 1))
    rigid = pin.Model()
    rigid.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    rigid.appendBodyToJoint(1, body, pin.SE3(np.eye(3), np.array([0.3, 0.0, 0.0])))
    light = dynamics.Material(1e6, 0.5, 1e-9)
    rod = Rod("link", 0.3, Circle(0.01), light, torsion=0, gauss=1)
    build = Assembly().joint("hinge", pin.JointModelRX()).rod(rod, "hinge").body(body, "link/tip")
    tau = dynamics.inverse_dynamics(build.robot(), [q[0], 0.0], [v[0], 0.0], [a[0], 0.0])
    truth = pin.rnea(rigid, rigid.createData(), q, v, a)
    np.testing.assert_allclose(tau[0], truth[0], rtol=1e-9)


def test_robots_with_rods_survive_pickling(rng):
    rod = Rod("arm", 0.5, Circle(lambda x: 0.03 - 0.01 * x), SILICONE, bending=2, gauss=3)
    robot = Assembly.of(dynamics.load("ur5")).rod(rod, "tool0", HANGING).robot()
    q, (v, a) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    again = pickle.loads(pickle.dumps(robot))
    np.testing.assert_array_equal(
        dynamics.inverse_dynamics(again, q, v, a), dynamics.inverse_dynamics(robot, q, v, a)
    )
    assert again.joint_names == robot.joint_names
    assert robot.nv == 12


def test_assemblies_change_neither_what_they_are_given_nor_robots_made_before():
    inertia, rod = pin.Inertia(1.0, np.zeros(3), np.eye(3)), Rod("arm", 0.5, Circle(0.03), SILICONE, bending=1, gauss=2)
    build = Assembly().joint("hinge", pin.JointModelRX(), inertia=inertia).rod(rod, "hinge")
    before = build.robot()
    after = build.body(inertia, "hinge").robot()
    assert inertia.mass == 1.0
    assert [robot.chain.inertias[1].mass for robot in (before, after)] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Rod("r", 0.5, Circle(0.1), SILICONE), "degree"),
        (lambda: Rod("r", 0.5, Circle(0.1), SILICONE, bending=4, gauss=4), "gauss: expected at least 5"),
        (lambda: Rod("r", -0.5, Circle(0.1), SILICONE, bending=1), "length"),
        (lambda: Rod("r", 0.5, 0.1, SILICONE, bending=1), "section"),
        (lambda: Rod("r", 0.5, Circle(lambda x: x - 0.5), SILICONE, bending=1), "radius"),
        (lambda: dynamics.Material(1e6, 0.6, 1e3), "poisson"),
        (lambda: cable_arm().chain and Assembly.of(cable_arm()), "robot: expected one of rigid bodies"),
        (lambda: Assembly().robot(), "at least one rod"),
        (lambda: Assembly().joint("j", pin.JointModelRX()).rod(
            Rod("r", 0.5, Circle(0.1), SILICONE, bending=1), "nowhere"), "no frame"),
        (lambda: Assembly().rod(Rod("r", 0.5, Circle(0.1), SILICONE, bending=1)).joint(
            "j", pin.JointModelRX(), "r/2"), "expected the base or the tip"),
        (lambda: Assembly().rod(Rod("r", 0.5, Circle(0.1), SILICONE, bending=1), tendons=[
            dynamics.Tendon("t", lambda x: (0.0, 0.01, 0.0))]).robot(), r"'t': \(y, z\): expected shape \(2,\), got"),
        (lambda: dynamics.linearize(cable_arm(), *np.zeros((3, 24))), "rods"),
        (lambda: dynamics.OneSample(cable_arm()), "rods"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(make, words):
    with pytest.raises(ModelError, match=words):
        make()


def reusing(function):
    """A function that returns its own array at every call."""
    kept = np.array(function(0.0))

    def reused(x):
        kept[:] = function(x)
        return kept

    return reused


def test_functions_may_return_the_same_array_at_every_call():
    def path(x):
        return np.array([0.004 * np.cos(x), 0.004 * np.sin(x)])

    def rest(x):
        return np.array([1.0, 0.0, 0.0, 0.0, 0.3 * x, 0.1])

    at = np.linspace(0.1, 0.9, 4)
    expected, found = (dynamics.Tendon("cable", f).along(at) for f in (path, reusing(path)))
    np.testing.assert_array_equal(found, expected)
    rods = [Rod("rod", 1.0, Circle(0.01), SILICONE, bending=1, rest=f) for f in (rest, reusing(rest))]
    np.testing.assert_array_equal(rods[1].rest, rods[0].rest)
    np.testing.assert_array_equal(rods[1].rest_at_points, rods[0].rest_at_points)
    system = dynamics.RobotDynamics(dynamics.load("ur5"), 0.01)
    x0, torques = np.zeros(12), lambda t: np.sin(t + np.arange(6.0))
    expected, found = (dynamics.simulate(system, x0, u, 0.05) for u in (torques, reusing(torques)))
    np.testing.assert_array_equal(found.X, expected.X)
