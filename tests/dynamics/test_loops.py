"""Closed chains: held at every step, by a dense oracle of Pinocchio's; derivatives, redundancy, planning, errors."""

import pickle

import numpy as np
import pinocchio as pin
import pytest
from oracles import JOINTS, fourth_order, newton, random_inertia, random_placement, relative_error
from step_oracles import assert_second_order, deviation

import ddp
import dynamics
from ddp.errors import ModelError, ProblemError
from ddp.systems.system import expanded
from dynamics import Loop, Robot, RobotDynamics
from dynamics.robots.loop import Mechanism, closed, distances
from dynamics.robots.mjcf.writing import World
from problems.costs import ControlCost, StateCost

HOLDING = ("implicit-euler", "sdirk2")


def rod(length):
    return pin.Inertia(1.0, np.array([0.5 * length, 0.0, 0.0]), 0.01 * np.eye(3))


def four_bar(free="y rx ry rz"):
    """Crank, coupler and rocker of .3, .7 and .5 m on a ground of .8 m, hinges about y."""
    model = pin.Model()
    model.name = "four-bar"
    previous = 0
    for name, at, parent, length in (("crank", 0.0, 0, 0.3), ("coupler", 0.3, 1, 0.7), ("rocker", 0.8, 0, 0.5)):
        place = pin.SE3(np.eye(3), np.array([at, 0.0, 0.0]))
        previous = model.addJoint(parent, pin.JointModelRY(), place, name)
        model.appendBodyToJoint(previous, rod(length), pin.SE3.Identity())
    for name, body, length in (("end", 2, 0.7), ("tip", 3, 0.5)):
        place = pin.SE3(np.eye(3), np.array([length, 0.0, 0.0]))
        model.addFrame(pin.Frame(name, body, 0, place, pin.OP_FRAME))
    return Robot(model, np.array([-1.0, 0.3, -1.0]), loops=[Loop("end", "tip", free)])


SPATIAL = {
    "hinge": [Loop("end 0", "end 1", "ry")],
    "weld": [Loop("end 0", "end 1")],
    "ball and slider on the world": [Loop("end 0", "universe", "rx ry rz"), Loop("end 1", "universe", "x rz rx")],
    "two": [Loop("end 0", "end 1", "x rx rz"), Loop("end 1", "universe", "rx ry rz")],
}


def spatial(name, seed=0):
    """Two legs of joints of all sorts on a floating base, closed at their ends."""
    rng, model = np.random.default_rng(seed), pin.Model()
    model.name = name
    base = model.addJoint(0, pin.JointModelFreeFlyer(), random_placement(rng), "base")
    model.appendBodyToJoint(base, random_inertia(rng), pin.SE3.Identity())
    for leg in range(2):
        last = base
        for i, kind in enumerate(["revolute", "spherical", "planar", "helical unaligned", "continuous"]):
            last = model.addJoint(last, JOINTS[kind](rng), random_placement(rng), f"{leg} {i}")
            model.appendBodyToJoint(last, random_inertia(rng), pin.SE3.Identity())
        model.addFrame(pin.Frame(f"end {leg}", last, 0, random_placement(rng), pin.OP_FRAME))
    return Robot(model, dynamics.load(model).random_configuration(rng), loops=SPATIAL[name])


def apart(robot, q):
    """Errors of held directions, by frames of Pinocchio: places along b's axes, axes against axes."""
    data, found = robot.model.createData(), []
    pin.framesForwardKinematics(robot.model, data, q)
    for loop in robot.loops:
        free = loop.free.split()
        A, B = (data.oMf[robot.model.getFrameId(name)] for name in (loop.frame_a, loop.frame_b))
        between = B.actInv(A)
        found += [between.translation[k] for k in range(3) if "xyz"[k] not in free]
        turns = [k for k in range(3) if f"r{'xyz'[k]}" not in free]
        if len(turns) == 3:
            found += list(pin.log3(between.rotation))
        elif len(turns) == 2:
            about = ({0, 1, 2} - set(turns)).pop()
            found += [between.rotation[k, about] for k in turns]
        elif len(turns) == 1:
            i, j = (turns[0] + 1) % 3, (turns[0] + 2) % 3
            found.append(between.rotation[j, i])
    return np.array(found)


