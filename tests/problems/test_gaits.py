"""Gaits: Crocoddyl's own to the last digit, ready-made ones on many robots, and the physics along their solutions."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import crocoddyl_gaits
import numpy as np
import pinocchio as pin
import pytest
from thorough import cases

import ddp
from ddp.check import check_derivatives
from ddp.errors import ProblemError
from ddp.iterate import Iterate
from dynamics.contacts.dynamics import impact_dynamics
from dynamics.robots.equipment import Equipment
from dynamics.robots.model import Robot, load
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import gaits, legged, legs, reaction, schedule, strides
from problems.constraints import JointLimits, TorqueLimits
from problems.contact_costs import friction_constraint
from problems.legged import Weights

pytestmark = pytest.mark.usefixtures("quiet")

CROCODDYL = {
    "walk": (108, 799587.5597, 588.6368068, 12),
    "trot": (56, 287595.9644, 231.7924777, 8),
    "pace": (62, 287593.3305, 754.5215396, 12),
    "bound": (62, 458919.6571, 1968.508491, 20),
    "jump": (60, 1850904.573, 2950.233993, 17),
}
"""Crocoddyl 3.2.1's FDDP on its own gaits: knots, cost of its guess, optimum, iterations to 1e-9."""

QUADRUPEDS = ["anymal", "hyq", "solo12", "a1", "go1", "go2", "b1"]


@pytest.mark.parametrize("name", CROCODDYL)
def test_crocoddyls_gaits_have_its_costs_and_optima_in_no_more_iterations(name):
    N, start, optimum, iterations = CROCODDYL[name]
    problem = crocoddyl_gaits.gait(name)
    guess = crocoddyl_gaits.guess(problem)
    assert problem.horizon == N
    assert problem.cost(*guess) == pytest.approx(start, rel=1e-9)
    solution = ddp.solve(problem, guess=guess)
    assert solution.cost == pytest.approx(optimum, rel=1e-9)
    assert solution.iterations <= iterations
    assert solution.gap() < 1e-12


@dataclass(frozen=True)
class InPython(ddp.Backtracking):
    """Search of one's own, for which iterations are made in Python."""


def test_an_exact_iteration_is_one_sweep_and_one_rollout(monkeypatch):
    """To the last, where weights of controls have moved a little and a promise is less than rounding can show."""
    problem = crocoddyl_gaits.gait("bound")
    done, found = {"sweep": 0, "total": 0}, []

    def count(owner, name):
        original = getattr(owner, name)

        def counted(*given, **more):
            done[name] += 1
            return original(*given, **more)

        monkeypatch.setattr(owner, name, counted)

    count(Iterate, "sweep")
    count(type(problem.objective), "total")
    solver, guess = ddp.DDP(tolerance=1e-9, search=InPython()), crocoddyl_gaits.guess(problem)
    ddp.solve(problem, solver, guess, lambda step: found.append((step, dict(done))))
    last = [(step, after, before) for (_, before), (step, after) in pairwise(found) if step.hessian == "exact"]
    assert len(last) >= 3
    for step, after, before in last:
        assert after["sweep"] - before["sweep"] == 1
        assert after["total"] - before["total"] == 1 + round(np.log2(1.0 / step.step))
        assert step.step >= 0.5


def test_knot_zero_of_crocoddyls_guess_costs_what_it_says():
    problem = crocoddyl_gaits.gait("trot")
    X, U = crocoddyl_gaits.guess(problem)
    assert problem.values(X, problem.padded(U))[0] == pytest.approx(0.3537450889348759, rel=1e-12)


@pytest.fixture(scope="module")
def solved():
    """Solutions by (gait, robot), each solved once, in coarse steps."""
    @cache
    def get(gait, robot):
        problem = getattr(gaits, gait)(robot, dt=0.02)
        return ddp.solve(problem, ddp.DDP(max_iterations=60), legged.follow_nominal(problem))

    return get


PAIRS = [(gait, robot) for gait in gaits.GAITS for robot in QUADRUPEDS]


@pytest.mark.parametrize(
    ("gait", "robot"), cases(PAIRS, [(g, r) for g, r in PAIRS if g == "trot" or r == "go2"])
)
def test_every_quadruped_does_every_gait(solved, gait, robot):
    solution = solved(gait, robot)
    assert solution.converged
    assert solution.gap() < 1e-11
    assert np.abs(solution.X[-1, 7:19] - solution.X[0, 7:19]).max() < 0.5


