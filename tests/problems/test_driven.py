"""Robots that are pushed and steered while they plan again do what is asked, stay up, and move as without a person."""

from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin
import pytest

import ddp
import dynamics
import problems
from problems import arm
from problems.command.replanning import chasing, controller_of
from problems.play.policies import Motors


class Person:
    """A person as a script: what is done, by looks."""

    def __init__(self, *acts):
        self.watching, self.hand, self.command, self.target = True, None, np.zeros(3), None
        self.numbers = {}
        self.acts, self.shown, self.kicks, self.again = list(acts), [], [], False

    def asked(self):
        act = self.acts.pop(0) if self.acts else {}
        for name, value in act.items():
            setattr(self, name, value)
        return act.get("kicks", []), act.get("again", False)

    def show(self, q, told, arrow, target):
        self.shown.append((q, told, arrow, target))


class Hand:
    def __init__(self, joint, point, toward):
        self.joint, self.point, self.toward = joint, np.array(point), np.array(toward)


@pytest.fixture(scope="module")
def walking():
    with problems.Walking("solo12", latency=0.02) as made:
        yield made


def test_without_a_person_it_moves_as_a_simulated_receding_horizon(walking):
    driven = problems.Driven(walking)
    driven.command((0.2, 0.0, 0.1))
    driven.advance(0.4)
    run = problems.simulate_receding(walking, 0.4, (0.2, 0.0, 0.1), every=0.04, rate=500.0)
    np.testing.assert_array_equal(driven.x, run.play.X[-1])
    assert driven.t == pytest.approx(0.4)


def test_a_push_moves_it_and_it_stays_on_its_feet(walking):
    driven = problems.Driven(walking)
    driven.advance(0.3)
    calm = driven.x
    driven.restart()
    driven.advance(0.2)
    driven.kick((0.0, 1.0, 0.0))
    at, force = driven.arrow
    assert np.linalg.norm(force) == pytest.approx(0.4 * driven.weight)
    assert np.linalg.norm(at - driven.x[:3]) < driven.size
    driven.advance(0.1)
    nv = driven.robot.nq
    speed = 0.4 * 9.81 * 0.1  # of all of it, if nothing resisted
    assert 0.2 * speed < (driven.x - calm)[nv + 1] < 1.5 * speed
    assert driven.arrow is None
    driven.advance(1.0)
    assert not driven.fell
    assert abs(driven.x[nv + 1]) < 0.3 * speed


def test_a_hand_pulls_like_a_spring_that_is_never_stronger_than_three_tenths_of_the_weight(walking):
    driven = problems.Driven(walking)
    here = driven.x[:3]
    driven.pull(1, (0.0, 0.0, 0.0), here + np.array([0.01, 0.0, 0.0]))
    np.testing.assert_allclose(driven.arrow[1], [0.01 * driven.stiffness, 0.0, 0.0], atol=1e-9)
    driven.pull(1, (0.0, 0.0, 0.0), here + np.array([0.0, 0.0, 100.0]))
    np.testing.assert_allclose(driven.arrow[1], [0.0, 0.0, 0.3 * driven.weight], atol=1e-9)
    driven.release()
    assert driven.arrow is None


def test_a_person_pulls_steers_and_starts_again(walking):
    driven = problems.Driven(walking)
    person = Person(
        {"command": np.array([1.0, 0.0, 0.0])}, *[{}] * 8, {"hand": Hand(1, [0.0, 0.0, 0.0], [0.3, 0.1, 0.2])}, {},
        {"hand": None, "kicks": [np.array([0.0, 1.0, 0.0])]}, {"again": True, "command": np.zeros(3)},
    )  # fmt: skip
    driven.play(person, 0.26)
    told = [line for _, line, _, _ in person.shown]
    assert len(told) == 13
    assert f"forward {driven.fastest[0]:.2f}" in told[3]
    assert [arrow is not None for _, _, arrow, _ in person.shown] == [False] * 9 + [True] * 3 + [False]
    assert "pushed with" in told[9]
    assert person.shown[8][0][0] > person.shown[0][0][0]  # it walked
    assert driven.t == pytest.approx(0.02)


def test_a_robot_that_was_thrown_over_says_so_and_starts_again(walking):
    driven = problems.Driven(walking)
    driven._data.qpos[3:7] = 0.0, 1.0, 0.0, 0.0  # on its back, no lower than it stood
    person = Person(*[{}] * 3, {"again": True})
    driven.play(person, 0.06)
    assert driven.fell
    assert person.shown[-1][1] == "it fell; start again"
    assert driven.t == pytest.approx(0.002)
    driven.restart()
    assert not driven.fell


def test_nothing_moves_while_nobody_watches(walking):
    driven, person = problems.Driven(walking), Person()
    looks = iter([False, False, True])

    class Late(Person):
        watching = property(lambda self: next(looks, True), lambda self, value: None)

    person = Late()
    driven.play(person, 0.02)
    assert len(person.shown) == 1