def rate_of(robot, q):
    """∂ ``apart`` / ∂q (nc, nv) by central differences."""
    model, h = robot.model, 1e-6
    columns = [
        (apart(robot, pin.integrate(model, q, h * e)) - apart(robot, pin.integrate(model, q, -h * e))) / (2 * h)
        for e in np.eye(robot.nv)
    ]
    return np.stack(columns, axis=1)


def dense_step(robot, x, tau, h):
    """Backward Euler's step of M a + ... = τ + Jᵀ λ, e(q') = 0, by Pinocchio and dense Newton iterations."""
    model, nv = robot.model, robot.nv
    data, q, v = model.createData(), x[: robot.nq], x[robot.nq :]

    def residual(z):
        after, impulse = z[:nv], z[nv:]
        end = pin.integrate(model, q, h * after)
        motion = h * (pin.rnea(model, data, end, after, (after - v) / h) - tau) - rate_of(robot, end).T @ impulse
        return np.concatenate([motion, apart(robot, end) / h])

    z = newton(residual, np.concatenate([v, np.zeros(len(apart(robot, q)))]), 1e-5)
    return np.concatenate([pin.integrate(model, q, h * z[:nv]), z[:nv]])


def start(robot, rng, speed=0.5):
    return np.concatenate([robot.q0, speed * rng.normal(size=robot.nv)])


ROBOTS = {"four-bar": four_bar} | {name: lambda name=name: spatial(name) for name in SPATIAL}


@pytest.mark.parametrize("name", ROBOTS)
def test_a_step_is_that_of_dense_newton_iterations(name, rng):
    robot = ROBOTS[name]()
    system = RobotDynamics(robot, 0.01, np.eye(robot.nv), "implicit-euler")
    x, tau = start(robot, rng), rng.normal(size=robot.nv)
    truth = dense_step(robot, x, tau, 0.01)
    assert np.abs(system.step(x, tau) - truth).max() < 1e-7 * np.abs(truth).max()  # differences make its Jacobian


@pytest.mark.parametrize("integrator", HOLDING)
@pytest.mark.parametrize("name", ROBOTS)
def test_loops_are_closed_at_every_step(name, integrator, rng):
    robot = ROBOTS[name]()
    system = RobotDynamics(robot, 0.005, np.eye(robot.nv), integrator)
    X = system.rollout(start(robot, rng), 0.3 * rng.normal(size=(100, robot.nv)))
    assert np.isfinite(X).all()
    assert max(np.abs(apart(robot, x[: robot.nq])).max() for x in X) < 1e-9


@pytest.mark.parametrize("integrator", HOLDING)
@pytest.mark.parametrize("name", ROBOTS)
def test_both_orders_are_differences_of_steps_that_hold_loops(name, integrator, rng):
    robot = ROBOTS[name]()
    system = RobotDynamics(robot, 0.05, rng.normal(size=(robot.nv, 3)), integrator)
    x, u = start(robot, rng), rng.normal(size=3)
    moved, basis = deviation(system, x, u, 0), np.eye(system.n + 3)  # stiff off the loops: h⁴ needs a small h
    truth = np.stack([fourth_order(lambda s, e=e: moved(s * e), 1e-4) for e in basis], axis=-1)
    assert relative_error(np.hstack(system.linearize(x, u)), truth) < 1e-9
    assert_second_order(system, x[None], u[None], 3e-4, rng)


def test_many_knots_are_contracted_as_each(rng):
    robot = spatial("two")
    system = RobotDynamics(robot, 0.01, np.eye(robot.nv), "sdirk2")
    X = system.rollout(start(robot, rng), 0.1 * rng.normal(size=(11, robot.nv)))[:-1]
    U, weight = rng.normal(size=(11, robot.nv)), rng.normal(size=(11, system.n))
    H = np.empty((11, system.n + system.nu, system.n + system.nu))
    out = expanded(system, X, U)
    system.contract(out.record, weight, H)
    for x, u, w, mine in zip(X, U, weight, H, strict=True):
        alone = system.hessian(x, u, w)
        assert np.abs(mine - alone).max() < 1e-9 * np.abs(alone).max()


