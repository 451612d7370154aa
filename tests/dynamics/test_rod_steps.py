"""Robots with rods in discrete time: rest, motion, and derivatives of implicit steps to second order."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import random_placement, random_tree, sprung
from rod_oracles import FOURTH_ORDER, HANGING, TENDONS, assert_exact, cable_arm, random_hybrid, random_rod
from thorough import cases

import ddp
import dynamics
from ddp.errors import ModelError
from dynamics import Assembly, Circle, Material, RobotDynamics, Rod


def positions(robot, Q):
    """Positions of the tip of the last rod in the world."""
    data, found = robot.chain.createData(), []
    for q in robot.to_chain(np.atleast_2d(Q)):
        pin.forwardKinematics(robot.chain, data, q)
        found.append(data.oMi[robot.chain.njoints - 1].translation.copy())
    return np.array(found)


def floating_hybrid():
    """A free body with a rod, a spherical joint on its tip, and a rod with tendons on that."""
    rng = np.random.default_rng(5)
    arm = Rod("arm", 0.4, Circle(0.03, 0.02), Material(1e6, 0.5, 1e3, 1e3), bending=1, stretch=0, gauss=3)
    body = pin.Inertia(1.0, np.zeros(3), 0.01 * np.eye(3))
    build = Assembly().joint("root", pin.JointModelFreeFlyer(), inertia=body)
    build.rod(random_rod(rng, "first"), "root", random_placement(rng))
    build.joint("ball", pin.JointModelSpherical(), "first/tip", random_placement(rng), body)
    return build.rod(arm, "ball", random_placement(rng), tendons=TENDONS[:2]).robot()


def small_arm():
    """The cable arm with fewer strains."""
    return cable_arm(3, torsion=0, bending=1, stretch=0, shear=None)


ROBOTS = {"arm": small_arm, "floating": floating_hybrid, "tree": lambda: random_hybrid(2, parts=3, rods=2)}


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("integrator", ["implicit-euler", "implicit-midpoint", "sdirk2"])
def test_steps_are_exact_to_second_order(name, integrator, rng):
    robot = ROBOTS[name]()
    system = RobotDynamics(robot, 0.01, integrator=integrator)
    x = np.concatenate([robot.random_configuration(rng), 0.3 * rng.normal(size=robot.nv)])
    u, w = rng.uniform(0.0, 2.0, system.nu), rng.normal(size=system.n)
    assert_exact(system, x, u, w, rng, FOURTH_ORDER, 1e-2, 1e-6)


def test_step_response_of_the_cable_arm():
    robot = cable_arm()
    system = RobotDynamics(robot, 0.0025, integrator="sdirk2")
    motion = dynamics.simulate(system, np.zeros(48), [10.0, 0.0, 0.0, 0.0, 0.0], 1.0)
    found = positions(robot, motion.X[[40, 120, 400], :24])[:, [0, 2]]
    golden = [[0.05359191, -0.48976966], [0.12677764, -0.47072273], [0.09523901, -0.48097057]]
    np.testing.assert_allclose(found, golden, atol=1e-5)  # the step's own error: 6e-6 m here, 9e-5 of steps of 10 ms


def test_many_loads_of_the_cable_arm_come_to_rest():
    robot = cable_arm()
    loads = np.random.default_rng(0).uniform(0.0, 60.0, size=(40, 5))
    rest = dynamics.statics(robot, u=loads)
    assert rest.converged.all()
    still = np.zeros_like(rest.q)
    left = dynamics.inverse_dynamics(robot, rest.q, still, still) + dynamics.internal_forces(robot, rest.q, still)
    np.testing.assert_allclose(left - dynamics.tendon_forces(robot, rest.q, loads), 0.0, atol=1e-8)
    alone = dynamics.statics(robot, u=20.0 * np.eye(5)[0])
    np.testing.assert_allclose(positions(robot, alone.q)[0], [0.158121105, 0.0, -0.441901839], atol=2e-9)


PLANAR = {"bending": (1, None), "gauss": 3}
SPATIAL = {"torsion": 4, "bending": 4, "stretch": 2, "shear": 2, "gauss": 5}


def swing(degrees, viscosity, knots=5000):
    """Kinetic and whole energy of an arm that begins bent; gravity's is that of the chain of segments."""
    rod = Rod("arm", 0.5, Circle(0.03, 0.015), Material(1e6, 0.5, 1000.0, viscosity), **degrees)
    robot, n = Assembly().rod(rod, placement=HANGING).robot(), rod.nv
    system = RobotDynamics(robot, 0.002, actuation=np.zeros((n, 1)), integrator="implicit-midpoint")
    x0 = np.zeros(2 * n)
    x0[rod.labels.index("bending_y0")] = 2.0
    X = system.rollout(x0, np.zeros((knots, 1)))
    Q, V = X[::10, :n], X[::10, n:]
    kinetic = 0.5 * np.einsum("ki,kij,kj->k", V, dynamics.mass_matrix(robot, Q), V)
    elasticity = 0.5 * np.einsum("ki,ij,kj->k", Q, rod.stiffness(), Q)
    data = robot.chain.createData()
    lifted = [pin.computePotentialEnergy(robot.chain, data, q) for q in robot.to_chain(Q)]
    return kinetic, kinetic + elasticity + np.array(lifted)


