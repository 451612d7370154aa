"""Twins of problems with other numbers, and objects that travel: solutions and receding horizons in pickles."""

import copy
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin
import pytest

import ddp
import dynamics
from ddp.packages import edition
from ddp.parallel.workers import common
from dynamics.phases.forces import pushes
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.quantities.frames import branch
from problems import arm, cartpole, gaits, pendulum, quadrotor, quadruped
from problems.constraints import CenterOfMassLimits, FramePositionLimits, FrameVelocityLimits, JointLimits
from problems.contact_costs import ForceLimits
from problems.costs import CenterOfMass, FramePose, FramePosition, FrameVelocity


@pytest.fixture(scope="module")
def reach():
    return arm.reach("ur5")


@pytest.fixture(scope="module")
def solution(reach):
    return ddp.solve(reach)


def other_pose(reach):
    return reach.terminal[0].target * pin.exp6(np.array([0.05, -0.1, 0.02, 0.1, 0.0, -0.2]))


def same_solve(a, b):
    a, b = ddp.solve(a, throw=False), ddp.solve(b, throw=False)
    return np.array_equal(a.X, b.X) and np.array_equal(a.K, b.K) and a.cost == b.cost and a.status == b.status


@pytest.mark.parametrize("name", ["target", "terminal[0].target"])
def test_a_twin_with_another_target_is_the_problem_made_anew(reach, name):
    aim = other_pose(reach)
    made = replace(reach, terminal=[replace(reach.terminal[0], target=aim), reach.terminal[1]])
    assert same_solve(reach.varying({name: aim.homogeneous}), made)


def test_a_twin_of_a_twin_that_was_sent_has_the_terms_that_it_says(reach):
    twin = pickle.loads(pickle.dumps(reach.varying(target=reach.number("target")))).varying(target=np.eye(4))
    assert [entry.term for entry in twin.objective.entries] == [*twin.running, *twin.terminal]
    assert np.array_equal(twin.number("target"), np.eye(4))


def test_several_numbers_vary_at_once(reach):
    x0 = reach.x0 + 0.1
    weights = 2.0 * reach.running[1].weights
    twin = reach.varying({"running[1].weights": weights}, x0=x0, control_limits=(-100.0, 100.0))
    running = [reach.running[0], replace(reach.running[1], weights=weights)]
    assert same_solve(twin, replace(reach, x0=x0, running=running, control_limits=(-100.0, 100.0)))
    assert not np.array_equal(ddp.solve(twin).X, ddp.solve(reach).X)
    limits = np.array([-100.0, 100.0])
    twin = reach.varying(control_limits=limits)
    limits[:] = 0.0
    assert tuple(twin.control_limits) == (-100.0, 100.0)


def test_the_problem_itself_stays_as_it_is(reach, solution):
    for twin in (reach.varying(target=other_pose(reach)), reach.varying(masses=2.0 * reach.dynamics.masses)):
        ddp.solve(twin, throw=False)
    assert np.array_equal(ddp.solve(reach).X, solution.X)


