"""Robots and random states that the cost terms are tested on."""

from __future__ import annotations

import logging

import numpy as np
import pinocchio as pin
import pytest

from dynamics.robots.model import Robot, load


def mixed_tree() -> pin.Model:
    """A free-flyer with two branches of joints of every kind, a second free-flyer among them."""
    model = pin.Model()
    model.name = "mixed"
    rng = np.random.default_rng(7)

    def add(parent: int, joint: pin.JointModel, name: str) -> int:
        index = model.addJoint(parent, joint, pin.SE3.Random() if parent else pin.SE3.Identity(), name)
        model.appendBodyToJoint(index, pin.Inertia.Random(), pin.SE3.Identity())
        return index

    def axis() -> np.ndarray:
        a = rng.normal(size=3)
        return a / np.linalg.norm(a)

    pin.seed(7)
    root = add(0, pin.JointModelFreeFlyer(), "root")
    left = add(root, pin.JointModelRevoluteUnaligned(axis()), "left1")
    left = add(left, pin.JointModelRUBY(), "left2")
    left = add(left, pin.JointModelPrismaticUnaligned(axis()), "left3")
    left = add(left, pin.JointModelSpherical(), "left4")
    left = add(left, pin.JointModelHelicalUnaligned(axis(), 0.3), "left5")
    left = add(left, pin.JointModelPlanar(), "left6")
    right = add(root, pin.JointModelPZ(), "right1")
    right = add(right, pin.JointModelTranslation(), "right3")
    right = add(right, pin.JointModelRX(), "right2")
    right = add(right, pin.JointModelFreeFlyer(), "ball")
    for index, name in ((left, "left_tip"), (right, "right_tip")):
        model.addFrame(pin.Frame(name, index, pin.SE3.Random(), pin.FrameType.OP_FRAME))
    return model


@pytest.fixture(scope="session")
def robots() -> dict[str, Robot]:
    return {"ur5": load("ur5"), "hyq": load("hyq"), "mixed": load(mixed_tree())}


def random_state(robot: Robot, rng: np.random.Generator, speed: float = 3.0) -> np.ndarray:
    """x = (q, v), turning fast."""
    return np.concatenate([robot.random_configuration(rng), speed * rng.normal(size=robot.nv)])


@pytest.fixture(scope="module")
def quiet():
    """No warnings about robots in the log."""
    logging.getLogger("mayne").setLevel(logging.ERROR)
    yield
    logging.getLogger("mayne").setLevel(logging.NOTSET)
