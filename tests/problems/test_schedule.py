"""Schedules of gaits, standing and strides: who stands when, where feet land, and what is refused."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

import ddp
from ddp.errors import ProblemError
from dynamics.quantities.quantities import frame_position
from dynamics.robots.model import load
from problems import gaits, legged, legs, schedule, strides
from problems.schedule import Schedule

FEET = {"LF": "a", "RF": "b", "LH": "c", "RH": "d"}
QUADRUPEDS = ["hyq", "anymal", "solo12", "a1", "go1", "go2", "b1"]


def gait_of(name, *times, corners=FEET, **flight):
    return schedule.cycling([*corners.values()], schedule.in_turn(corners, name), *times, **flight)


@pytest.fixture(scope="module")
def stances():
    return {name: legs.stance(load(name)) for name in (*QUADRUPEDS, "talos_legs")}


@pytest.mark.parametrize("name", QUADRUPEDS)
def test_feet_are_found_and_are_at_the_corners(stances, name):
    stance = stances[name]
    corners = stance.corners()
    assert sorted(corners.values()) == sorted(stance.feet)
    left, fore = stance.place(corners["LF"]) - stance.place(corners["RF"]), stance.place(corners["LF"])
    assert left[1] > 0.1
    assert (fore - stance.place(corners["LH"]))[0] > 0.1
    assert stance.mass == pytest.approx(pin.computeTotalMass(stance.robot.model))
    assert not stance.surface


def test_a_biped_stands_on_soles(stances):
    assert stances["talos_legs"].surface
    assert stances["talos_legs"].sides() == {"L": "left_sole_link", "R": "right_sole_link"}


@pytest.mark.parametrize(
    ("gait", "groups"), [("walk", "d b c a"), ("trot", "bc ad"), ("pace", "bd ac"), ("bound", "ab cd")]
)
def test_groups_swing_one_after_the_other_and_all_stand_in_between(gait, groups):
    plan = gait_of(gait, 0.3, 0.1, 2)
    swings = [set("abcd") - set(phase.stance) for phase in plan.phases]
    assert swings[::2] == [set()] * len(swings[::2])
    assert swings[1::2] == 2 * [set(group) for group in groups.split()]
    assert plan.duration == pytest.approx(0.3 * len(swings[1::2]) + 0.1 * len(swings[::2]))
    assert not plan.flights


def test_feet_that_stood_before_do_not_land():
    plan = gait_of("trot", 0.3, 0.0)
    assert plan.landing(0) == ()
    assert plan.landing(1) == ()
    assert set(plan.landing(2)) == {"b", "c"}
    assert set(plan.swinging(2)) == {"a", "d"}
    assert set(plan.landing(3)) == {"a", "d"}


def test_flags_say_who_stands_at_each_step():
    plan = schedule.jump("abcd", 0.3, 0.2, 0.1)
    flags = plan.flags(0.1)
    for foot in "abcd":
        np.testing.assert_array_equal(flags[foot], [1, 1, 1, 0, 0, 1])


def test_a_flight_is_allowed_and_said(caplog):
    with caplog.at_level(logging.INFO, logger="mayne"):
        plan = schedule.jump("abcd", 0.3, 0.2, 0.1)
    assert plan.flights == (1,)
    assert "nothing supports the robot in phase 1 (0.2 s): it flies" in plan.description
    assert plan.description in caplog.text
    assert "flies" not in schedule.stand("abcd", 1.0).description
    assert gait_of("bound", 0.3, 0.1, flight=0.05).flights == (2,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schedule("ab", [(["a", "c"], 0.1)]), r"phases\[0\]: there is no foot 'c'"),
        (lambda: Schedule("ab", [(["a", "a"], 0.1)]), r"phases\[0\]: 'a' is listed 2 times"),
        (lambda: Schedule("ab", [("a", 0.1), ("a", 0.0)]), r"duration of phases\[1\]: .* positive"),
        (lambda: Schedule("ab", [("a", -1.0)]), r"duration of phases\[0\]"),
        (lambda: Schedule("ab", []), "phases: expected at least one"),
        (lambda: Schedule("aa", [("a", 1.0)]), "feet: expected at least one name, each once"),
        (lambda: Schedule("ab", ["a"]), r"phases\[0\]: expected \(who stands, duration\)"),
        (lambda: schedule.cycling("ab", ["c"], 0.1, 0.1), r"groups\[0\]: expected feet of \('a', 'b'\)"),
        (lambda: schedule.cycling("ab", ["a"], 0.1, -0.1), "support"),
        (lambda: schedule.in_turn({"LF": "a"}, "walk"), "corners: expected LF, RF, LH and RH"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_named(make, message):
    with pytest.raises(ProblemError, match=message):
        make()


def test_what_is_wrong_with_feet_is_named(stances):
    robot = stances["go2"].robot
    raised = robot.q0.copy()
    raised[2] += 0.05
    for message, arguments in {
        "feet: go2 has no frame 'FL_fot'; did you mean 'FL_foot'": {"feet": ["FL_fot"]},
        "'FL_foot' is listed 2 times": {"feet": ["FL_foot", "FL_foot"]},
        "feet: expected the name": {"feet": []},
        r"the foot 'FL_foot' is 0\.0\d+ m above the ground at the start": {"ground": 0.0},
        "the foot 'FL_foot' is 0.1 m below the ground at the start": {"ground": float(stances["go2"].ground[0]) + 0.1},
    }.items():
        with pytest.raises(ProblemError, match=message):
            legs.stance(robot, **arguments)
    with pytest.raises(ProblemError, match="expected legs"):
        legs.stance(load("ur5"))
    assert legs.stance(robot, q0=raised, ground=float(stances["go2"].ground[0]) + 0.05).height > 0.2


def placed(stance, x, foot):
    model, data = stance.robot.model, stance.robot.model.createData()
    pin.framesForwardKinematics(model, data, x[: model.nq])
    return data.oMf[stance.robot.frame_id(foot)]


@pytest.mark.parametrize("name", ["go2", "talos_legs"])
def test_nominal_postures_have_their_feet_where_they_should_be(stances, name):
    stance = stances[name]
    groups = [[stance.feet[0]], [stance.feet[-1]]]
    plan = schedule.cycling(stance.feet, groups, 0.3, 0.1)
    moving = strides.straight((0.2, 0.02), 0.3, 0.1, plan.duration - 0.1)
    laid = strides.lay_out(stance, plan, 0.02, moving, 0.04)
    assert len(laid.X) == sum(laid.counts) + len(laid.impacts) + 1
    top = {}
    for i in range(len(laid.counts)):
        for m, k in enumerate(laid.knots(i)):
            for foot, hold in laid.holds[i].items():
                np.testing.assert_allclose(placed(stance, laid.X[k], foot).translation, hold.translation, atol=1e-6)
            for foot, path in laid.paths(i).items():
                np.testing.assert_allclose(placed(stance, laid.X[k], foot).translation, path[m], atol=1e-6)
                top[foot] = max(top.get(foot, 0.0), path[m, 2] - stance.place(foot)[2])
        for foot in laid.schedule.landing(i):
            before = laid.paths(i - 1)[foot]
            assert np.linalg.norm(before[-1] - laid.holds[i][foot].translation) < 0.02
            if stance.surface:
                turned = placed(stance, laid.X[laid.starts[i]], foot)
                np.testing.assert_allclose(turned.rotation, laid.holds[i][foot].rotation, atol=1e-5)
    assert top == pytest.approx(dict.fromkeys(top, 0.04), rel=0.05)


def test_feet_end_below_the_body_as_they_started(stances):
    stance = stances["hyq"]
    plan = gait_of("trot", 0.3, 0.1, 2, corners=stance.corners())
    plan = Schedule(stance.feet, plan.phases)
    laid = strides.lay_out(stance, plan, 0.02, strides.straight((0.3, 0.1), 0.4, 0.1, plan.duration - 0.1), 0.05)
    moved = pin.exp6(pin.Motion(np.array([0.3, 0.1, 0.0]), np.array([0.0, 0.0, 0.4])) * (plan.duration - 0.2))
    for foot, hold in laid.holds[-1].items():
        np.testing.assert_allclose(hold.translation, moved.act(stance.place(foot)), atol=1e-12)
    assert laid.X[-1][3:7] == pytest.approx(pin.Quaternion(moved.rotation).coeffs(), abs=1e-12)


@pytest.mark.parametrize(("robot", "height"), [("go2", 0.06), ("a1", -0.06)])
def test_a_trot_goes_up_and_down_a_step(robot, height):
    stand = legs.stance(load(robot))
    plan = schedule.cycling(stand.feet, schedule.in_turn(stand.corners(), "trot"), 0.25, 0.05, cycles=4)
    ahead = strides.straight((0.3, 0.0), 0.0, start=0.05, end=plan.duration - 0.05)

    def rise(t):
        return pin.SE3(np.eye(3), np.array([0.0, 0.0, height * min(t / plan.duration, 1.0)]))

    def ground(x, y):
        return height if x > 0.27 else 0.0

    laid = strides.lay_out(stand, plan, 0.02, ahead, 0.1, rise, ground)
    solution = ddp.solve(legged.legged(laid))
    for k, on in ((0, 0.0), (-1, height)):
        for foot, place in zip(stand.feet, stand.places, strict=True):
            there = frame_position(stand.robot, solution.X[k, : stand.robot.nq], foot)
            assert there[2] == pytest.approx(place[2] + on, abs=1e-5)
    single = {name: getattr(solution, name).astype(np.float32).astype(np.float64) for name in ("X", "U")}
    assert replace(solution, **single).attached(solution.problem).cost == solution.cost  # of quaternions of unit length
    swings = [pose.translation for paths in laid.swings for path in paths.values() for pose in path]
    assert all(place[2] >= stand.places[:, 2].min() + ground(*place[:2]) for place in swings)
    with pytest.raises(ProblemError, match=r"ground: expected a function of x and y, got 0\.06"):
        strides.lay_out(stand, plan, 0.02, ahead, 0.1, rise, 0.06)
    with pytest.raises(ProblemError, match=r"ground: expected 0 where feet stand at first, got 0\.1 m at"):
        strides.lay_out(stand, plan, 0.02, ahead, 0.1, rise, lambda x, y: 0.1)


def test_phases_that_coarse_steps_make_longer_or_shorter_are_told_once(caplog):
    plan = Schedule(["a", "b"], [(["a", "b"], 0.5), (["a"], 0.03125), (["b"], 0.25)])
    assert plan.knots(0.0625) == [8, 1, 4]
    assert plan.knots(0.0625) == [8, 1, 4]
    assert caplog.messages == ["dt = 0.0625 s is coarse: phases[1] of 0.0312 s lasts 0.0625 s, 1 of its steps"]
    assert plan.knots(0.03125) == [16, 1, 8]
    gaits.trot("go2")  # whose supports of 34.6 ms last 30 ms
    assert len(caplog.messages) == 1
