"""Postures of strides: feet where they should be, or as near as legs reach."""

import numpy as np
import pinocchio as pin
import pytest
import scipy.optimize

from dynamics import load
from problems import legs
from problems.strides import follow


@pytest.fixture(scope="module", params=["solo12", "laikago", "hyq"])
def stance(request):
    return legs.stance(load(request.param))


def errors(stance, q, targets):
    """How far feet are from their targets, in a row [m]."""
    data = stance.robot.model.createData()
    pin.framesForwardKinematics(stance.robot.model, data, q)
    found = np.array([data.oMf[stance.robot.frame_id(foot)].translation for foot in targets])
    return (found - [there.translation for there in targets.values()]).ravel()


@pytest.mark.parametrize("away", [0.01, 0.1, 0.4])
def test_feet_whose_legs_do_not_reach_come_as_near_as_they_can_without_turning_round(stance, away):
    """SciPy's least squares within the ranges of joints do not come nearer."""
    rng, robot = np.random.default_rng(0), stance.robot
    lower, upper = np.clip(robot.ranges[0][7:], -10.0, 10.0), np.clip(robot.ranges[1][7:], -10.0, 10.0)
    for _ in range(3):
        places = stance.places + away * stance.height * rng.normal(size=stance.places.shape)
        targets = {foot: pin.SE3(np.eye(3), place) for foot, place in zip(stance.feet, places, strict=True)}
        q = follow(stance, stance.q, targets)
        assert np.array_equal(q[:7], stance.q[:7])

        def left(joints, targets=targets):
            return errors(stance, np.append(stance.q[:7], joints), targets)

        within = np.clip(stance.q[7:], lower + 1e-6, upper - 1e-6)
        best = scipy.optimize.least_squares(left, within, bounds=(lower, upper), xtol=1e-12, ftol=1e-12)
        assert np.linalg.norm(left(q[7:])) <= 1.25 * np.sqrt(2.0 * best.cost) + 1e-6
        assert (np.clip(q[7:], lower, upper) == q[7:]).all()
        assert np.abs(q[7:] - stance.q[7:]).max() < 2.0 * np.pi
