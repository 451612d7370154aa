"""Motions of robots with rods as people read them: columns, torques, limits, nominal controls and policies."""

import csv
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order
from rod_oracles import SILICONE

import ddp
import dynamics
from ddp.errors import ProblemError
from dynamics import Assembly, Circle, RobotDynamics, Rod, Tendon, Water
from dynamics.quantities.displacements import squares_of_angles
from problems import constraints, costs, soft
from problems.soft import reaching


def finger(name="finger"):
    return Rod(name, 0.3, Circle(0.015, 0.01), SILICONE, torsion=0, bending=1, stretch=0, gauss=3)


TENDONS = [Tendon("up", lambda x: (0.0, 0.01)), Tendon("side", lambda x: (0.01, 0.0))]


def between():
    """A rod between a hinge and a slide, with a ball before them, so that no number of q is where it is in v."""
    build = Assembly("between").joint("ball", pin.JointModelSpherical(), inertia=pin.Inertia.FromSphere(1.0, 0.1))
    build.joint("hinge", pin.JointModelRX(), "ball", inertia=pin.Inertia.FromSphere(1.0, 0.1))
    build.rod(finger(), "hinge", tendons=TENDONS)
    build.joint("slide", pin.JointModelPZ(), "finger/tip", inertia=pin.Inertia.FromSphere(0.1, 0.02))
    return build.wrench("push", "finger/2").robot()


def arm():
    """An arm of six joints with a finger on its tool."""
    return Assembly.of(dynamics.load("ur5")).rod(finger(), "tool0", tendons=TENDONS)


def solution_of(robot, N=6, seed=0):
    """Motion under random controls, as a solution that was not solved for."""
    rng, system = np.random.default_rng(seed), RobotDynamics(robot, 0.01, integrator="sdirk2")
    x0 = np.concatenate([robot.q0, 0.1 * rng.normal(size=robot.nv)])
    terminal = [costs.StateCost(system, x0, np.ones(system.n))]
    effort = [costs.ControlCost(np.zeros(system.nu), np.full(system.nu, 1e-2))]
    problem = ddp.Problem(system, running=effort, terminal=terminal, x0=x0, horizon=N, guess=np.zeros((N, system.nu)))
    U = rng.normal(size=(N, system.nu))
    found = ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    return replace(found, X=system.rollout(x0, U), U=U)


@pytest.fixture(scope="module")
def solution():
    return solution_of(between())


def test_columns_are_the_numbers_of_joints_and_rods(solution, tmp_path):
    robot = solution.problem.dynamics.robot
    nq = robot.nq
    assert solution.q.names == (
        "ball.qx", "ball.qy", "ball.qz", "ball.qw", "hinge", "finger.torsion0", "finger.bending_y0",
        "finger.bending_y1", "finger.bending_z0", "finger.bending_z1", "finger.stretch0", "slide",
    )  # fmt: skip
    np.testing.assert_array_equal(np.asarray(solution.q), solution.X[:, :nq])
    np.testing.assert_array_equal(np.asarray(solution.v), solution.X[:, nq:])
    np.testing.assert_array_equal(solution.v["slide"], solution.X[:, -1])
    pushes = [f"push.{axis}" for axis in ("fx", "fy", "fz", "nx", "ny", "nz")]
    balls = ["ball.wx", "ball.wy", "ball.wz"]
    assert list(solution.u) == ["finger.up", "finger.side", *pushes, *balls, "hinge", "slide"]
    rows = list(csv.DictReader(solution.to_csv(tmp_path / "motion.csv").read_text().splitlines()))
    np.testing.assert_array_equal([float(row["rate of finger.stretch0"]) for row in rows], solution.X[:, nq + 9])
    np.testing.assert_array_equal([float(row["finger.bending_z1"]) for row in rows], solution.X[:, 9])