@pytest.mark.parametrize("integrator", HOLDING)
def test_a_four_bar_is_driven_by_its_crank_to_where_it_should_be(integrator, rng):
    robot = four_bar()
    goal = robot.closed(robot.q0 + np.array([0.8, -0.4, 0.3]))
    system = RobotDynamics(robot, 0.02, np.eye(3, 1), integrator)
    x0, end = np.r_[robot.q0, np.zeros(3)], np.r_[goal, np.zeros(3)]
    last, effort = StateCost(system, end, np.full(6, 1e3)), ControlCost(np.zeros(1), np.array([1e-3]))
    problem = ddp.Problem(system, [effort], [last], x0, 40)
    U = rng.normal(size=(40, 1))
    assert ddp.check_derivatives(problem, system.rollout(x0, U), U).ok
    solution = ddp.solve(problem)
    assert solution.converged
    assert np.abs(solution.X[-1, :3] - goal).max() < 1e-2
    assert max(np.abs(apart(robot, x[:3])).max() for x in solution.X) < 1e-9
    balanced = system.nominal_control(x0)
    assert np.abs(system.step(x0, balanced) - x0).max() < 1e-9


def test_what_is_held_twice_is_named():
    with pytest.raises(ModelError, match=r"the loop of 'end' and 'tip' holds 3 directions that joints and other loops"):
        four_bar("ry")


def test_directions_that_only_a_straight_posture_loses_ask_for_a_bent_one():
    """A cart and two upright links whose tip is pinned: z has no rate while straight, but nothing else holds it."""
    model, last = pin.Model(), 0
    for kind, at in ((pin.JointModelPX(), 0.0), (pin.JointModelRY(), 0.1), (pin.JointModelRY(), 0.3)):
        last = model.addJoint(last, kind, pin.SE3(np.eye(3), np.array([0.0, 0.0, at])), f"{last}")
        model.appendBodyToJoint(last, rod(0.1), pin.SE3.Identity())
    model.addFrame(pin.Frame("tip", last, 0, pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.3])), pin.OP_FRAME))
    loops = [Loop("tip", "pin", "y rx ry rz")]
    model.addFrame(pin.Frame("pin", 0, 0, pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.7])), pin.OP_FRAME))
    with pytest.raises(ModelError, match=r"z of the loop of 'tip' and 'pin': .* expected a bent posture, got q0 = \[0"):
        Robot(model, np.zeros(3), loops=loops)


def test_loops_that_cannot_be_closed_or_are_none_are_refused():
    robot = four_bar()
    with pytest.raises(ModelError, match=r"no configuration near q = .* closes its loops"):
        Robot(robot.model, robot.q0, loops=[Loop(end, "universe", "y rx ry rz") for end in ("end", "tip")])
    for loops, words in (
        ([Loop("end", "nowhere")], "four-bar has no frame 'nowhere'"),
        ([Loop("universe", "tip")], "expected a frame_a that a joint moves"),
        ([Loop("end", "tip", "x y z rx ry rz")], "expected something that is held"),
        (["end"], r"loops\[0\]: expected a Loop, got 'end'"),
    ):
        with pytest.raises(ModelError, match=words):
            Robot(robot.model, robot.q0, loops=loops)
    with pytest.raises(ModelError, match="expected some of x, y, z, rx, ry, rz, got 'yaw'"):
        Loop("end", "tip", "yaw")
    with pytest.raises(ModelError, match=r"spare of .*: expected some of 'x y', which are free, got 'z'"):
        Loop("end", "tip", "x y", "z")


@pytest.mark.parametrize("free", ["", "rx", "ry", "rz", "rx ry", "ry rz", "rx rz"])
def test_rates_of_distances_are_exact_where_a_loop_is_closed_and_turned(free, rng):
    model, loops = pin.Model(), [Loop("end", "universe", free)]
    model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
    model.addFrame(pin.Frame("end", 1, 0, random_placement(rng), pin.OP_FRAME))
    bodies = Mechanism(model)
    q = closed(bodies, loops, pin.integrate(model, pin.neutral(model), rng.normal(size=6)))
    rates = distances(bodies, loops, q)[1]
    for d, rate in zip(np.eye(6), rates.T, strict=True):
        away = fourth_order(lambda t, d=d: distances(bodies, loops, pin.integrate(model, q, t * d))[0])
        np.testing.assert_allclose(rate, away, atol=1e-9)