@pytest.mark.parametrize("degrees", [PLANAR, SPATIAL])
def test_an_undamped_swing_keeps_its_energy(degrees):
    kinetic, total = swing(degrees, 0.0)
    assert kinetic.max() > 0.01
    np.testing.assert_allclose(total, total[0], rtol=0, atol=1e-3 * kinetic.max())  # of midpoint, without drift:
    np.testing.assert_allclose(total[-50:].mean(), total[:50].mean(), rtol=0, atol=1e-4 * kinetic.max())


@pytest.mark.parametrize("degrees", [PLANAR, SPATIAL])
def test_viscosity_only_takes_energy(degrees):
    kinetic, total = swing(degrees, 100.0, cases(5000, 2500))
    assert np.diff(total).max() < 1e-5 * kinetic.max()
    assert total[-1] < total[0] - 0.1 * kinetic.max()


@pytest.mark.parametrize("damping", [None, True, False])
def test_joints_of_a_robot_resist_as_they_do_without_a_light_rod_on_it(damping, rng):
    robot = random_tree(4, bodies=3)
    robot.model.addFrame(pin.Frame("hand", 2, 0, random_placement(rng), pin.OP_FRAME))
    robot = sprung(robot, rng)
    light = Rod("light", 0.3, Circle(0.01), Material(1e3, 0.3, 1e-6, 1.0), bending=1, gauss=3)
    v, u = rng.normal(size=(2, robot.nv))
    q, resting, ends = robot.random_configuration(rng), np.zeros(light.nv), []
    carrying = Assembly.of(robot).rod(light, "hand").robot()
    for one, x in (robot, [q, v]), (carrying, [q, resting, v, resting]):
        system = RobotDynamics(one, 0.01, integrator="implicit-midpoint", damping=damping)
        ends.append(system.step(np.concatenate(x), u)[: robot.nq])
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-8)


def test_optimal_tensions_bend_the_arm():
    robot = small_arm()
    system = RobotDynamics(robot, 0.02, integrator="sdirk2")
    target = np.zeros(system.nx)
    target[: robot.nq] = dynamics.statics(robot, u=[3.0, 0.0, 0.0, 1.0, 0.0]).q

    class Reach:
        def value(self, x, u=None):
            return 50.0 * (x - target) @ (x - target)

        def gradient(self, x, u=None):
            return np.concatenate([100.0 * (x - target), np.zeros(0 if u is None else len(u))])

        def hessian(self, x, u=None):
            m = 0 if u is None else len(u)
            return np.diag(np.concatenate([np.full(len(x), 100.0), np.zeros(m)]))

    class Effort:
        def value(self, x, u):
            return 0.5e-2 * u @ u

        def gradient(self, x, u):
            return np.concatenate([np.zeros(len(x)), 1e-2 * u])

        def hessian(self, x, u):
            return np.diag(np.concatenate([np.zeros(len(x)), np.full(len(u), 1e-2)]))

    problem = ddp.Problem(
        dynamics=system, running=[Effort()], terminal=[Reach()], x0=np.zeros(system.nx), horizon=20,
        control_limits=robot.control_limits.T,
    )  # fmt: skip
    solution = ddp.solve(problem, ddp.DDP(tolerance=1e-9))
    assert solution.converged
    assert solution.U.min() >= 0.0
    assert np.abs(solution.X[-1] - target).max() < 0.05 * np.abs(target).max()
    gauss_newton = ddp.solve(problem, ddp.ILQR(tolerance=1e-9))
    np.testing.assert_allclose(gauss_newton.cost, solution.cost, rtol=1e-6)


@pytest.mark.parametrize("integrator", ["semi-implicit-euler", "euler", "rk4"])
def test_explicit_steps_refuse_rods(integrator):
    with pytest.raises(ModelError, match="sdirk2"):
        RobotDynamics(small_arm(), 0.01, integrator=integrator)