def test_torques_do_the_work_of_cables_wrenches_and_motors(solution):
    """Power of generalised forces: of tensions on rates of lengths, of wrenches on twists, of motors on rates."""
    robot, (X, U) = solution.problem.dynamics.robot, (solution.X, solution.U)
    nq, rng = robot.nq, np.random.default_rng(1)
    v = rng.normal(size=robot.nv)
    rod, coordinates = robot.rods[0], slice(4, 10)
    for k in (0, 5):
        q = X[k, :nq]

        def lengths(t, q=q):
            moved, basis = q[5:11] + t * v[coordinates], rod.basis(rod.points[1:-1])
            strains = rod.rest_at_points + np.einsum("kis,i->ks", basis, moved)
            found = []
            for tendon in robot.tendons:
                (y, z), (dy, dz) = (part.T for part in tendon.along(rod.points[1:-1] / rod.length))
                d, slope = np.stack([0 * y, y, z], axis=1), np.stack([0 * y, dy, dz], axis=1) / rod.length
                T = strains[:, :3] + np.cross(strains[:, 3:], d) + slope
                found.append(rod.weights @ np.linalg.norm(T, axis=1))
            return np.array(found)

        M = dynamics.frame_placement(robot, q, "finger/2")
        J = dynamics.frame_placement_derivatives(robot, q, "finger/2")
        twist = np.kron(np.eye(2), M[:3, :3]) @ J @ v  # along the world's axes, at the frame
        power = -U[k, :2] @ fourth_order(lengths) + U[k, 2:8] @ twist + U[k, 8:] @ v[[0, 1, 2, 3, 10]]
        assert abs(np.asarray(solution.tau)[k] @ v - power) < 1e-9


@pytest.mark.parametrize("integrator", ["implicit-euler", "implicit-midpoint"])
def test_torques_of_prescribed_joints_make_the_same_motion(integrator, rng):
    robot, prescribed = between(), ["hinge", "slide"]
    told = RobotDynamics(robot, 0.01, integrator=integrator, prescribed=prescribed)
    U, x0 = 0.02 * rng.normal(size=(5, told.nu)), np.append(robot.q0, 0.1 * rng.normal(size=robot.nv))
    X = told.rollout(x0, U)
    tau, driven = told.torques(X[:-1], U), U.copy()
    driven[:, -2:] = told.prescribed_torques(X[:-1], U)
    free = RobotDynamics(robot, 0.01, integrator=integrator)
    np.testing.assert_allclose(free.rollout(x0, driven), X, atol=1e-9)
    np.testing.assert_allclose(free.torques(X[:-1], driven), tau, atol=1e-9 * np.abs(tau).max())
    assert told.tracked.in_steps([3], [0.03]).prescribed == ("hinge", "slide")


def test_torques_of_prescribed_joints_of_closed_chains_and_of_two_stages(rng):
    moving = soft.system("soft/fin-ray")
    motion = moving.simulate(0.2)
    s, robot = moving.dynamics, moving.robot
    dof = robot.coordinates("slider").start
    tau = s.torques(motion.X[:-1], motion.U)
    assert np.isfinite(tau).all()
    # the work of the slider is what the grip gains and viscosity takes
    n, (Q, V) = robot.nq, np.split(motion.X, 2, axis=1)
    assert n == robot.nv
    elastic = 0.5 * np.einsum("ki,ij,kj->k", Q, dynamics.internal_forces_derivatives(robot, Q[0], V[0]).dq, Q)
    total = dynamics.energy(robot, Q, V) + elastic
    work = np.sum(tau[:, dof] * np.diff(Q[:, dof]))
    lost = -s.dt * np.sum([v @ dynamics.internal_forces_derivatives(robot, Q[0], V[0]).dv @ v for v in V[1:]])
    assert abs(work + lost - (total[-1] - total[0])) < 0.01 * abs(work)


def test_limits_by_joint_are_those_of_the_joint():
    robot, system = between(), solution_of(between(), 2).problem.dynamics
    x, u = np.arange(1.0, 24.0), np.zeros(system.nu)
    for name, q, v in (("hinge", [4], [3]), ("slide", [11], [10]), ("finger", [*range(5, 11)], [*range(4, 10)])):
        held = constraints.JointLimits(robot, -0.1, 0.1, joints=[name])
        np.testing.assert_array_equal(held.values(x[None], u[None])[0], x[q])
        speeds = constraints.VelocityLimits(robot, 1.0, joints=[name])
        np.testing.assert_array_equal(speeds.values(x[None], u[None])[0], x[12:][v])
        numbers = dynamics.JointSensor(robot, [name]).values(x[None])[0]
        np.testing.assert_array_equal(numbers, np.concatenate([x[q], x[12:][v]]))