def test_a_biped_steps(solved):
    solution = solved("step", "talos_legs")
    assert solution.converged
    assert solution.X[-1, 0] - solution.X[0, 0] > 0.1


def places(solution, frame):
    """Places (N+1, 3) of a frame at all states."""
    robot = solution.problem.dynamics.robot
    data = robot.model.createData()
    found = []
    for x in solution.X:
        pin.framesForwardKinematics(robot.model, data, x[: robot.nq])
        found.append(data.oMf[robot.frame_id(frame)].translation.copy())
    return np.array(found)


def stances(flags):
    """Ranges of states while a frame is in contact."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags, [0]])))
    return [slice(a, b + 1) for a, b in edges.reshape(-1, 2)]


def check_feet(solution, tolerance):
    """Feet stay where they stand, none below the ground, and cones of friction hold their forces."""
    system = solution.problem.dynamics
    forces = reaction.ground_forces(system, solution.X, solution.U)
    for frame, flags in reaction.standing(system).items():
        path = places(solution, frame)
        for stance in stances(flags):
            assert np.abs(path[stance] - path[stance][0]).max() < tolerance
        assert path[flags.nonzero()[0], 2].min() > reaction.ground(system) - tolerance
        force = forces[frame][np.any(forces[frame] != 0.0, axis=1)]
        assert (force[:, 2] > 0.0).all()
        assert (np.hypot(force[:, 0], force[:, 1]) <= 0.7 * force[:, 2] * (1.0 + 1e-9)).all()


@pytest.mark.parametrize(("gait", "robot"), [("trot", "go2"), ("bound", "hyq"), ("jump", "a1"), ("step", "talos_legs")])
def test_feet_stay_where_they_stand_and_friction_holds_them(solved, gait, robot):
    check_feet(solved(gait, robot), 1e-5)  # where feet touch down is a cost


@pytest.fixture(scope="module")
def default():
    """Solutions with nothing chosen but gait and robot."""
    @cache
    def get(gait, robot):
        problem = getattr(gaits, gait)(robot)
        return ddp.solve(problem, guess=legged.follow_nominal(problem))

    return get


@pytest.mark.parametrize(
    ("gait", "robot"),
    [("trot", "go2"), ("bound", "solo12"), ("jump", "a1"), ("walk", "hyq"), ("pace", "anymal"), ("step", "talos_legs")],
)
def test_feet_neither_slip_nor_sink_and_cones_hold_at_the_step_of_time_that_gaits_have(default, gait, robot):
    check_feet(default(gait, robot), 1e-6)


def test_accelerations_that_are_stabilised_let_feet_slip_in_proportion_to_the_square_of_the_step():
    slips = {}
    for dt in (0.01, 0.005):
        problem = gaits.trot("go2", dt=dt, gains=(dt**-2, 1.0 / dt))
        solution = ddp.solve(problem, guess=legged.follow_nominal(problem))
        slips[dt] = max(
            np.abs(places(solution, frame)[stance] - places(solution, frame)[stance][-1]).max()
            for frame, flags in reaction.standing(problem.dynamics).items() for stance in stances(flags)
        )  # fmt: skip
    assert 3.0 < slips[0.01] / slips[0.005] < 6.0
    assert slips[0.01] > 1e-5


def test_cones_and_footholds_hold_as_constraints():
    problem = gaits.trot("go2", friction=0.25, cones="constraint", footholds="constraint", dt=0.02)
    solution = ddp.solve(problem, guess=legged.follow_nominal(problem))
    system = problem.dynamics
    assert solution.converged
    assert solution.violation < 1e-8
    assert reaction.friction(problem) == 0.25
    for force in reaction.ground_forces(system, solution.X, solution.U).values():
        assert (np.hypot(force[:, 0], force[:, 1]) <= 0.25 * force[:, 2] + 1e-8).all()
    impacts = [k for k in range(problem.horizon) if system.is_impact(k)]
    for frame, flags in reaction.standing(system).items():
        path = places(solution, frame)
        for k in impacts:
            if flags[k] and not flags[k - 1]:
                assert np.abs(path[k] - path[k + 2]).max() < 1e-8


def test_policies_of_gaits_between_constraints_keep_what_binds(rng):
    """Cones, joints and torques that are at their bounds stay there to first order, in exact steps of the policy."""
    plain = gaits.bound("hyq", cones="constraint")
    system, h, count = plain.dynamics, 1e-6, 0
    limits = [JointLimits(system.robot), TorqueLimits(system)]
    solution = ddp.solve(replace(plain, constraints=[*plain.constraints, *limits]))
    assert solution.converged
    assert solution.iterations <= 25
    assert solution.violation < 1e-8
    for entry in solution.problem.placed:
        constraint, stop = entry.constraint, min(entry.stop, solution.problem.horizon)
        for k in range(entry.start, stop):
            x, u, K = solution.X[k : k + 1], solution.U[k : k + 1], solution.K[k]
            values = constraint.values(x, u)
            binds = (np.abs(values - constraint.lower) < 1e-9) | (np.abs(constraint.upper - values) < 1e-9)
            if not binds.any():
                continue
            dx = rng.normal(size=(1, system.n))
            ahead, behind = (
                np.array([
                    constraint.values(system.integrate(x, step * dx), u + step * dx @ gains.T)
                    for gains in (K, np.zeros_like(K))
                ])
                for step in (h, -h)
            )  # fmt: skip
            moved, unfollowed = (np.abs(ahead - behind) / (2.0 * h))[:, binds].max(axis=1)
            assert moved < 1e-5 < 1e-2 < unfollowed
            count += binds.sum()
    assert count > 50


@pytest.mark.parametrize(("gait", "robot"), [("pace", "solo12"), ("jump", "anymal")])
def test_momentum_changes_by_the_forces_on_the_feet(solved, gait, robot):
    """Pinocchio's rate of centroidal momentum against gravity, forces and their moments; impulses at impacts."""
    solution = solved(gait, robot)
    system = solution.problem.dynamics
    model, nq = system.robot.model, system.robot.nq
    data, mass = model.createData(), pin.computeTotalMass(model)
    forces = reaction.ground_forces(system, solution.X, solution.U)
    feet = {frame: places(solution, frame) for frame in forces}
    for k in range(solution.problem.horizon):
        q, v, after = solution.X[k, :nq], solution.X[k, nq:], solution.X[k + 1, nq:]
        c = pin.centerOfMass(model, data, q)
        if system.is_impact(k):
            struck = system.phase_of(k).impact
            impulse = impact_dynamics(system.robot, q, v, struck).impulse.reshape(-1, 3)
            pushes = {contact.frame: one for contact, one in zip(struck, impulse, strict=True)}
            change = pin.computeCentroidalMomentum(model, data, q, after).vector
            change = change - pin.computeCentroidalMomentum(model, data, q, v).vector
            expected = np.zeros(6)
        else:
            pushes = {frame: force[k] for frame, force in forces.items()}
            change = pin.computeCentroidalMomentumTimeVariation(model, data, q, v, (after - v) / system.dt).vector
            expected = np.concatenate([mass * model.gravity.linear, np.zeros(3)])
        for frame, push in pushes.items():
            expected += np.concatenate([push, np.cross(feet[frame][k] - c, push)])
        np.testing.assert_allclose(change, expected, atol=1e-9 * mass * 9.81, rtol=0)


