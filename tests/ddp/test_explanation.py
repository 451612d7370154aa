"""An explanation adds up to the cost, names what holds, and knows something to try for every ending."""

import re
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

import ddp
import problems
from ddp.solutions.explanation import ADVICE, ANOTHER, MOVING, alone
from ddp.solutions.kinks import slope_of
from ddp.solutions.status import Ending, Status
from dynamics import ContinuousDynamics, FunctionDynamics, RobotDynamics, augment
from problems import arm, constraints, gaits, obstacles, pendulum
from problems.costs import FramePosition, StateCost


@pytest.mark.parametrize("build", [arm.reach, lambda: gaits.jump("solo12")], ids=["reach", "jump"])
def test_shares_of_terms_add_up_to_the_cost(build):
    solution = ddp.solve(build(), ddp.DDP(max_iterations=3), throw=False)
    shares = solution.explain().shares
    assert sum(cost for _, cost in shares) == pytest.approx(solution.cost, rel=1e-12)
    assert len(shares) == len(solution.problem.objective.entries)
    assert [abs(cost) for _, cost in shares] == sorted((abs(cost) for _, cost in shares), reverse=True)


def test_what_holds_a_motion_is_named():
    limited = pendulum.swing_up()
    limited = ddp.Problem(
        limited.dynamics, limited.running, limited.terminal, limited.x0, limited.horizon, control_limits=(-3.0, 3.0),
        constraints=[ddp.Inequality(lambda x, u: x[1] - 6.0)],
    )  # fmt: skip
    solution = ddp.solve(limited)
    active = "\n".join(solution.explain().active)
    at_limit = int((np.abs(solution.U) == 3.0).sum())
    assert at_limit > 0
    assert sum(int(count) for count in re.findall(r"limit at (\d+) of", active)) == at_limit
    (residual,) = solution.residuals()
    assert (f"{residual.name} at" in active) == bool(np.abs(residual.multipliers).max() > 0.0)
    assert "held by\n  control" in str(solution.explain())


def test_targets_are_missed_by_what_the_robots_frames_say():
    problem = arm.reach()
    solution = ddp.solve(problem, ddp.DDP(max_iterations=3), throw=False)
    robot, target = problem.dynamics.robot, problem.terminal[0].target
    q = solution.X[-1, : robot.nq]
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    M = data.oMf[robot.frame_id("tool0")]
    (told,) = solution.explain().misses
    distance, angle = re.fullmatch(r"tool0 is (\S+) mm and (\S+)° from its target", told).groups()
    assert float(distance) == pytest.approx(1e3 * np.linalg.norm(M.translation - target.translation), rel=6e-3)
    turn = np.linalg.norm(pin.log3(target.rotation.T @ M.rotation))
    assert float(angle) == pytest.approx(np.degrees(turn), rel=6e-3)
    assert f"targets\n  {told}" in str(solution.explain())


def test_targets_that_move_are_missed_most_somewhere_on_the_way(rng):
    plain = arm.reach(horizon=6)
    robot, path = plain.dynamics.robot, rng.uniform(-0.5, 0.5, size=(6, 3))
    path[0] = 9.0  # which no control changes
    solution = ddp.solve(
        replace(plain, running=[*plain.running, FramePosition(robot, "tool0", path, 1.0)], terminal=[]),
        ddp.DDP(max_iterations=2), throw=False,
    )  # fmt: skip
    data, missed = robot.model.createData(), []
    for x, target in zip(solution.X[:-1], path, strict=True):
        pin.framesForwardKinematics(robot.model, data, x[: robot.nq])
        missed.append(1e3 * np.linalg.norm(data.oMf[robot.frame_id("tool0")].translation - target))
    (told,) = solution.explain().misses
    words = r"knot (\d+): tool0 is (\S+) (mm|m) from its target, the most on the way"
    knot, size, unit = re.fullmatch(words, told).groups()
    assert int(knot) == 1 + np.argmax(missed[1:])
    assert float(size) * (1e3 if unit == "m" else 1.0) == pytest.approx(max(missed[1:]), rel=6e-3)


def test_constraints_of_single_knots_are_told_in_one_line():
    plain = pendulum.swing_up()
    bound = {k: [ddp.Inequality(lambda x, u: x[1] - 3.0)] for k in range(5, plain.horizon)}
    one = ddp.solve(replace(plain, constraints_at=bound))
    held = [residual for residual in one.residuals() if np.abs(residual.multipliers).max() > 1e-3]
    assert len(held) > 1
    (told,) = one.explain().active
    assert told.startswith(f"constraints_at[5 to {plain.horizon - 1}][0] (Inequality) at ")
    hardest = max(held, key=lambda residual: np.abs(residual.multipliers).max())
    assert f"hardest at knot {hardest.knots[0]}, multiplier {hardest.multipliers[0, 0]:.3g}" in told