def test_an_assembly_keeps_limits_posture_and_actuators_of_what_it_begins_with():
    ur5, robot = dynamics.load("ur5"), arm().robot()
    for mine, theirs in zip(robot.ranges, ur5.ranges, strict=True):
        np.testing.assert_array_equal(mine[:6], theirs)
        assert np.isinf(mine[6:]).all()
    np.testing.assert_array_equal(robot.control_limits, [[0.0, np.inf]] * 2 + ur5.control_limits.tolist())
    np.testing.assert_array_equal(robot.q0[:6], ur5.q0)
    held = constraints.JointLimits(robot)
    np.testing.assert_array_equal(held.upper, ur5.ranges.upper)
    cassie = Assembly.of(dynamics.load("cassie"))
    assert len(cassie.loops) == len(dynamics.load("cassie").loops) > 0


def test_nominal_controls_hold_a_robot_at_rest():
    water = Water(900.0, drag=(0.1, 1.0, 1.0), added=(0.0, 1.0, 1.0))
    for robot in (arm().robot(), Assembly("wet").rod(finger(), tendons=TENDONS).water(water).robot()):
        u = np.concatenate([[3.0, 1.5], np.zeros(robot.nv - 6)])
        system = RobotDynamics(robot, 0.01, integrator="sdirk2")
        wanted = np.concatenate([robot.q0, np.zeros(robot.nv)])
        if robot.nv > 6:
            q = np.concatenate([[0.3, -1.0, 1.2, 0.1, 0.2, 0.3], np.zeros(6)])
            gravity = dynamics.inverse_dynamics(robot, q, *np.zeros((2, robot.nv)))
            for _ in range(30):  # the rod's own rest under these joints
                force = dynamics.inverse_dynamics(robot, q, *np.zeros((2, robot.nv)))
                left = force + dynamics.internal_forces(robot, q, 0 * q) - dynamics.tendon_forces(robot, q, u[:2])
                q[6:] -= np.linalg.solve(dynamics.internal_forces_derivatives(robot, q, 0 * q).dq[6:, 6:], left[6:])
            gravity = dynamics.inverse_dynamics(robot, q, *np.zeros((2, robot.nv)))
            u[2:], wanted[: robot.nq] = gravity[:6], q
        else:
            wanted[: robot.nq] = dynamics.statics(robot, u=u).q
        np.testing.assert_allclose(system.nominal_control(wanted), u, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(system.step(wanted, u), wanted, atol=1e-6)


def test_policies_bring_a_soft_arm_back():
    solution = ddp.solve(reaching.reach())
    robot, rng = solution.problem.dynamics.robot, np.random.default_rng(0)
    fine, x = RobotDynamics(robot, 0.002, integrator="sdirk2"), solution.X[0].copy()
    x[:15] += 0.3 * rng.normal(size=15)
    tips = {}
    for name, policy in (("tracking", solution.policy), ("none", None)):
        now = x
        for k in range(400):
            now = fine.step(now, solution.U[k // 10] if policy is None else policy(0.002 * k, now))
        tips[name] = dynamics.frame_placement(robot, now[:24], "arm/tip")[:3, 3]
    goal = dynamics.frame_placement(robot, solution.X[-1, :24], "arm/tip")[:3, 3]
    assert np.linalg.norm(tips["tracking"] - goal) < 0.15 * np.linalg.norm(tips["none"] - goal)
    np.testing.assert_array_equal(solution.policy.X[:, :48], solution.X[:-1])


def cabled(young=1.0):
    """An arm on three cables, of more or less stiff silicone."""
    material = replace(SILICONE, young=young * SILICONE.young)
    rod = Rod("arm", 0.4, Circle(0.02, 0.01), material, bending=2, stretch=0, gauss=4)
    places = (0.0, 0.01), (-0.009, -0.005), (0.009, -0.005)
    cables = [Tendon(f"cable {k}", lambda x, place=place: place) for k, place in enumerate(places)]
    return Assembly("arm").rod(rod, placement=soft.HANGING, tendons=cables).robot()


@pytest.fixture(scope="module")
def reached():
    """The arm on cables brings its tip to a point."""
    robot = cabled()
    nv, system = robot.nv, RobotDynamics(robot, 0.02, integrator="sdirk2")
    x0 = np.append(dynamics.statics(robot).q, np.zeros(nv))
    ending = [costs.FramePosition(robot, "arm/tip", [0.15, 0.05, -0.33], 1e3)]
    ending.append(costs.StateCost(system, x0, np.repeat([0.0, 0.1], nv)))
    effort, limits = [costs.ControlCost(np.zeros(3), 1e-4)], (np.zeros(3), np.full(3, 20.0))
    return ddp.solve(ddp.Problem(system, effort, ending, x0, 40, control_limits=limits, guess=np.zeros((40, 3))))


@pytest.mark.parametrize("young", [0.9, 1.1])
def test_policies_keep_the_tip_of_an_arm_that_is_softer_or_stiffer_than_its_model(reached, young):
    other, errors = cabled(young), {}
    played = RobotDynamics(other, 0.005, integrator="sdirk2")
    wanted = dynamics.frame_placement(cabled(), reached.X[:, : other.nq], "arm/tip")[:, :3, 3]
    for name, policy in (("tracking", reached.policy), ("none", None)):
        X = [reached.X[0]]
        for k in range(160):
            X.append(played.step(X[-1], reached.U[k // 4] if policy is None else policy(0.005 * k, X[-1])))
        tips = dynamics.frame_placement(other, np.array(X)[::4, : other.nq], "arm/tip")[:, :3, 3]
        errors[name] = np.sqrt(np.mean(np.sum((tips - wanted) ** 2, axis=1)))
    assert errors["tracking"] < 0.75 * errors["none"]  # by weights of each strain alone it would be 2.5 times as much


@pytest.mark.parametrize("feedback", ["tracking", "priced"])
def test_feedback_does_not_count_on_cables_that_do_not_pull(reached, feedback):
    policy = reached.feedback(feedback)
    slack = reached.U <= 0.0
    assert 0.1 < slack.mean() < 0.9
    assert np.abs(policy.G[slack]).max() < 1e-6 * np.abs(policy.G).max()


def test_errors_of_strains_weigh_as_angles_of_a_hinge_that_moves_the_mass_as_far():
    """Against the motion of Pinocchio's bodies in the chain of the robot, for rods in a row."""
    build = Assembly("swung").joint("shoulder", pin.JointModelRY()).rod(finger("arm"), "shoulder", tendons=TENDONS)
    build.joint("elbow", pin.JointModelRY(), "arm/tip").rod(finger(), "elbow")
    robot = build.body(pin.Inertia.FromSphere(0.05, 0.02), "finger/tip").robot()
    q, rng = np.zeros(robot.nv), np.random.default_rng(0)
    q[robot.coordinates("shoulder")], q[robot.coordinates("elbow")] = 0.3, -0.2
    W, chain, data = squares_of_angles(robot, q), robot.chain, robot.chain.createData()

    def moved(dq):
        there = pin.difference(chain, robot.to_chain(q - 1e-5 * dq), robot.to_chain(q + 1e-5 * dq)) / 2e-5
        return 2.0 * pin.computeKineticEnergy(chain, data, robot.to_chain(q), there)

    for joint, rod in (("elbow", "finger"), ("shoulder", "arm")):
        hinge, bent = np.zeros((2, robot.nv))
        hinge[robot.coordinates(joint)], bent[robot.coordinates(rod)] = 1.0, rng.normal(size=6)
        for dq in (hinge, bent, bent - 3.0 * hinge):
            assert dq @ W @ dq == pytest.approx(moved(dq) / moved(hinge), rel=1e-6)


def test_adaptive_policies_begin_as_others_with_weights_of_rods(solution):
    away = solution.problem.dynamics.integrate(solution.X[2], np.full(22, 0.01))
    np.testing.assert_array_equal(solution.adaptive()(0.02, away), solution.policy(0.02, away))


def test_a_system_with_too_few_columns_is_refused():
    with pytest.raises(ProblemError, match="actuation: expected at least 2 columns"):
        RobotDynamics(arm().robot(), 0.01, actuation=np.zeros((12, 1)), integrator="sdirk2")
    with pytest.raises(ProblemError, match="actuation: expected at least 2 columns"):
        dynamics.statics(arm().robot(), actuation=np.zeros((12, 1)))