def test_controls_that_last_longer_than_a_look_take_the_time_that_is_asked_for(walking):
    driven, person = problems.Driven(walking, rate=30.0), Person()
    driven.play(person, 0.1)
    assert driven.t == pytest.approx(0.1)
    assert len(person.shown) == 3


def test_weights_of_a_gait_change_the_next_plans_and_come_back(walking):
    driven, before = problems.Driven(walking), walking.windows.terms.weights
    assert driven.weights == {name: value for name, value in vars(before).items() if value > 0.0}
    driven.command((0.3, 0.0, 0.0))
    driven.advance(0.3)
    same = driven.x
    driven.restart()
    driven.command((0.3, 0.0, 0.0))
    driven.play(Person({"command": np.zeros(3)}, {"numbers": {"rotation": 0.3, "torque": 10.0}}), 0.04)
    assert (walking.windows.terms.weights.rotation, walking.windows.terms.weights.torque) == (0.3, 10.0)
    driven.command((0.3, 0.0, 0.0))
    driven.advance(0.3)
    driven.restart()
    assert driven.weights["torque"] == 10.0  # they stay
    driven.advance(0.1)
    heavy = np.abs(walking.last.solution.U).mean()
    driven.weigh({"rotation": before.rotation, "torque": before.torque})
    assert walking.windows.terms.weights == before
    driven.restart()
    driven.advance(0.1)
    assert np.abs(walking.last.solution.U).mean() > 1.001 * heavy
    driven.restart()
    driven.command((0.3, 0.0, 0.0))
    driven.advance(0.3)
    np.testing.assert_array_equal(driven.x, same)


def test_weights_of_a_problem_are_named_as_in_explanations_and_keep_their_proportions():
    problem = chasing(arm.reach("ur5", horizon=10))
    with ddp.RecedingHorizon(problem, ddp.ILQR(max_iterations=2)) as controller:
        driven = problems.Driven(controller)
        driven.advance(0.02)
        explained = {name for name, _ in controller.solution.explain().shares}
        assert set(driven.weights) == explained
        driven.weigh({"running[1] StateCost": 1.0})  # 0.01 on postures, 0.1 on speeds
        np.testing.assert_allclose(controller.problem.number("running[1].weights"), np.repeat([0.1, 1.0], 6))
        driven.weigh({"running[2] FramePose of tool0": 1e5})
        assert driven.weights["terminal[0] FramePose of tool0"] == 1e3  # of the same object, which stands twice
        assert controller.problem.number("terminal[0].weights").max() == 1e3
        X, U = np.repeat(problem.x0[None], 11, axis=0), np.zeros((10, 6))
        anew = controller.problem
        anew = ddp.Problem(anew.dynamics, anew.running, anew.terminal, anew.x0, anew.horizon)
        assert controller.problem.cost(X, U) == pytest.approx(anew.cost(X, U), rel=1e-12)
        driven.advance(0.1)
        assert not driven.fell


def place(driven, frame):
    model = driven.robot.model
    data = model.createData()
    pin.framesForwardKinematics(model, data, driven.q)
    return data.oMf[model.getFrameId(frame)].translation


def test_an_arm_follows_its_target_and_resists_a_pull():
    problem = chasing(arm.reach("ur5", horizon=40))
    with ddp.RecedingHorizon(problem, ddp.ILQR(max_iterations=2), latency=0.02) as controller:
        driven = problems.Driven(controller)
        first = driven.target
        driven.advance(1.5)
        assert np.linalg.norm(place(driven, "tool0") - first) < 0.02
        driven.pull(6, (0.0, 0.0, 0.0), place(driven, "tool0") + np.array([0.0, 0.0, 0.1]))
        driven.advance(0.5)
        pulled = np.linalg.norm(place(driven, "tool0") - first)
        assert 1e-3 < pulled < 0.05
        driven.release()
        moved = first + np.array([0.1, -0.1, 0.1])
        driven.play(Person({"target": moved}), 1.5)
        np.testing.assert_allclose(driven.target, moved)
        assert np.linalg.norm(place(driven, "tool0") - driven.target) < 0.02


def test_a_target_is_chased_beside_another_that_terms_of_the_same_class_have():
    @dataclass
    class Aim:
        target: np.ndarray

        def value(self, x, u):
            return ((x[:6] - self.target) ** 2).sum()

    plain, end = arm.reach("ur5", horizon=10), Aim(np.ones(6))
    problem = replace(plain, running=[*plain.running, Aim(np.zeros(6))], terminal=[end])
    assert len(chasing(problem).running) == len(problem.running) + 1


def test_targets_and_pulls_out_of_reach_end_nothing():
    problem = chasing(arm.reach("ur5", horizon=20))
    with ddp.RecedingHorizon(problem, ddp.ILQR(max_iterations=3)) as controller:
        driven = problems.Driven(controller)
        driven.pull(1, (0.0, 0.0, 0.0), np.full(3, 1e200))
        np.testing.assert_allclose(driven.arrow[1], 0.3 * driven.weight / np.sqrt(3.0))
        driven.release()
        driven.aim(np.full(3, 1000.0))
        driven.advance(0.16)
        assert not driven.fell
        driven.restart()
        driven._data.qvel[:] = 1e200  # as after a collision that no step follows
        person = Person()
        driven.play(person, 0.02)
        assert driven.fell
        assert driven.t == 0.002
        np.testing.assert_array_equal(driven.x, problem.x0)
        assert person.shown[-1][1] == "it fell; start again"