@pytest.mark.parametrize("single", [False, True])
def test_a_constraint_that_is_violated_is_told_once_with_its_worst_knot_and_how_many(single):
    """A double integrator that rests at 1 for a second while it must keep below 0.2."""
    fence = ddp.Inequality(lambda x, u: x[0] - 0.2)
    system = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0]]), 2, 1, 0.1)
    there = ddp.Equality(lambda x, u: x - np.array([1.0, 0.0]))
    placed = {k: [fence] for k in range(1, 15)} if single else {}
    placed |= {k: [*placed.get(k, []), there] for k in (10, 14)}
    costs = [lambda x, u: 0.5 * u @ u], [lambda x, u: 0.0 * x[0]]
    everywhere = [] if single else [fence]
    problem = ddp.Problem(system, *costs, np.zeros(2), 14, constraints=everywhere, constraints_at=placed)
    solution = ddp.solve(problem, ddp.DDP(step="rollout"), throw=False)
    own = [one for one in solution.residuals() if "[0] (Inequality)" in one.name]
    sizes = np.concatenate([one.violation.max(axis=1) for one in own])
    knots = np.concatenate([one.knots for one in own])
    (told,) = [line for line in solution.explain().active if "(Inequality)" in line]
    assert told.count("(Inequality)") == 1
    others = f", by less at {(sizes > 1e-6).sum() - 1} more; held at "
    assert f" is violated by {sizes.max():.3g} at knot {knots[sizes.argmax()]}{others}" in told
    assert solution.status.count("(Inequality)") <= 2


def test_every_ending_that_is_no_success_has_advice():
    failures = {ending for ending in Ending if not ending.converged} - {Ending.UNKNOWN}
    assert set(ADVICE) == failures
    unfinished = ddp.solve(pendulum.swing_up(), ddp.DDP(max_iterations=2), throw=False)
    assert "\ntry\n  give it more" in str(unfinished.explain())
    assert "; try this: give it more" in str(unfinished)
    assert "try this" not in unfinished.explain().outcome
    controls = replace(pendulum.swing_up(), running=pendulum.swing_up().running[:1])
    free = ddp.solve(controls, ddp.DDP(max_iterations=2), throw=False)
    assert "\ntry\n  a running cost of states, as of velocities" in str(free.explain())
    finished = ddp.solve(pendulum.swing_up())
    assert finished.explain().advice == ""
    assert "\ntry" not in str(finished.explain())


def test_kinks_at_a_motion_are_told_of():
    """Of |u|, at whose minimum many controls are zero, and of friction from rest; not of what is steep and smooth."""
    plain = pendulum.swing_up()

    def advice(running, iterations, dynamics=plain.dynamics):
        problem = ddp.Problem(dynamics, [running], plain.terminal, plain.x0, plain.horizon)
        found = ddp.solve(problem, ddp.DDP(max_iterations=iterations, tolerance=1e-16), throw=False)
        assert not found.converged
        return found.explain().advice

    def slowed(x, u):
        return x + 0.02 * np.array([x[1], u[0] - 9.81 * np.sin(x[0]) - abs(x[1])])

    kinked = advice(lambda x, u: abs(u).sum() + 1e-3 * (u @ u), 40)
    assert re.match(r"smooth running\[0\] <lambda>, whose slope jumps at \d+ of the motion's knots, as sqrt", kinked)
    for smooth in (lambda x, u: (u**2 + 1e-4).sum() ** 0.5, lambda x, u: abs(u - 1e3).sum() + 1e-3 * (u @ u)):
        assert "slope" not in advice(smooth, 2)
    assert advice(plain.running[0], 1, FunctionDynamics(slowed, 2, 1, dt=0.02)).startswith("smooth the dynamics, whose")


@pytest.mark.parametrize("step", [np.floor, lambda s: s - np.mod(s, 1.0), lambda s: np.where(s < 1.0, 0.0, 2.0)])
def test_values_that_jump_at_the_end_of_a_motion_are_told_of(step):
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, dt=0.1)

    def stairs(x, u):
        return 50.0 * (x[0] - 2.0) ** 2 + 200.0 * step(x[0])

    found = ddp.solve(ddp.Problem(system, [lambda x, u: 0.5 * u[0] ** 2], [stairs], np.zeros(2), 20), throw=False)
    assert not found.converged
    assert found.explain().advice.startswith("smooth terminal[0] stairs, whose value jumps at 1 of the motion's knots")