@pytest.mark.parametrize("gains", cases([None, (400.0, 40.0)], [(400.0, 40.0)]), ids=str)
def test_every_derivative_of_a_gait_is_right(gains):
    """Forces and impulses, as costs and as constraints."""
    stand, still = legs.stance(load("solo12")), strides.straight((0.1, 0.0), 0.0, 0.0, 0.5)
    plan = schedule.cycling(stand.feet, schedule.in_turn(stand.corners(), "trot"), 0.2, 0.08)
    laid = strides.lay_out(stand, plan, 0.04, still, 0.03)
    problem = legged.legged(laid, gains=gains, friction=0.1, cones="constraint", footholds="constraint")
    system, held = problem.dynamics, dict(problem.constraints_at)
    for i, knot in laid.impacts.items():
        held[knot] = [*held[knot], friction_constraint(system, laid.contacts(i), 0.1, inside=0.6, restitution=0.0)]
    problem = replace(problem, constraints_at=held)
    X, U = legged.follow_nominal(problem)
    rng = np.random.default_rng(0)
    X = problem.dynamics.integrate(X, 0.05 * rng.normal(size=(len(X), problem.dynamics.n)))
    impacts = [k for k in range(problem.horizon) if problem.dynamics.is_impact(k)]
    report = check_derivatives(problem, X, U, knots=[1, impacts[0], problem.horizon])
    assert report.ok, str(report)
    for kind in ("ForceLimits", "ForceConstraint", "FramePositionEquality"):
        assert any(kind in check.name for check in report.checks)