def test_only_steps_that_hold_loops_take_a_robot_that_has_them():
    robot = four_bar()
    for integrator in ("semi-implicit-euler", "rk4", "implicit-midpoint"):
        with pytest.raises(ProblemError, match="four-bar has loops, which only steps of RobotDynamics"):
            RobotDynamics(robot, 0.01, integrator=integrator)
    with pytest.raises(ProblemError, match="four-bar has loops"):
        dynamics.PhasedDynamics(robot, 0.01, [dynamics.Phase((), 3)])
    zero = np.zeros(3)
    for function in (dynamics.forward_dynamics, dynamics.linearize):
        with pytest.raises(ModelError, match="four-bar has loops"):
            function(robot, robot.q0, zero, zero)
    for system in (lambda: dynamics.KinematicDynamics(robot, 0.01), lambda: World(robot)):
        with pytest.raises(ModelError, match="four-bar has loops"):
            system()


def test_a_four_bar_rests_where_its_energy_is_least():
    robot = four_bar()
    rest = dynamics.statics(robot)
    assert rest.converged
    assert rest.forces.shape == (2,)
    system = RobotDynamics(robot, 0.01, integrator="implicit-euler")
    x = np.append(rest.q, np.zeros(3))
    np.testing.assert_allclose(system.step(x, np.zeros(3)), x, rtol=0, atol=1e-8)
    data = robot.model.createData()
    least = pin.computePotentialEnergy(robot.model, data, rest.q)
    for turn in (-0.1, -0.05, 0.05, 0.1):
        q = robot.closed(rest.q + turn * np.eye(3)[0])
        assert np.abs(q - rest.q).max() > 0.01
        assert pin.computePotentialEnergy(robot.model, data, q) > least - 1e-9


def flown_by_pinocchio(robot, x, seconds, count):
    """The state after so many seconds by Pinocchio's own constrained dynamics, in steps of rk4."""
    model, n = robot.model, robot.nv
    ends = [model.frames[robot.frame_id(name)] for name in ("end", "tip")]
    kind, given = pin.ContactType.CONTACT_3D, [part for end in ends for part in (end.parentJoint, end.placement)]
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    models.append(pin.RigidConstraintModel(kind, model, *given, pin.LOCAL))
    datas.append(models[0].createData())
    data, settings = model.createData(), pin.ProximalSettings(1e-12, 1e-10, 50)
    pin.initConstraintDynamics(model, data, models, datas)

    def rate(x):
        a = pin.constraintDynamics(model, data, x[:n], x[n:], np.zeros(n), models, datas, settings)
        return np.concatenate([x[n:], a])

    h = seconds / count
    for _ in range(count):
        k1 = rate(x)
        k2 = rate(x + 0.5 * h * k1)
        k3 = rate(x + 0.5 * h * k2)
        x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + rate(x + h * k3))
    return x


@pytest.mark.parametrize("integrator", HOLDING)
def test_closed_chains_move_as_pinocchio_has_them_to_first_order_and_to_a_tolerance(integrator):
    """A four-bar falls for .3 s: errors of steps halve with dt, and `simulate` comes closer than they do."""
    robot = four_bar()
    x0 = np.append(robot.closed(robot.q0), np.zeros(3))
    truth = flown_by_pinocchio(robot, x0, 0.3, 300)
    np.testing.assert_allclose(truth, flown_by_pinocchio(robot, x0, 0.3, 150), rtol=0, atol=1e-7)

    def error(N):
        system = RobotDynamics(robot, 0.3 / N, integrator=integrator)
        return np.abs(system.rollout(x0, np.zeros((N, 3)))[-1] - truth).max()

    assert 1.6 < error(60) / error(120) < 2.5
    system = RobotDynamics(robot, 0.01, integrator=integrator)
    close = dynamics.simulate(system, x0, np.zeros(3), 0.3, tolerance=1e-2)
    assert np.abs(close.X[-1] - truth).max() < 0.3 * error(30)
    assert close.steps < 3000  # with velocities across the loop in its errors, 130 000


