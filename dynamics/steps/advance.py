# mypy: allow-untyped-defs, allow-untyped-calls
"""Next states of knots of every mode, for any number.

A step of time is ``v' = v + h a``, ``q' = q ⊕ h v'`` with the acceleration of free motion, under contacts, or that of
held_steps.py; or one of the explicit steps of runge_kutta.py. An impact is ``v' = v⁺``, ``q' = q``, and its control
acts on nothing. Lanes that diverge become NaN and stay so; the others do not notice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.number import spread, square_root, where_less
from dynamics.contacts.contact import Contacts
from dynamics.contacts.kinematics import place_contacts
from dynamics.contacts.motion import push, push_size, respond_to_units, see_impact, see_motion, solve_contacts
from dynamics.geometry.configuration import integrate_configuration
from dynamics.rigid_bodies.articulated import Bodies, accelerate, articulate, forward_dynamics, no_wrenches, place
from dynamics.rigid_bodies.passive import actuate
from dynamics.robots.tree import Tree
from dynamics.steps.held_steps import CLOSE, end_at, end_size, hold
from dynamics.steps.modes import HELD, IMPACT, step_of
from dynamics.steps.runge_kutta import reach_stage


class Motion(Fields):
    """a and τ of one knot, and the displacement ξ of its configuration."""

    a, tau, xi = vector("nv"), vector("nv"), vector("nv")


class Stages(Fields):
    """Velocities and accelerations of the stages of an explicit step, and the configuration of one."""

    v, a, q = matrix_of("stages", "nv"), matrix_of("stages", "nv"), vector("nq")


class FreeBench(NamedTuple):
    """Working memory of steps without contacts; f: no forces."""

    own: Any
    stages: Any
    bodies: Any
    f: Any


class Bench(NamedTuple):
    """Working memory of steps of a mode with contacts; f (nc,): their forces."""

    own: Any
    bodies: Any
    push: Any
    end: Any
    f: Any


def size(tree: Tree, stages: int, m: int, nc: int) -> int:
    """Numbers that a bench takes, of an explicit step's stages, m contacts and nc forces at most."""
    contacts = push_size(tree, m, nc) + end_size(tree, m, nc)
    return Motion.size(tree) + Stages.size(tree, stages=stages) + Bodies.size(tree) + contacts


# -- without contacts ------------------------------------------------------------------------------------------------


@kernel
def free_bench(modes, mode, memory):
    """Working memory of steps without contacts."""
    own = Motion(memory, modes.tree)
    stages = Stages(own.end, modes.tree, len(modes.method) - 1)
    bodies = Bodies(stages.end, modes.tree)
    return FreeBench(own, stages, bodies, bodies.end)


@kernel
def advance_freely(modes, mode, x, u, w):
    """x := its next state under u, without contacts."""
    tree, h, own, v = modes.tree, step_of(modes, mode), w.own, x[modes.tree.nq :]
    if len(modes.method) > 1:
        explicit_step(tree, modes.pulls, h, modes.method, x, u, w)
    else:
        actuate(tree, modes.pulls, u, x, v, own.tau)
        wrong = poison(forward_dynamics(tree, x, v, own.tau, no_wrenches(x), w.bodies, own.a), own.a, tree.nv)
        semi_implicit_step(tree, h, x, own, wrong)


@inline
def poison(pivot, a, nv):
    """Zero; NaN in the lanes whose pivot is not positive or whose accelerations are not numbers."""
    total = a[0]
    for i in range(1, nv):
        total += a[i]
    return 0.0 * total + 0.0 / square_root(pivot)


@kernel
def semi_implicit_step(tree, h, x, own, wrong):
    """v := v + h a, then q := q ⊕ h v; wrong: added to v, zero or NaN."""
    v = x[tree.nq :]
    for i in range(tree.nv):
        v[i] += h * own.a[i] + wrong
        own.xi[i] = h * v[i]
    integrate_configuration(tree, x, own.xi, 1.0, x)


@kernel
def explicit_step(tree, pulls, h, method, x, u, w):
    """x := its next state by a method of runge_kutta.py."""
    nv, stages, s, own, v = tree.nv, len(method) - 1, w.stages, w.own, x[tree.nq :]
    wrong = spread(0.0, v[0])
    for i in range(stages):
        reach_stage(tree, method, h, i, x, v, wrong, s.v, s.a, own.xi, s.q, s.v[i])
        actuate(tree, pulls, u, s.q, s.v[i], own.tau)
        pivot = forward_dynamics(tree, s.q, s.v[i], own.tau, no_wrenches(x), w.bodies, s.a[i])
        wrong += poison(pivot, s.a[i], nv)
    reach_stage(tree, method, h, stages, x, v, wrong, s.v, s.a, own.xi, x, v)


# -- with contacts ---------------------------------------------------------------------------------------------------


@kernel
def touching_bench(modes, mode, memory):
    """Working memory of steps of a mode, or impacts."""
    tree, m, nc = modes.tree, modes.table[mode, 1], modes.table[mode, 2]
    own = Motion(memory, tree)
    bodies = Bodies(own.end, tree)
    pushed = push(bodies.end, own.a, tree, m, nc)
    end = end_at(pushed.end, tree, m, nc)
    return Bench(own, bodies, pushed, end, pushed.f)


@kernel
def advance_touching(modes, mode, x, u, w):
    """x := its next state under u and contacts, or after an impact."""
    tree, contacts, h, own = modes.tree, Contacts(modes.contacts[mode]), step_of(modes, mode), w.own
    kind, nc, v = modes.table[mode, 0], modes.table[mode, 2], x[tree.nq :]
    actuate(tree, modes.pulls, u, x, v, own.tau)
    place(tree, x, v, w.bodies)
    pivot = articulate(tree, own.tau, no_wrenches(x), w.bodies)
    wrong = poison(pivot, v, tree.nv)
    if kind == HELD:
        place_contacts(tree, contacts, x, w.bodies, w.push.place)
        accelerate(tree, w.bodies, own.a)
        respond_to_units(tree, contacts, w.bodies, w.push, own.xi)
        wrong += poison(pivot, own.a, tree.nv)
        error = hold(tree, contacts, nc, h, x, v, w.push, w.end)
        wrong += where_less(error, CLOSE * CLOSE, 0.0, np.nan)
    else:
        if kind == IMPACT:
            see_impact(tree, contacts, nc, modes.own[mode, 0], x, w.bodies, w.push)
            for i in range(tree.nv):
                w.bodies.u[i] = 0.0
        else:
            see_motion(tree, contacts, x, w.bodies, w.push)
        solve_contacts(tree, contacts, nc, w.bodies, w.push)
        accelerate(tree, w.bodies, own.a)
        wrong += poison(pivot, own.a, tree.nv)
    if kind == IMPACT:
        for i in range(tree.nv):
            v[i] += own.a[i] + wrong
    else:
        semi_implicit_step(tree, h, x, own, wrong)