def test_speed_step_length_and_turning_are_what_was_asked_for():
    problem = gaits.trot("go2", dt=0.02, cycles=2, speed=0.4, step_duration=0.2, support_duration=0.05)
    end = next(term.target_x for term in problem.terminal if hasattr(term, "target_x"))
    assert end[0] - problem.x0[0] == pytest.approx(0.4 * (4 * 0.2 + 3 * 0.06), rel=0.1)
    long = gaits.trot("go2", dt=0.02, step_length=0.3, step_duration=0.2, support_duration=0.06)
    end = next(term.target_x for term in long.terminal if hasattr(term, "target_x"))
    assert end[0] - long.x0[0] == pytest.approx(0.3 / 0.52 * (2 * 0.2 + 0.06), rel=1e-6)
    turned = gaits.walk("go2", dt=0.02, turning=0.5, speed=0.0)
    end = next(term.target_x for term in turned.terminal if hasattr(term, "target_x"))
    assert 2.0 * np.arctan2(end[5], end[6]) > 0.2


def test_any_schedule_of_feet_by_name_is_a_problem():
    stand = legs.stance(load("anymal"), feet=["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"])
    lame = schedule.cycling(stand.feet, [["RH_FOOT"], ["LF_FOOT"]], 0.3, 0.1)
    still = strides.straight((0.0, 0.0), 0.0, 0.0, 0.0)
    problem = legged.legged(strides.lay_out(stand, lame, 0.02, still, 0.05), Weights(torque=2.0), friction=0.5)
    assert ddp.solve(problem, guess=legged.follow_nominal(problem)).converged
    assert reaction.friction(problem) == 0.5


def test_a_file_with_named_feet_walks_in_a_posture_that_is_given():
    known = load("solo12")
    feet = "FR_FOOT, FL_FOOT, HR_FOOT, HL_FOOT"
    both = gaits.walk(known.source.path, feet=feet, q0=known.q0, dt=0.03), gaits.walk("solo12", dt=0.03)
    one, other = (ddp.solve(problem, guess=legged.follow_nominal(problem)).cost for problem in both)
    assert one == pytest.approx(other)


def test_gears_of_motors_change_neither_a_plan_nor_its_feedback():
    plain = load("solo12")
    gears = np.resize([1.0, -5.0, 20.0], 12)
    limits = np.sort(plain.control_limits / gears[:, None], axis=1)
    geared = Robot(plain.model, plain.q0, plain.source, Equipment(plain.actuation * gears, limits))
    own, other = (ddp.solve(gaits.trot(robot)) for robot in (plain, geared))
    assert other.cost == pytest.approx(own.cost, rel=1e-9)
    np.testing.assert_allclose(gears * other.U, own.U, atol=1e-5)
    scale = np.abs(own.policy.G).max()
    np.testing.assert_allclose(gears[:, None] * other.policy.G, own.policy.G, atol=1e-5 * scale)


def test_gears_of_motors_do_not_change_the_feedback_of_an_arm():
    robot = load("ur5")
    gears = np.array([1.0, -50.0, 20.0, 0.1, 3.0, 7.0])
    systems = [RobotDynamics(robot, 0.01, actuation=np.diag(one)) for one in (np.ones(6), gears)]
    x0 = np.concatenate([robot.q0, np.zeros(6)])
    own, other = (s.tracked.weights(np.array([x0, x0]), s.nominal_control(x0)[None]).control for s in systems)
    np.testing.assert_allclose(other, gears**2 * own, rtol=1e-12)


def test_sites_of_a_file_are_feet_where_no_bodies_are():
    legs_of = "".join(
        f"""<body pos="{x} {y} 0"><joint/><geom size=".03"/><site name="{name}_foot" pos="0 0 -.3"/></body>"""
        for name, x, y in (("FL", 0.2, 0.1), ("FR", 0.2, -0.1), ("RL", -0.2, 0.1), ("RR", -0.2, -0.1))
    )
    trunk = f"""<body name="trunk" pos="0 0 .3"><freejoint/><geom size=".1"/>{legs_of}</body>"""
    found = legs.stance(load(f"<mujoco><worldbody>{trunk}</worldbody></mujoco>"))
    assert found.corners() == {"LF": "FL_foot", "RF": "FR_foot", "LH": "RL_foot", "RH": "RR_foot"}
    with pytest.raises(ddp.ProblemError, match="no bodies or sites called soles or feet"):
        legs.stance(load(f"<mujoco><worldbody>{trunk.replace('_foot', '_end')}</worldbody></mujoco>"))


