"""Forces of the ground on contacts of all kinds, in whatever axes they are expressed, move the robot as it moves."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import random_placement, random_state, random_tree

import dynamics
from dynamics import Contact, Phase, PhasedDynamics
from dynamics.contacts.contact import are_regular

KINDS = {
    "point": lambda pose: {"target": pose.translation, "reference": "local"},
    "surface": lambda pose: {"target": pose},
    "rolling": lambda pose: {"radius": 0.2, "axis": (0.3, 1.0, 0.2), "normal": (0.1, -0.2, 1.0), "slides": 0.4},
}


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("kinds", [("surface", "point"), ("rolling", "surface"), ("rolling", "point")])
def test_forces_on_all_contacts_drive_the_base_of_a_floating_robot(kinds, held):
    checked = 0
    for seed in (57, 109, 5, 7, 9, 11):
        model, rng = random_tree(seed, bodies=5).model, np.random.default_rng(seed)
        frames = rng.permutation(np.arange(1, model.njoints))[:2].tolist()
        for k in frames:
            model.addFrame(pin.Frame(f"foot{k}", k, 0, random_placement(rng), pin.OP_FRAME))
        robot = dynamics.load(model)
        q, v, tau = random_state(robot, rng, 0.0)
        poses = [pin.SE3(dynamics.frame_placement(robot, q, f"foot{k}")) for k in frames]
        pairs = zip(frames, kinds, poses, strict=True)
        contacts = [Contact(f"foot{k}", kind, **KINDS[kind](pose)) for k, kind, pose in pairs]
        if not are_regular(robot, contacts) or (held and "rolling" in kinds):
            continue
        phase, U = Phase(contacts, 2, held=held), tau[None, 6:]  # of the first knot alone
        system = PhasedDynamics(robot, 1e-4, phase, np.eye(robot.nv)[:, 6:])
        X = system.rollout(np.concatenate([q, v]), U)
        a = (X[1, robot.nq :] - v) / system.dt
        forces = dynamics.ground_forces(system, X, U)
        total = sum(forces[contact.frame][0] for contact in contacts)
        data = model.createData()
        pin.forwardKinematics(model, data, q)
        needed = data.oMi[1].rotation @ dynamics.inverse_dynamics(robot, q, v, a)[:3]
        np.testing.assert_allclose(total, needed, atol=1e-7 * np.abs(needed).max())
        checked += 1
    assert checked > 1 or (held and "rolling" in kinds)