def test_bodies_of_other_masses_move_as_pinocchio_says(reach, rng):
    robot = reach.dynamics.robot
    masses = robot.masses * rng.uniform(0.5, 2.0, len(robot.masses))
    twin = reach.varying(masses=masses).dynamics.robot
    model = robot.model.copy()
    for j, mass in enumerate(masses, 1):
        old = model.inertias[j].toDynamicParameters()
        model.inertias[j] = pin.Inertia.FromDynamicParameters(old * (mass / old[0]))
    q, v, a = robot.random_configuration(rng), *rng.normal(size=(2, robot.nv))
    torques = pin.rnea(model, model.createData(), q, v, a)
    np.testing.assert_allclose(dynamics.inverse_dynamics(twin, q, v, a), torques, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(twin.masses, masses, rtol=1e-15)


def test_another_friction_is_another_cone_in_every_term_that_has_it():
    twin, made = gaits.trot("go2").varying(friction=0.55), gaits.trot("go2", friction=0.55)
    X, U = twin.guess if isinstance(twin.guess, tuple) else (None, None)
    x, y = (problem.values(X, 3.0 * U) for problem in (twin, made))
    assert np.array_equal(x, y)
    trot = gaits.trot("go2")
    assert not np.array_equal(x, trot.values(X, 3.0 * U))
    before, after = (problem.during[range(12)][4] for problem in (trot, trot.varying(friction=0.55)))
    assert after._pushes is before._pushes  # which is dear to make


def test_which_phase_a_cost_is_of_is_no_number_to_vary():
    trot = gaits.trot("go2")
    term = next(term for terms in trot.during.values() for term in terms if isinstance(term, ForceLimits))
    places = replace(trot, during={range(3): [replace(term, phase=0)]}).places
    assert "during[range(0, 3)][0].weight" in places
    assert not any(place.field == "phase" for place in places.values())


def test_dynamics_of_other_masses_note_the_forces_that_costs_are_about():
    trot = gaits.trot("go2")
    heavy = trot.varying(masses=1.1 * trot.dynamics.masses)
    assert [entry.noted for entry in heavy.objective.entries] == [entry.noted for entry in trot.objective.entries]
    solution, term = ddp.solve(heavy, throw=False), heavy.during[range(12)][4]
    forces = term.forces(solution.X[:12], solution.U[:12])
    made = PhasedDynamics(heavy.dynamics.robot, heavy.dynamics.dt, heavy.dynamics.phases, heavy.dynamics.actuation)
    assert np.array_equal(made.rollout(solution.X[0], solution.U), heavy.dynamics.rollout(solution.X[0], solution.U))
    np.testing.assert_allclose(replace(term, system=made).forces(solution.X[:12], solution.U[:12]), forces, rtol=1e-12)


class Slope:
    def __init__(self, goal):
        self.goal = goal

    def value(self, x, u):
        return 50.0 * ((x - self.goal) ** 2).sum()


@dataclass
class Effort:
    weight: float

    def value(self, x, u):
        return 0.5 * self.weight * (u @ u)


def oscillator(x, u, p):
    return x + 0.05 * np.array([x[1], u[0] - p[0] * x[0] - p[1] * np.sin(x[1])])


def own_problem(goal=(1.0, 0.0), weight=1.0, parameters=(1.0, 0.1)):
    system = dynamics.FunctionDynamics(oscillator, 2, 1, dt=0.05, parameters=list(parameters))
    return ddp.Problem(system, [Effort(weight)], [Slope(np.array(goal))], np.zeros(2), 20)


@pytest.mark.parametrize("numbers", [
    {"goal": np.array([0.5, 0.0])}, {"weight": 3.0}, {"parameters": [2.0, 0.3]}, {"dynamics.parameters": [2.0, 0.3]},
])  # fmt: skip
def test_terms_and_functions_of_ones_own_vary(numbers):
    made = own_problem(**{name.removeprefix("dynamics."): value for name, value in numbers.items()})
    assert same_solve(own_problem().varying(numbers), made)
    assert not same_solve(own_problem().varying(numbers), own_problem())


@dataclass
class Pull:
    """A cost that reads its gain and what its constructor makes of the goal, and, where positive, the floor."""

    goal: float = 1.0
    gain: float = 3.0
    floor: float = -1.0
    note: float = 7.0

    def __post_init__(self):
        self.end = 2.0 * self.goal

    def value(self, x, u):
        return self.gain * ((x - self.end) ** 2).sum() + max(0.0, self.floor) * (u @ u)


def test_numbers_that_a_cost_does_not_read_are_no_numbers_to_vary():
    problem = replace(own_problem(), terminal=[Pull()])
    for numbers in ({"goal": 0.5}, {"gain": 2.0}, {"goal": 0.5, "gain": 2.0}):
        assert not same_solve(problem.varying(numbers), problem)
    for numbers in ({"floor": -2.0}, {"note": 7.0}):  # which it reads; the same as before
        assert same_solve(problem.varying(numbers), problem)
    said = r"terminal\[0\].note \(Pull\): expected a number that value\(x, u\) reads, got one that it does not"
    for numbers in ({"note": 8.0}, {"note": 8.0, "gain": 2.0}):
        with pytest.raises(ddp.ProblemError, match=said):
            problem.varying(numbers)
    with pytest.raises(ddp.ProblemError, match=r"over, sample 0 of 2: terminal\[0\].note"):
        ddp.solve_many(problem, over={"note": [1.0, 2.0]})


def test_parameters_of_a_twin_are_its_own():
    problem = own_problem()
    twin = problem.varying(parameters=[2.0, 0.3])
    assert problem.dynamics.parameters.tolist() == [1.0, 0.1]
    assert not same_solve(twin, problem)
    assert same_solve(pickle.loads(pickle.dumps(twin)), twin)


@pytest.mark.parametrize(("numbers", "words"), [
    ({"targt": 1.0}, "varying: the problem has no number 'targt'; did you mean 'target"),
    ({"mass": 1.0}, r"has no number 'mass'; did you mean 'masses'\?"),
    ({"terminal[0].targt": 1.0}, r"did you mean 'terminal\[0\].target'"),
    ({3: 1.0}, "varying: expected the name of a place, got 3"),
    ({"weights": 1.0}, r"varying: weights may be running\[0\].weights, running\[1\].weights, .*: say which"),
    ({"terminal[0].weights": -np.ones(6)}, r"terminal\[0\] \(FramePose\): weights: expected no negative weight"),
    ({"target": np.eye(3)}, r"terminal\[0\] \(FramePose\): target: expected shape \(4, 4\), got \(3, 3\)"),
    ({"target": 2.0 * np.eye(4)}, r"target: expected a pose \[R p; 0 1\]"),
    ({"x0": [0.0]}, r"x0: expected shape \(12,\)"),
    ({"control_limits": (1.0, -1.0)}, "control_limits: expected lower < upper"),
    ({"terminal[7].target": np.eye(4)}, "has no number"),
    ({"target": np.eye(4), "terminal[0].target": np.eye(4)}, r"terminal\[0\]\.target is given twice, by two names"),
    ({"masses": np.ones(6), "dynamics.masses": np.ones(6)}, r"dynamics\.masses is given twice, by two names"),
])  # fmt: skip
def test_what_cannot_vary_is_refused_by_name(reach, numbers, words):
    with pytest.raises(ddp.ProblemError, match=words):
        reach.varying(numbers)


def test_masses_that_no_body_has_are_refused(reach):
    with pytest.raises(ddp.ModelError, match=r"masses\[0\] \(shoulder_pan_joint\): expected a positive number \[kg\]"):
        reach.varying(masses=-reach.dynamics.masses)
    with pytest.raises(ddp.ProblemError, match="x0 is given twice"):
        reach.varying({"x0": reach.x0}, x0=reach.x0)
    with pytest.raises(ddp.ProblemError, match="numbers: expected a mapping of places to numbers, got 'x0'"):
        reach.varying("x0")


def test_a_solution_travels_without_its_problem(reach, solution):
    there = pickle.dumps(solution)
    arrays = sum(getattr(solution, name).nbytes for name in ("X", "U", "k", "K", "multipliers", "penalties"))
    assert len(there) <= arrays + 2000
    again = pickle.loads(there)
    assert again.problem is None
    assert again.history == solution.history
    assert again.status.ending is solution.status.ending
    with pytest.raises(ddp.ProblemError, match=r"solution\.attached\(problem\)"):
        again.stationarity()
    assert again.attached(reach).stationarity() == solution.stationarity()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_of_a_solution_keep_its_problem(reach, solution, copied):
    own = copied(solution)
    assert own.problem is solution.problem
    assert own is not solution
    assert own.stationarity() == solution.stationarity()
    assert (own.X is solution.X) == (copied is copy.copy)
    np.testing.assert_array_equal(own.policy(0.1, own.X[5]), solution.policy(0.1, solution.X[5]))


def test_a_solution_is_not_attached_to_a_problem_of_other_numbers(reach, solution):
    for other in (reach.varying(x0=reach.x0 + 0.1), reach.varying(target=np.eye(4))):
        with pytest.raises(ddp.ProblemError, match=r"problem: expected the one solved, .*: it"):
            solution.attached(other)


def test_a_solution_is_not_attached_to_a_problem_of_other_sizes(solution):
    with pytest.raises(ddp.ProblemError, match=r"problem: expected the one solved, X of \(101, 2\) there"):
        solution.attached(pendulum.swing_up())


@pytest.mark.parametrize("numbers", [{}, {"dynamics.masses": 2.0}])
def test_a_receding_horizon_goes_on_elsewhere_as_it_would_have_here(reach, numbers):
    with ddp.RecedingHorizon(reach) as controller:
        x = controller.solve(reach.x0).X[1]
        controller.vary({name: share * reach.number(name) for name, share in numbers.items()})
        with pickle.loads(pickle.dumps(controller)) as other:
            for _ in range(2):
                here, there = controller.solve(x), other.solve(x)
                assert np.array_equal(here.X, there.X)
                assert np.array_equal(here.K, there.K)
                x = here.X[1]


def test_a_target_alone_is_checked_as_by_the_constructor(reach):
    with pytest.raises(ddp.ProblemError, match="target: expected a pose"):
        reach.terminal[0].varied(target=np.zeros((4, 4)))
    assert isinstance(reach.terminal[0].varied(target=np.eye(4), weights=np.ones(6)), FramePose)


def test_a_problem_that_was_sent_is_the_problem(reach, solution):
    again = pickle.loads(pickle.dumps(reach))
    assert "model" not in vars(again.dynamics.robot)
    assert np.array_equal(ddp.solve(again).X, solution.X)
    assert np.array_equal(ddp.solve(again).K, solution.K)
    assert "model" not in vars(again.dynamics.robot)  # nothing but names and drawing asks for it
    assert again.dynamics.robot.name == "ur5"
    assert again.terminal[0].robot is again.dynamics.robot
    assert not again.x0.flags.writeable
    assert not again.running[1].weights.flags.writeable
    assert again.dynamics.robot.q0.flags.writeable
    assert np.array_equal(ddp.solve(pickle.loads(pickle.dumps(again))).X, solution.X)  # and on it goes


def test_a_process_solves_what_was_sent_without_pinocchio(tmp_path):
    aimed = arm.reach("ur5")
    aim = aimed.number("target") @ pin.exp6(np.array([0.05, -0.1, 0.02, 0.1, 0.0, -0.2])).homogeneous
    (tmp_path / "problem").write_bytes(pickle.dumps(aimed))
    np.save(tmp_path / "aim.npy", aim)
    code = (
        "import pickle, sys, ddp, numpy as np\n"
        "problem = pickle.load(open('problem', 'rb')).varying(target=np.load('aim.npy'))\n"
        "np.save('X.npy', ddp.solve(problem).X)\n"
        "sys.exit('pinocchio' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert np.array_equal(np.load(tmp_path / "X.npy"), ddp.solve(aimed.varying(target=aim)).X)


def test_doubts_about_what_is_sent_are_told_before(caplog):
    turned = arm.reach("ur5")
    turned = turned.starting_at(np.degrees(turned.x0))
    pickle.dumps(turned)
    assert "are these degrees?" in caplog.text
    caplog.clear()
    ddp.solve(pickle.loads(pickle.dumps(turned)), ddp.DDP(max_iterations=1), throw=False)
    assert not caplog.text


def test_a_gait_that_was_sent_is_the_gait():
    trot = gaits.trot("go2")
    there = pickle.dumps(trot)
    again = pickle.loads(there)
    here, other = ddp.solve(trot), ddp.solve(again)
    assert np.array_equal(here.X, other.X)
    assert np.array_equal(here.K, other.K)
    assert again.dynamics.phases[0].contacts[0].frame == trot.dynamics.phases[0].contacts[0].frame
    x, y = (one.varying(friction=0.5).values(here.X, 3.0 * here.U) for one in (trot, again))
    assert np.array_equal(x, y)
    recorded = 8 * trot.dynamics.record_size * trot.horizon
    assert len(pickle.dumps(trot)) < len(there) + 0.1 * recorded  # by each force, of which little is sent


def test_forces_that_were_sent_are_recorded_again_for_their_derivatives():
    trot = gaits.trot("go2")
    forces = pushes(trot.dynamics, trot.dynamics.phases[0].contacts)
    X, U = (np.repeat(one[:1], 3, axis=0) for one in trot.guess)
    values, weights = forces.values(X, U), np.ones((3, forces.size))
    again = pickle.loads(pickle.dumps(forces))
    assert np.array_equal(again.values(X, U), values)
    for here, there in zip(*(one.derivatives(X, U, weights, True) for one in (forces, again)), strict=True):
        assert np.array_equal(here, there)


def test_what_terms_have_bound_is_sent_with_them(reach):
    known = pickle.loads(pickle.dumps(reach)).objective
    assert all("compiled" in vars(entry.term) for entry in known.entries)
    other = copy.copy(known.entries[0].term)
    assert "compiled" not in vars(other)  # copies may be changed


def test_a_process_solves_a_gait_that_was_sent_without_pinocchio():
    code = "import pickle, sys, ddp\nddp.solve(pickle.load(sys.stdin.buffer))\nsys.exit('pinocchio' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(gaits.trot("go2")), check=True)


def test_problems_that_another_version_wrote_are_refused(reach):
    there = pickle.dumps(reach)
    other = there.replace(edition().encode(), b"0" * len(edition()))
    assert other != there
    with pytest.raises(ddp.ProblemError, match="another version of mayne wrote this pickle"):
        pickle.loads(other)


def test_a_struct_that_was_sent_can_be_changed(reach):
    tree = pickle.loads(pickle.dumps(reach)).dynamics.robot.tree
    heavier = tree.replace(inertia=2.0 * tree.inertia)
    assert np.array_equal(heavier.inertia, 2.0 * reach.dynamics.robot.tree.inertia)
    assert heavier.weightless.equals(reach.dynamics.robot.tree.weightless)
    tree.armature = np.ones(6)
    assert tree.armature.tolist() == [1.0] * 6


def test_copies_of_problems_are_problems(reach, solution):
    sent = pickle.loads(pickle.dumps(reach))
    for other in (copy.copy(reach), copy.deepcopy(reach), copy.copy(sent), copy.deepcopy(sent)):
        assert np.array_equal(ddp.solve(other).X, solution.X)
    own = ddp.Problem(
        dynamics.FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1), [Effort(1.0)], [Slope(np.ones(1))], np.zeros(1), 5
    )
    assert np.array_equal(ddp.solve(copy.deepcopy(own)).X, ddp.solve(own).X)
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(own)


def test_numbers_that_kernels_have_cannot_be_written_to_in_deep_copies(reach):
    copied = copy.deepcopy(reach)
    for numbers in (copied.x0, copied.lower, copied.running[0].weights, copied.terminal[1].weights):
        with pytest.raises(ValueError, match="read-only"):
            numbers[:] = 0.0


def test_deep_copies_do_not_follow_what_users_write_behind_their_views():
    goal, system = np.ones(2), dynamics.FunctionDynamics(lambda x, u: x + 0.1 * u, 2, 2)
    own = ddp.Problem(system, [Effort(1.0)], [Slope(np.broadcast_to(goal, 2))], np.zeros(2), 5)
    copied = copy.deepcopy(own).terminal[0].goal
    goal[:] = 2.0
    assert copied.tolist() == [1.0, 1.0]
    assert not copied.flags.writeable


@pytest.mark.parametrize("build", [arm.reach, cartpole.swing_up, pendulum.swing_up, quadrotor.loop])
def test_solves_in_the_memory_of_others_leave_no_trace(build):
    problem, name = build(), "terminal[0].weights"
    weights = [scale * problem.number(name) for scale in (1.0, 0.5, np.arange(len(problem.number(name))) % 2, 2.0)]
    twins = [problem.varying({name: w}) for w in weights]
    for twin in [*twins, *twins[::-1]]:
        here, alone = ddp.solve(twin, throw=False), ddp.solve(copy.deepcopy(twin), throw=False)
        assert here.iterations == alone.iterations
        assert np.array_equal(here.X, alone.X)
        assert np.array_equal(here.K, alone.K)


def test_what_is_of_the_main_script_is_sent_by_who_knows_how(monkeypatch):
    cloudpickle = pytest.importorskip("cloudpickle")
    monkeypatch.setattr(Effort, "__module__", "__main__")
    problem = own_problem()
    there = cloudpickle.dumps(problem)
    *_, state = problem.__reduce__()
    assert isinstance(state, dict)  # no parcel, which would look for Effort in the main script of whoever receives it
    again = pickle.loads(there)
    assert np.array_equal(ddp.solve(again).X, ddp.solve(problem).X)


def test_a_term_that_stands_in_two_places_varies_where_it_is_said():
    once = arm.reach("ur5", horizon=5)
    twice = replace(once, running=[*once.running, once.terminal[0]])
    X, U = np.repeat(once.x0[None], 6, axis=0), np.zeros((5, 6))
    running = {"running[2].weights": np.ones(6)}
    for numbers in (running, {**running, "terminal[0].weights": np.zeros(6)}):
        other = twice.varying(numbers)
        assert other.cost(X, U) == pytest.approx(replace(other).cost(X, U), rel=1e-12)
        assert all(one is its for one, its in zip(common(other), common(twice), strict=True))


def test_costs_read_other_masses_and_keep_their_frames(reach):
    def terms(robot):
        com = CenterOfMass(robot, np.zeros(3), 1.0)
        return [com, FrameVelocity(robot, "tool0", np.ones(6), 1.0), FramePosition(robot, "tool0", np.zeros(3), 1.0)]

    problem = replace(reach, running=terms(reach.dynamics.robot))
    other = problem.varying({"dynamics.masses": reach.number("dynamics.masses") * [1.0, 3.0, 1.0, 1.0, 1.0, 1.0]})
    robot = other.dynamics.robot
    assert same_solve(other, replace(other, running=terms(dynamics.Robot(robot.model))))
    assert all(term.robot is robot for term in other.running)
    assert branch(robot, "tool0") is branch(reach.dynamics.robot, "tool0")


def test_frames_of_robots_of_other_masses_are_their_own(reach):
    light, heavy = (reach.dynamics.robot.with_masses(by * reach.dynamics.masses) for by in (0.9, 1.1))
    for robot, z in ((light, 0.1), (heavy, 0.5)):
        place = pin.SE3(np.eye(3), np.array([0.0, 0.0, z]))
        robot.model.addFrame(pin.Frame("grip", 6, 0, place, pin.FrameType.OP_FRAME))
        assert branch(robot, "grip").placement[-1] == z
    assert not reach.dynamics.robot.has_frame("grip")


def test_soft_constraints_read_other_masses(reach):
    def soft(robot):
        return ddp.Soft(CenterOfMassLimits(robot, upper=np.full(3, 0.01)), 1.0, "L2")

    problem = replace(reach, constraints=[soft(reach.dynamics.robot)])
    other = problem.varying({"dynamics.masses": reach.number("dynamics.masses") * [1.0, 3.0, 1.0, 1.0, 1.0, 1.0]})
    anew = replace(other, constraints=[soft(other.dynamics.robot)])
    X, U = np.repeat(reach.x0[None], reach.horizon + 1, axis=0), np.zeros((reach.horizon, 6))
    seen = other.rows.values(X, U)
    assert np.array_equal(seen, anew.rows.values(X, U))
    assert np.abs(seen - problem.rows.values(X, U)).max() > 1e-3


@pytest.mark.parametrize("name", ["dynamics.masses", "margin"])
def test_constraints_that_stand_in_two_places_hold_once_at_the_end(name):
    problem = arm.obstacles()
    assert problem.constraints[0] is problem.terminal_constraints[0]
    other = problem.varying({name: 1.1 * problem.number(name) + 1e-3})
    assert other.constraints[0] is other.terminal_constraints[0]
    assert other.rows.size == problem.rows.size
    with pytest.raises(ddp.ProblemError, match="constraints with 1509 rows, as they have now, got 1512: where"):
        ddp.solve_many(problem, {"constraints[0].margin": np.zeros(2)}, executor=1)


@pytest.mark.parametrize("limited", [
    lambda robot: CenterOfMassLimits(robot, upper=[np.inf, np.inf, 0.3]),
    lambda robot: FramePositionLimits(robot, "tool0", lower=[-np.inf, -np.inf, 0.1]),
    lambda robot: FrameVelocityLimits(robot, "tool0", upper=[np.inf, np.inf, 1.0, 1.0, 2.0, 1.0]),
    lambda robot: JointLimits(robot, -2.0, [np.inf, 2.0, 2.0, np.inf, 2.0, 2.0]),
    lambda robot: JointLimits(robot, upper=[2.0, np.inf, 2.0, np.inf, 2.0, 1.0], lower=-np.inf),
])  # fmt: skip
def test_limits_of_which_some_are_infinite_vary(reach, limited):
    problem = replace(reach, constraints=[limited(reach.dynamics.robot)])
    X, U = np.repeat(reach.x0[None], reach.horizon + 1, axis=0), np.zeros((reach.horizon, 6))
    heavy = problem.varying({"dynamics.masses": 2.0 * reach.number("dynamics.masses")})
    anew = replace(heavy, constraints=[limited(heavy.dynamics.robot)])
    assert np.array_equal(heavy.rows.values(X, U), anew.rows.values(X, U))
    assert np.array_equal(heavy.rows.upper, anew.rows.upper)
    lower = problem.varying({"constraints[0].upper": problem.number("constraints[0].upper") - 0.01})
    finite = np.isfinite(problem.rows.upper)
    np.testing.assert_allclose(lower.rows.upper[finite], problem.rows.upper[finite] - 0.01)


def test_limits_of_the_joints_of_a_floating_robot_vary_with_masses():
    problem = quadruped.reorientation()
    problem = replace(problem, constraints=[JointLimits(problem.dynamics.robot)])
    heavy = problem.varying({"dynamics.masses": 2.0 * problem.number("dynamics.masses")})
    assert np.array_equal(heavy.constraints[0].upper, problem.constraints[0].upper)