def test_a_target_that_is_dragged_far_and_fast_does_not_end_the_program(rng):
    with controller_of(problems.find("arm/obstacles").build(), 0.02, chasing) as controller:
        driven = problems.Driven(controller)
        home = driven.target
        person = Person(*[{"target": rng.uniform(-2.0, 2.0, 3) * 10.0 ** (k % 3)} for k in range(40)])
        driven.play(person, 0.8)
        assert len(person.shown) == 40
        driven._data.qvel[:] = 1e300  # too much for the numbers
        person = Person({}, {"target": home, "again": True})
        driven.play(person, 0.04)
        assert person.shown[0][1] == "it fell; start again"
        assert not driven.fell
        driven.advance(1.0)
        assert np.linalg.norm(place(driven, "tool0") - home) < 0.02


def test_an_arm_among_obstacles_comes_back_from_wild_drags(rng):
    with controller_of(problems.find("arm/obstacles").build(), 0.02, chasing) as controller:
        driven = problems.Driven(controller)
        home = driven.target
        for k in range(30):
            if k % 3 == 0:
                driven.aim(home + rng.uniform(-0.5, 0.5, 3))
            if k % 10 == 5:
                driven.pull(int(rng.integers(2, 7)), np.zeros(3), rng.uniform(-1.0, 1.0, 3))
            if k % 10 == 7:
                driven.release()
            driven.advance(0.1)
        driven.aim(home)
        driven.advance(3.0)
        assert not driven.fell
        assert np.abs(driven.x[6:]).max() < 0.01
        assert np.linalg.norm(dynamics.frame_position(driven.robot, driven.q, "tool0") - home) < 0.01


def test_efforts_end_at_the_limits_of_the_robot_s_file():
    problem = arm.reach("ur5")
    motors, u = Motors(problem.dynamics), np.array([1.0, -2.0, 3.0, -4.0, 5.0, 6.0])
    np.testing.assert_array_equal(motors(u), u)
    most = problem.dynamics.robot.model.effortLimit
    np.testing.assert_array_equal(motors(1e3 * u), most * np.sign(u))


def test_efforts_of_leaders_end_at_the_limits_of_their_own_actuators():
    """Of three motors, the second drives the follower alone, which has no control."""
    robot = dynamics.load("""<mujoco><worldbody>
      <body name="one"><joint name="a" axis="0 1 0"/><geom size=".1"/>
        <body name="two" pos=".5 0 0"><joint name="b" axis="0 1 0"/><geom size=".1"/>
          <body name="three" pos=".4 0 0"><joint name="c" axis="0 1 0"/><geom size=".1"/></body></body></body>
    </worldbody><equality><joint joint1="b" joint2="c"/></equality><actuator>
      <motor joint="a" ctrlrange="-1 2"/><motor joint="b" ctrlrange="-3 4"/><motor joint="c" gear="3" ctrlrange="-5 6"/>
    </actuator></mujoco>""")
    system = dynamics.MimicDynamics(robot, 0.01)
    for copy in (system, system.varied(2.0 * system.masses)):
        np.testing.assert_array_equal(Motors(copy)(np.array([9.0, -9.0])), [2.0, 0.0, -15.0])
    own = dynamics.MimicDynamics(robot, 0.01, actuation=2.0 * np.eye(3)[:, :2])
    np.testing.assert_array_equal(Motors(own)(np.array([9.0, -9.0])), [18.0, -18.0, 0.0])


def test_what_cannot_be_is_refused(walking):
    driven = problems.Driven(walking)
    for act, words in (
        (lambda: problems.Driven(3), "planner"),
        (lambda: problems.Driven(walking, rate=1e-9), "rate: expected at least 25 Hz"),
        (lambda: driven.pull(99, np.zeros(3), np.zeros(3)), "joint"),
        (lambda: driven.kick(np.zeros(3)), "direction"), (lambda: driven.aim(np.zeros(3)), "place"),
        (lambda: driven.command((1.0, 2.0)), "command"), (lambda: driven.advance(-1.0), "duration"),
        (lambda: driven.weigh({"fot": 1.0}), "did you mean 'foot'"), (lambda: driven.weigh({"foot": 0.0}), "foot"),
        (lambda: driven.play(Person(), -1.0), "duration: expected at least 0"), (lambda: driven.weigh(3), "weights"),
        (lambda: driven.weigh({"foot": np.nan}), "foot"),
        (lambda: walking.vary({"fot": 1.0}), "did you mean 'foot'"), (lambda: walking.vary({"foot": -1.0}), "foot"),
    ):  # fmt: skip
        with pytest.raises(ddp.ProblemError, match=words):
            act()