@pytest.mark.parametrize(("roll", "yaw"), [(90, 0), (180, 0), (-90, 30), (0, 120)])
def test_feet_are_left_or_right_of_where_the_base_heads_however_its_frame_lies(roll, yaw):
    legs_of = "".join(
        f"""<body pos="{x} {y} 0"><joint/><geom size=".03"/><site name="{name}_foot" pos="0 0 -.3"/></body>"""
        for name, x, y in (("LF", 0.2, 0.1), ("RF", 0.2, -0.1), ("LH", -0.2, 0.1), ("RH", -0.2, -0.1))
    )
    file = """<mujoco><compiler eulerseq="XYZ"/><worldbody><body pos="0 0 .3" euler="{} {} {}"><freejoint/>
        <geom size=".1"/><frame euler="{} 0 0">{}</frame></body></worldbody></mujoco>"""
    found = legs.stance(load(file.format(roll, 0, yaw, -roll, legs_of)))
    assert found.corners() == {name: f"{name}_foot" for name in ("LF", "RF", "LH", "RH")}
    with pytest.raises(ddp.ProblemError, match="q0: expected a base whose x axis points forward"):
        legs.stance(load(file.format(0, 90, 0, 0, legs_of)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"feet": "FL_foot,FR_foot,RL_foot,RR_fot"}, "feet: go2 has no frame .RR_fot"),
        ({"feet": "FL_foot,FR_foot"}, "feet: expected one at each corner"),
        ({"robot": "ur5"}, "robot: expected legs"),
        ({"step_height": -0.1}, "step_height"),
        ({"step_duration": 0.0}, "step_duration"),
        ({"support_duration": -0.1}, "support_duration"),
        ({"speed": 0.4, "step_length": 0.2, "step_duration": 0.2}, "step_length: 0.4 m/s for"),
        ({"speed": 4.0, "step_length": 0.01}, "step_length: 0.01 m at 4.0 m/s leaves no time"),
        ({"friction": 0.0}, "friction"),
        ({"ground": -0.5}, "above the ground"),
        ({"ground": 0.5}, "below the ground"),
        ({"q0": [0.0, 0.0, 0.3, 0.9, 0.0, 0.0, 0.44, *4 * [0.0, 0.8, -1.6]]}, "q0: expected a centre of mass above"),
        ({"dt": -0.01}, "dt"),
        ({"cones": "hard"}, "cones: expected one of 'barrier', 'constraint', got 'hard'"),
        ({"footholds": "soft"}, "footholds: expected one of 'cost', 'constraint'"),
    ],
)
def test_what_is_wrong_with_a_gait_is_named(arguments, message):
    with pytest.raises(ProblemError, match=message):
        gaits.trot(**{"robot": "go2", **arguments})
    with pytest.raises(ProblemError, match=r"weights.torque: expected no negative weight"):
        Weights(torque=-1.0)


@pytest.mark.parametrize("gait", [gaits.walk, gaits.trot, gaits.pace, gaits.bound, gaits.step])
def test_gaits_that_step_show_their_names_and_parameters(gait):
    parameters = inspect.signature(gait).parameters
    assert list(parameters)[:3] == ["robot", "cycles", "speed"]
    assert parameters["robot"].default == ("talos_legs" if gait is gaits.step else "anymal")
    assert "flight_duration [s]" in gait.__doc__
    assert pickle.loads(pickle.dumps(gait)) is gait
    with pytest.raises(TypeError, match=rf"^{gait.__name__}\(\) got an unexpected keyword argument 'sped'"):
        gait("go2", sped=0.3)


def test_a_trot_flies_if_it_is_told_to():
    system = gaits.trot("solo12", 2, dt=0.02, flight_duration=0.06).dynamics
    assert [phase.knots for phase in system.phases if not phase.contacts] == [3, 3, 3]


def test_an_unknown_gait_of_crocoddyl_is_refused():
    with pytest.raises(ProblemError, match="gait: there is none called 'gallop'"):
        crocoddyl_gaits.gait("gallop")