def test_states_whose_loops_are_open_are_told():
    robot = four_bar()
    system = RobotDynamics(robot, 0.01, integrator="sdirk2")
    problem = ddp.Problem(system, [ControlCost(np.zeros(3), 1.0)], [], np.zeros(6), 3)
    with pytest.raises(ddp.SolveError, match=r"loops are open by 0\.\d+ at x = .*: robot.closed\(q\) closes them"):
        ddp.solve(problem)


@pytest.fixture
def told(caplog):
    """Warnings that are logged."""
    return lambda: [record.getMessage() for record in caplog.records]


def test_steps_from_states_off_their_loops_are_told_of_once(told):
    robot = four_bar()
    system = RobotDynamics(robot, 0.01, integrator="implicit-euler")
    closed_, off = np.append(robot.q0, np.zeros(3)), np.append(robot.q0 + 0.01, np.zeros(3))
    system.rollout(closed_, np.zeros((3, 3)))
    system.linearize(closed_ + 1e-8, np.zeros(3))
    assert not told()
    for _ in range(2):
        ddp.Problem(system, [ControlCost(np.zeros(3), 1.0)], [], off, 3)
        assert np.isfinite(system.step([closed_, off], np.zeros((2, 3)))).all()
        assert np.isfinite(system.rollout(off, np.zeros((3, 3)))).all()
        system.linearize(off, np.zeros(3))
    assert [line.split(",")[0] for line in told()] == [f"{x}: loops of four-bar are open" for x in ("x0", "x")]


def test_steps_that_are_not_a_users_are_not_told_of(told):
    system = RobotDynamics(four_bar(), 0.01, integrator="sdirk2")
    x0 = np.append(four_bar().q0, np.zeros(3))
    target = np.append(four_bar().closed(four_bar().q0 + 0.1), np.zeros(3))
    effort, reach = ControlCost(np.zeros(3), 1.0), StateCost(system, target, 1.0)
    problem = ddp.Problem(system, [effort], [reach], x0, 5)
    assert ddp.check_derivatives(problem).ok
    ddp.solve_best(problem, 3)
    assert not told()


@pytest.mark.parametrize("integrator", HOLDING)
def test_velocities_that_open_loops_are_told_of_and_ends_of_steps_are_not(told, rng, integrator):
    system = RobotDynamics(four_bar(), 0.01, integrator=integrator)
    rest = np.append(four_bar().q0, np.zeros(3))
    for _ in range(5):
        x = rest + np.append(np.zeros(3), rng.normal(size=3))
        after = system.step(x, np.zeros(3))
        system.check_state("x0", [after, system.rollout(after, 5.0 * rng.normal(size=(9, 3)))[-1]])
        assert not told()
    dynamics.simulate(system, x, np.zeros(3), 0.01, tolerance=1.0)
    assert [line.split(",")[0] for line in told()] == ["x0: loops of four-bar open by its velocities"]


def test_a_flat_four_bar_has_no_step_and_is_told_why(told):
    ground, flat = four_bar(), np.zeros(6)
    place = ground.model.jointPlacements[3]
    place.translation = np.array([0.5, 0.0, 0.0])  # flat, all links lie on the ground
    robot = Robot(ground.model, np.array([-1.0, 0.3, -1.0]), loops=ground.loops)
    system = RobotDynamics(robot, 0.01, integrator="implicit-euler")
    assert np.isnan(system.step(flat, np.zeros(3))).all()
    assert np.isnan(system.rollout(flat, np.zeros((2, 3)))[1:]).all()
    assert np.isnan(system.step([flat, flat + 1e-9], np.zeros((2, 3)))[0]).all()
    assert told() == [
        "four-bar: no step from where the Jacobian of its loops has lost rank: start beside it, as with links bent"
    ]


def test_robots_with_loops_travel_to_other_processes():
    robot = pickle.loads(pickle.dumps(four_bar()))
    assert robot.loops == four_bar().loops
    np.testing.assert_array_equal(robot.q0, four_bar().q0)
