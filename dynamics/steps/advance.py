# mypy: allow-untyped-defs, allow-untyped-calls
"""Next states of knots of every mode, for any number.

A step of time is ``v' = v + h a``, ``q' = q ⊕ h v'`` with the acceleration of free motion, under contacts, or that of
held_steps.py; or one of the explicit steps of runge_kutta.py. An impact is ``v' = v⁺``, ``q' = q``, and its control
acts on nothing. Lanes that diverge become NaN and stay so; the others do not notice.
"""

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, nested, vector
from ddp.machine.number import spread, square_root, where_less
from dynamics.contacts.contact import Contacts
from dynamics.contacts.kinematics import move_contacts, place_contacts
from dynamics.contacts.motion import Push, respond_to_units, solve_contacts
from dynamics.geometry.configuration import integrate_configuration
from dynamics.rigid_bodies.articulated import Bodies, accelerate, articulate, forward_dynamics, no_wrenches, place
from dynamics.rigid_bodies.passive import actuate
from dynamics.steps.held_steps import CLOSE, End, clear_end, hold
from dynamics.steps.modes import HELD, IMPACT, step_of
from dynamics.steps.runge_kutta import reach_stage


class Stages(Fields):
    """Velocities and accelerations of the stages of an explicit step, and the configuration of one."""

    v, a, q = matrix_of("stages", "nv"), matrix_of("stages", "nv"), vector("nq")


class NoPush(Fields):
    """Forces of no contacts."""

    f = vector("0")


class FreeScratch(Fields):
    """Working memory of steps without contacts: a, τ, and the displacement ξ of the configuration."""

    a, tau, xi = vector("nv"), vector("nv"), vector("nv")
    stages, bodies, push = nested(Stages), nested(Bodies), nested(NoPush)


class TouchingScratch(Fields):
    """Working memory of steps of a mode with contacts; later: of the ends of steps that hold these."""

    tau, xi = vector("nv"), vector("nv")
    bodies, push, later = nested(Bodies), nested(Push), nested(End)


# -- without contacts ------------------------------------------------------------------------------------------------


@kernel
def free_scratch(modes, mode, memory):
    """Working memory of steps without contacts."""
    return FreeScratch(memory, modes.tree, len(modes.method) - 1)


@kernel
def advance_freely(modes, mode, x, u, w):
    """x := its next state under u, without contacts.

    Without stages of a method of runge_kutta.py a step is semi-implicit, by the acceleration where it begins.
    """
    tree, h, method, s, v = modes.tree, step_of(modes, mode), modes.method, w.stages, x[modes.tree.nq :]
    stages, wrong = len(method) - 1, spread(0.0, x[0])
    for i in range(max(stages, 1)):  # one call for both, as rollouts are compiled with all that they call
        q, qd, a = x, v, w.a
        if stages > 0:
            q, qd, a = s.q, s.v[i], s.a[i]
            reach_stage(tree, method, h, i, x, v, wrong, s.v, s.a, w.xi, q, qd)
        actuate(tree, modes.pulls, u, q, qd, w.tau)
        wrong += poison(forward_dynamics(tree, q, qd, w.tau, no_wrenches(x), w.bodies, a), a, tree.nv)
    if stages > 0:
        reach_stage(tree, method, h, stages, x, v, wrong, s.v, s.a, w.xi, x, v)
    else:
        semi_implicit_step(tree, h, x, w.a, w.xi, wrong)


@inline
def poison(pivot, a, nv):
    """Zero; NaN in the lanes whose pivot is not positive or whose accelerations are not numbers."""
    total = a[0]
    for i in range(1, nv):
        total += a[i]
    return (total - total) + 0.0 / square_root(pivot)


@kernel
def semi_implicit_step(tree, h, x, a, xi, wrong):
    """v := v + h a, then q := q ⊕ h v; wrong: added to v, zero or NaN."""
    v = x[tree.nq :]
    for i in range(tree.nv):
        v[i] += h * a[i] + wrong
        xi[i] = h * v[i]
    integrate_configuration(tree, x, xi, 1.0, x)


# -- with contacts ---------------------------------------------------------------------------------------------------


@kernel
def touching_scratch(modes, mode, memory):
    """Working memory of steps of a mode, or impacts."""
    m, nc = modes.table[mode, 1], modes.table[mode, 2]
    w = TouchingScratch(memory, modes.tree, m, nc)
    clear_end(modes.tree, nc, w.later)
    return w


@kernel
def advance_touching(modes, mode, x, u, w):
    """x := its next state under u and contacts, or after an impact."""
    tree, contacts, h, a = modes.tree, Contacts(modes.contacts[mode]), step_of(modes, mode), w.push.a
    kind, nc, v = modes.table[mode, 0], modes.table[mode, 2], x[tree.nq :]
    actuate(tree, modes.pulls, u, x, v, w.tau)
    place(tree, x, v, w.bodies)
    pivot = articulate(tree, w.tau, no_wrenches(x), w.bodies)
    wrong = poison(pivot, v, tree.nv)
    place_contacts(tree, contacts, x, w.bodies, w.push.place)
    if kind == HELD:
        accelerate(tree, w.bodies, a)
        respond_to_units(tree, contacts, w.bodies, w.push, w.xi)
        wrong += poison(pivot, a, tree.nv)
        error = hold(tree, contacts, nc, h, x, v, w.push, w.later)
        wrong += where_less(error, CLOSE * CLOSE, 0.0, np.nan)
    else:
        move_contacts(tree, contacts, w.bodies, w.push.place, w.push.c)
        if kind == IMPACT:  # c = (1 + e) J v
            for i in range(nc):
                w.push.c[i] *= 1.0 + modes.own[mode, 0]
            for i in range(tree.nv):
                w.bodies.u[i] = 0.0
        solve_contacts(tree, contacts, nc, w.bodies, w.push)
        accelerate(tree, w.bodies, a)
        wrong += poison(pivot, a, tree.nv)
    if kind == IMPACT:
        for i in range(tree.nv):
            v[i] += a[i] + wrong
    else:
        semi_implicit_step(tree, h, x, a, w.xi, wrong)