def test_parabolas_at_their_lowest_points_have_no_kinks():
    """Their values at both sides are equal."""
    found = ddp.solve(problems.find("rocket/landing")(), ddp.DDP(max_iterations=1), throw=False)
    assert not found.converged
    assert "jumps" not in found.explain().advice


def test_courses_of_full_space_steps_end_with_measures_that_fall_to_zero():
    """Promises of such steps count gaps by their multipliers: here 1e6 times the cost, at the last step but one."""
    solution = ddp.solve(arm.obstacles())
    assert solution.history[-1].full_space
    assert solution.history[-2].expected > 1e3 * solution.cost
    course = solution.explain().course
    assert "expected" not in course
    for said, within in (("last gradients ", 1e-7), ("largest gaps or violations ", 1e-8)):
        numbers = [float(number) for number in course.partition(said)[2].partition(";")[0].split(", ")]
        assert len(numbers) == 4
        assert numbers[-1] == min(numbers) <= within


def test_a_course_counts_iterations_that_have_no_records():
    """As those of batches."""
    solution = ddp.solve(pendulum.swing_up())
    bare = replace(solution, history=())
    assert bare.explain().course == f"{solution.iterations} iterations, without a record of each"
    assert replace(bare, iterations=0).explain().course == "no iterations"


def test_an_iteration_is_printed_in_a_line_with_what_it_leaves_open():
    printed, rollouts = list[str](), ddp.DDP(step="rollout")
    solution = ddp.solve(pendulum.swing_up(), rollouts, callback=lambda record: printed.append(str(record)))
    assert len(printed) == solution.iterations
    for line, record in zip(printed, solution.history, strict=True):
        assert line.startswith(f"cost {record.cost:.6g} ")
        assert f"step {record.step:.3g} " in line
        assert not re.search(r"\n|gap|violation", line)
    last = solution.history[-1]._replace(gap=1e-3, violation=0.25, full_space=True)
    assert str(last).endswith("exact, full space  gap 1.0e-03  violation 2.5e-01")
    assert repr(last.cost) in repr(last)


def test_slopes_of_terms_alone_add_up_to_the_gradient(rng):
    """Those of contact forces too, which read what steps leave."""
    problem = gaits.trot("go2")
    X, U = problem.guess
    X, U = problem.dynamics.integrate(X, 1e-3 * rng.normal(size=(len(X), problem.dynamics.n))), problem.padded(U)
    at = problem.allocate()
    problem.expand(X, U, at, 0, problem.horizon + 1)
    own = sum(slope_of(problem, term)(X, U) for _, term in alone(problem))
    np.testing.assert_allclose(own, at.lz, atol=1e-12 * np.abs(at.lz).max())


def test_advice_begins_with_what_the_problem_is_doubted_for():
    reach = arm.reach(horizon=8)
    target = constraints.FramePositionEquality(reach.dynamics.robot, "tool0", [2.0, 0.0, 0.5])
    told = "802 mm further than it can reach, 1.240 m from its first joint; or residuals() names"
    far = ddp.solve(replace(reach, terminal_constraints=[target]), throw=False)
    assert far.status.ending is Ending.INFEASIBLE
    assert told in far.explain().advice
    assert told in str(far)
    stuck = replace(far, status=Status("no step lowers the cost", Ending.NO_STEP))
    assert told.partition(";")[0] + "; or check_derivatives(problem) tells" in str(stuck)
    assert "more time" not in str(far)
    assert "lower speed" in str(ddp.solve(gaits.trot(speed=3.0), throw=False))


def test_implicit_integrators_are_advised_where_steps_are_of_none():
    solution = ddp.solve(pendulum.swing_up())
    diverged = replace(solution, status=Status("diverged", Ending.DIVERGED))
    robot = solution.problem.dynamics.robot
    for integrator in ("semi-implicit-euler", "rk4", "implicit-euler", "implicit-midpoint", "sdirk2"):
        systems = (
            RobotDynamics(robot, 0.02, integrator=integrator),
            ContinuousDynamics(lambda x, u: np.array([x[1], u[0]]), 2, 1, 0.02, integrator),
        )
        for dynamics in systems:
            problem = ddp.Problem(dynamics, [lambda x, u: u @ u], [], np.zeros(2), solution.problem.horizon)
            found = replace(diverged, problem=problem)
            assert ("implicit integrator" in str(found)) == (integrator in ("semi-implicit-euler", "rk4"))
            assert str(found).partition("; try this: ")[2] == found.explain().advice != ""


