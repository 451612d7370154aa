"""Steps of every mode give the same next states for floats, complex numbers, quads and lanes."""

from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from one_source import OTHERS, EveryNumber
from oracles import random_placement, random_tree, sprung
from thorough import cases

from ddp.compiling.kernel import kernel, specialised
from ddp.machine.number import lane_of
from dynamics import Contact, Phase, PhasedDynamics, RobotDynamics
from dynamics.steps.advance import advance_freely, advance_touching, free_scratch, touching_scratch
from dynamics.steps.implicit_steps import advance_implicitly, implicit_scratch
from dynamics.steps.modes import Modes
from dynamics.steps.schemes import INTEGRATORS

ROUNDING = 1e-12
"""Of next states, relative to the largest number: of trees whose mass matrix is as well conditioned as random ones'."""

IN_ROLLOUTS = cases(OTHERS, ("quads", "lanes"))
"""Numbers that steps are taken in: in the suite, those of rollouts."""

scratch: Any = free_scratch
advance: Any = advance_freely


def _next(x, y):
    """Write the next state, and working memory after it, of x: the address of modes, a mode, a state, a control."""
    modes, mode = Modes(int(lane_of(x[0], 0))), int(lane_of(x[1], 0))
    nx = modes.tree.nq + modes.tree.nv
    for i in range(nx):
        y[i] = x[2 + i]
    advance(modes, mode, y, x[2 + nx :], scratch(modes, mode, y[nx:]))


freely = kernel(specialised(_next, "freely"))
implicitly = kernel(specialised(_next, "implicitly", scratch=implicit_scratch, advance=advance_implicitly))
touching = kernel(specialised(_next, "touching", scratch=touching_scratch, advance=advance_touching))


def samples(system, count, rng):
    """Random states and controls of a system."""
    robot = system.robot
    Q = np.stack([robot.random_configuration(rng) for _ in range(count)])
    return np.hstack([Q, rng.normal(size=(count, robot.nv))]), rng.normal(size=(count, system.nu))


def all_agree(number, system, mode, X, U, others):
    """The next states by floats, after those by other numbers were found to be theirs."""
    head = np.tile([float(system._modes.address), float(mode)], (len(X), 1))
    number.m = system.nx + system._scheme.roller.size(system._tree, system._scheme.stages, 12, 24)
    given = np.hstack([head, X, U])
    expected = number.floats(given)[:, : system.nx]
    assert np.isfinite(expected).all()
    for other in others:
        found = number.of(other, given)[:, : system.nx]
        assert np.abs(found - expected).max() <= ROUNDING * np.abs(expected).max()
    return expected


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_steps_without_contacts_do_not_depend_on_the_kind_of_number(integrator, rng):
    implicit = INTEGRATORS[integrator].roller is INTEGRATORS["sdirk2"].roller
    number = EveryNumber(implicitly if implicit else freely, 0)
    for seed in range(cases(25, 8)):
        robot = random_tree(seed)
        system = RobotDynamics(sprung(robot, rng) if robot.nq == robot.nv else robot, 0.01, integrator=integrator)
        X, U = samples(system, 11, rng)
        assert np.abs(all_agree(number, system, 0, X, U, IN_ROLLOUTS) - system.step(X, U)).max() <= ROUNDING * 1e3


def phased(seed, rng):
    """A random tree that its last body's frame touches the world with: a step of time, one held, an impact."""
    robot = random_tree(seed, bodies=7)
    robot.model.addFrame(pin.Frame("tip", robot.model.njoints - 1, 0, random_placement(rng), pin.OP_FRAME))
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, robot.q0)
    there = data.oMf[robot.frame_id("tip")].translation.copy()
    touching, held = Contact("tip"), Contact("tip", target=there)
    phases = [Phase(touching, 1, impact=True, restitution=0.3), Phase(held, 1, held=True)]
    return PhasedDynamics(robot, 0.01, phases)


def test_steps_under_contacts_do_not_depend_on_the_kind_of_number(rng):
    number = EveryNumber(touching, 0)
    for seed in range(cases(25, 8)):
        system = phased(seed, rng)
        nq = system.robot.nq
        X, U = samples(system, 11, rng)
        X[:, :nq] = [
            pin.integrate(system.robot.model, system.robot.q0, 1e-3 * rng.normal(size=system.robot.nv)) for _ in X
        ]
        X[:, nq:] *= 0.1
        for knot, mode in enumerate(system.schedule):
            after = all_agree(number, system, mode, X, U, IN_ROLLOUTS)
            for x, u, mine in zip(X, U, after, strict=True):
                truth = system.step(x, u, knot)
                assert np.abs(mine - truth).max() <= ROUNDING * np.abs(truth).max()