def test_shorter_steps_are_advised_where_derivatives_of_implicit_ones_are_not_finite():
    def solved(integrator):
        system = ContinuousDynamics(lambda x, u: np.array([x[1], u[0] - np.sqrt(x @ x)]), 2, 1, 0.1, integrator)
        return ddp.solve(ddp.Problem(system, [lambda x, u: u @ u + x @ x], [], np.zeros(2), 5), throw=False)

    explicit, implicit = solved("rk4"), solved("implicit-midpoint")
    assert explicit.status.ending is Ending.NOT_FINITE
    assert "the dynamics' derivative is not finite at knot 0" in explicit.status
    assert "the next state is not finite at knot 0 (no step from x = [0. 0.]: f or its deriv" in implicit.status
    for problem, shorter in ((explicit.problem, False), (implicit.problem, True)):
        told = str(replace(explicit, problem=problem))
        assert "a norm at zero" in told
        assert ("take shorter steps of time" in told) == shorter


@pytest.mark.parametrize("least", [0.0, 5.0])
def test_advice_is_to_move_a_start_that_violates_constraints(least):
    system = FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1)
    problem = ddp.Problem(
        system, [lambda x, u: u @ u], [], [-1.0], 5, control_limits=(-1.0, 1.0),
        constraints=[ddp.Inequality(lambda x, u: least - x[0])] if least else [],
        terminal_constraints=[] if least else [ddp.Equality(lambda x, u: x[0] - 1.0)],
    )  # fmt: skip
    advice = ddp.solve(problem, throw=False).explain().advice
    assert ("begin where constraints hold at x0" in advice) == (least > 0.0)
    assert ("constraints_at={range(k, N): [...]}" in advice) == (least > 0.0)
    assert ("more time" in advice) == (least == 0.0)


def test_converged_motions_far_from_their_targets_have_advice():
    """Their problem's doubts, and another start where constraints hold them; none where targets are met."""
    reach = arm.reach()
    robot, target = reach.dynamics.robot, reach.terminal[0].target.translation
    ball = obstacles.SphereClearance(robot, "tool0", 0.05, [obstacles.Sphere(target, 0.2)])
    blocked, far, met = (ddp.solve(one) for one in (replace(reach, constraints=[ball]), arm.out_of_reach(), reach))
    nearer = "target of tool0: 250 mm nearer to an obstacle than SphereClearance allows"
    assert blocked.explain().advice == f"{nearer}; or {ANOTHER}"
    assert re.fullmatch("target of tool0: .* its first joint", far.explain().advice)
    assert met.explain().advice == ""
    assert ANOTHER not in str(blocked)


@pytest.mark.parametrize(("x", "y", "advice"), [(0.0, 1.0, MOVING), (1.0, 0.0, ""), (0.0, 0.0, "")])
def test_a_car_at_rest_beside_its_target_is_told_to_move(x, y, advice):
    """No control moves it sideways to first order; ahead one does, and where it stands nothing has to.

    Zero controls are given, for from the default guess a second start moves.
    """

    def step(x, u):
        return x + 0.05 * np.array([x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * u[0], u[1]])

    car = FunctionDynamics(step, 4, 2, dt=0.05)
    target = StateCost(car, [x, y, 0.0, 0.0], [1e3] * 4)
    problem = ddp.Problem(car, [lambda x, u: 0.5 * (u @ u)], [target], np.zeros(4), 80)
    solution = ddp.solve(problem, guess=np.zeros((80, 2)))
    assert solution.explain().advice == advice
    assert "try this" not in str(solution)


def test_terms_and_constraints_of_lifted_problems_have_the_names_of_their_own():
    """Around a system with rates as controls, and where the start is free: functions, rows and targets are named."""

    def effort(x, u):
        return u @ u

    def side(x, u):
        return x[:1]

    plain = arm.reach("ur5", horizon=4)
    robot, speeds = plain.dynamics.robot, constraints.VelocityLimits(plain.dynamics.robot, 2.0)
    plain = replace(plain, running=[*plain.running, effort], constraints=[speeds, ddp.Inequality(side, upper=1.0)])
    system = augment.rates(plain.dynamics)
    rates = problems.lifted(plain, system, plain.dynamics.nominal_control(plain.x0))
    for problem in (rates, problems.free_start(plain, np.eye(12)[:, 6:])):
        solution = ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
        told = solution.explain()
        assert any(re.search(r"\beffort$", name) for name, _ in told.shares)
        assert any(name.endswith("FramePose of tool0") for name, _ in told.shares)
        assert [miss[:9] for miss in told.misses] == ["tool0 is "]
        rows = {residual.name.partition(" (")[2]: residual.row_names for residual in solution.residuals()}
        assert rows == {"VelocityLimits)": tuple(robot.joint_names), "Inequality of side)": ()}
