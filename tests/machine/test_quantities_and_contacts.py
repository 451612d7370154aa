"""One source of quantities, contacts and loops: floats, complex numbers, quads and lanes agree on random trees."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin
import pytest
from one_source import OTHERS, OfTrees, motion
from oracles import random_placement, random_state, random_tree, sprung
from thorough import cases

import dynamics
from ddp.compiling.kernel import kernel
from ddp.machine.memory import as_matrix, as_vector, columns_from
from ddp.machine.struct import Struct, integer, matrix, nested
from ddp.tracing.quantities import FIRST, SECOND
from dynamics import Contact
from dynamics.contacts import batch
from dynamics.contacts.axes import add_turning_curvature, turn_derivatives
from dynamics.contacts.contact import Contacts, are_regular, as_impacts, compile_contacts, forces
from dynamics.contacts.hessian import Curvature
from dynamics.contacts.kinematics import Place
from dynamics.contacts.relation import Factors, relation
from dynamics.geometry.spatial import store
from dynamics.quantities import whole
from dynamics.quantities.frames import (
    Branch,
    Rates,
    add_displacement_curvature,
    add_twist_curvature,
    branch,
    frame_twist,
    place_frame,
    twist_derivatives,
)
from dynamics.rigid_bodies.hessian import virtual_velocities
from dynamics.rigid_bodies.kinematics import Workspace, clear, composites
from dynamics.rigid_bodies.loops import Looping, add_loop_stiffness, curve_loops, looping, see_loops
from dynamics.rigid_bodies.passive import actuate, entries_of, resist
from dynamics.robots.loop import Loop, Loops, compile_loops
from dynamics.robots.tree import Tree

TREES, TOLERANCE = cases(100, 10), 1e-14
"""Of the largest number of a result: registers may sum in another order than floats do."""


class Scene(Struct):
    """A tree, alone and on a free base, the way to a frame, loops, controls, contacts.

    These are of motion with nc forces, and of an impact with ni.
    """

    tree: Tree = nested(Tree)
    weightless: Tree = nested(Tree)
    base: Tree = nested(Tree)
    branch: Branch = nested(Branch)
    contacts: Contacts = nested(Contacts)
    impacts: Contacts = nested(Contacts)
    nc: int = integer()
    ni: int = integer()
    loops: Loops = nested(Loops)
    pulls: np.ndarray = matrix()


@kernel
def given(address, x):
    """The scene, its tree, q, v, two more tangent vectors, and the weights behind them."""
    scene = Scene(address)
    q, v, a, mu = motion(scene.tree, x)
    return scene, scene.tree, q, v, a, mu, mu[scene.tree.nv :]


@kernel
def copy(values, count, y):
    """Write numbers to y; what follows them there."""
    for i in range(count):
        y[i] = values[i]
    return y[count:]


@kernel
def six(weight):
    return weight[0], weight[1], weight[2], weight[3], weight[4], weight[5]


@kernel
def frames(address, x, y, memory):
    scene, tree, q, v, _, _, weight = given(address, x)
    way, nv = scene.branch, tree.nv
    m, size = way.count, 6 * tree.nv
    clear(y, 66 + 4 * size + 5 * nv * nv)
    J, E, Dq, Dv = (
        as_matrix(y, m, 6), as_matrix(y[size:], m, 6), as_matrix(y[2 * size :], m, 6), as_matrix(y[3 * size :], m, 6)
    )  # fmt: skip
    y = y[4 * size :]
    R, p = place_frame(way, q, memory, J)
    store(as_matrix(y, 1, 9), 0, R)
    store(as_matrix(y[9:], 1, 3), 0, p)
    G = as_matrix(y[30:], 6, 6)
    for i in range(6):
        for j in range(6):
            G[i, j] = weight[i] * weight[j]
    add_displacement_curvature(way, memory, J, six(weight), G, as_matrix(y[66:], nv, nv))
    V, hessian = frame_twist(way, memory, J, v, E), as_matrix(y[66 + nv * nv :], 2 * nv, 2 * nv)
    for reference in range(3):
        store(as_matrix(y[12:], 3, 6), reference, twist_derivatives(reference, R, p, V, J, E, Dq, Dv))
        add_twist_curvature(way, memory, reference, R, p, V, J, E, six(weight), nv, hessian)


@kernel
def on_free_base(scene, order, moving, q, v, weight, memory):
    """The workspace and the record of a robot on its free base."""
    base = scene.base
    ws = Workspace(memory, base)
    x = whole.Whole(ws.end, base)
    whole.begin(base, order, x)
    copy(q, scene.tree.nq, x.q[7:])
    if moving:
        copy(v, scene.tree.nv, x.a[6:])
    elif order == SECOND:
        copy(weight, 3, x.a)
    copy(weight, 6, x.weight)
    composites(base, x.q, x.v, x.a, as_matrix(x.v, 0, 6), ws)
    return ws, x


@kernel
def center_of_mass(address, x, y, memory):
    scene, tree, q, v, _, _, weight = given(address, x)
    nv = tree.nv
    for order in (FIRST, SECOND):
        ws, w = on_free_base(scene, order, False, q, v, weight, memory)
        whole.center(tree, scene.base, 0, order, ws, w, as_matrix(y[3:], 3, nv), as_matrix(y[3 + 3 * nv :], nv, nv))
        if order == FIRST:
            copy(w.y, 3, y)


@kernel
def energy(address, x, y, memory):
    scene, tree, q, v, _, _, weight = given(address, x)
    n = 2 * tree.nv
    for order in (FIRST, SECOND):
        ws, w = on_free_base(scene, order, True, q, v, weight, memory)
        whole.energy(tree, scene.base, 0, order, ws, w, as_matrix(y[1:], 1, n), as_matrix(y[1 + n :], n, n))
        if order == FIRST:
            copy(w.y, 1, y)


@kernel
def momentum(address, x, y, memory):
    scene, tree, q, v, _, _, weight = given(address, x)
    n = 2 * tree.nv
    for at_center in range(2):
        J, H = as_matrix(y[6:], 6, n), as_matrix(y[6 + 6 * n :], n, n)
        for order in (FIRST, SECOND):
            ws, w = on_free_base(scene, order, True, q, v, weight, memory)
            whole.momentum(tree, scene.base, at_center, order, ws, w, J, H)
            if order == FIRST:
                copy(w.y, 6, y)
        y = y[6 + 6 * n + n * n :]


class Moving(NamedTuple):
    """Arguments of one sample."""

    q: Any
    first: Any
    second: Any
    fext: Any


@kernel
def scratch(tree, contacts, nc, weight, memory):
    """Working memory of contacts, whose weights are those given, over and over."""
    ws = Workspace(memory, tree)
    place = Place(ws.end, tree, contacts.count)
    w = Factors(place.end, tree, nc)
    z = batch.Solution(w.end, tree, nc)
    clear(z.zero, tree.nv)
    for i in range(tree.nv + nc):
        z.weight[i] = weight[i % 6]
    return ws, place, relation(tree, nc, z.a, z.f, z.Kinv, w), z, Curvature(z.end, tree, nc)


@kernel
def results(tree, nc, r, z, y):
    y = copy(r.a, tree.nv, y)
    y = copy(r.f, nc, y)
    return copy(as_vector(z.zy), (tree.nv + nc) * 2 * tree.nv, y)


@kernel
def motion_under_contacts(address, x, y, memory):
    scene, tree, q, v, tau, _, weight = given(address, x)
    contacts, nc, nv = scene.contacts, scene.nc, tree.nv
    ws, place, r, z, h = scratch(tree, contacts, nc, weight, memory)
    sample = Moving(q, v, tau, as_matrix(x, 0, 6))
    by_tau = batch.related(tree, contacts, 0.0, 0.0, False, sample, ws, place, r, z)
    by_q, by_v = z.zy[nv:], columns_from(z.zy, nv)[nv:]
    batch.curved(tree, contacts, 0.0, False, sample, z.weight, ws, place, r, z, h)
    add_turning_curvature(tree, contacts, ws, place, z.weight[nv:], r.f, by_q, by_v, by_tau, h.qq, h.qv, h.qt)
    turn_derivatives(tree, contacts, ws, place, r.f, by_q, by_v, by_tau)
    y = results(tree, nc, r, z, y)
    y = copy(as_vector(h.qq), nv * nv, y)
    y = copy(as_vector(h.qv), nv * nv, y)
    y = copy(as_vector(h.vv), nv * nv, y)
    copy(as_vector(h.qt), nv * nv, y)


@kernel
def impact(address, x, y, memory):
    scene, _, q, v, _, _, weight = given(address, x)
    tree, contacts, nc, none = scene.weightless, scene.impacts, scene.ni, as_matrix(x, 0, 6)
    ws, place, r, z, h = scratch(tree, contacts, nc, weight, memory)
    sample = Moving(q, v, v, none)
    batch.related(tree, contacts, 0.0, 0.3, True, sample, ws, place, r, z)
    batch.curved(tree, contacts, 0.3, True, sample, z.weight, ws, place, r, z, h)
    y = results(tree, nc, r, z, y)
    y = copy(as_vector(h.qq), tree.nv**2, y)
    copy(as_vector(h.qv), tree.nv**2, y)


@kernel
def loops(address, x, y, memory):
    scene, tree, q, v, a, mu, weight = given(address, x)
    closed, nv, ws = scene.loops, tree.nv, Workspace(memory, tree)
    nc = closed.nc
    clear(y, 2 * nv * nv)
    composites(tree, q, v, a, as_matrix(x, 0, 6), ws)
    virtual_velocities(tree, mu, ws)
    lp = looping(ws.end, tree, closed)
    see_loops(tree, closed, q, ws, lp)
    add_loop_stiffness(tree, closed, 0.7, weight, ws, lp, as_matrix(y, nv, nv))
    y = y[nv * nv :]
    curve_loops(tree, closed, weight, ws, lp, as_matrix(y, nv, nv), as_matrix(y[nv * nv :], nv, nc))
    y = copy(lp.e, nc, y[nv * nv + nv * nc :])
    copy(as_vector(lp.J), nc * nv, y)


@kernel
def own_torques(address, x, y, memory):
    scene, tree, q, v, u, _, _ = given(address, x)
    nv = tree.nv
    clear(y, nv + 2 * nv * nv)
    actuate(tree, scene.pulls, u, q, v, y)
    resist(tree, as_matrix(y[nv:], nv, nv), as_matrix(y[nv + nv * nv :], nv, nv))


SIZES = {
    frames: lambda scene, nv: 66 + 24 * nv + 5 * nv**2,
    center_of_mass: lambda scene, nv: 3 + 3 * nv + nv**2,
    energy: lambda scene, nv: 1 + 2 * nv + 4 * nv**2,
    momentum: lambda scene, nv: 2 * (6 + 12 * nv + 4 * nv**2),
    motion_under_contacts: lambda scene, nv: (nv + scene.nc) * (1 + 2 * nv) + 4 * nv**2,
    impact: lambda scene, nv: (nv + scene.ni) * (1 + 2 * nv) + 2 * nv**2,
    loops: lambda scene, nv: 2 * nv**2 + scene.loops.nc * (1 + 2 * nv),
    own_torques: lambda scene, nv: nv + 2 * nv**2,
}

TIMES_INVERTED = {motion_under_contacts: 2, impact: 2}
"""Number of times that M⁻¹ is a factor of results: it magnifies rounding."""


@cache
def scene_of(seed):
    """A random tree: the body that most joints move is in contact, and tied to the world and to its parent.

    Contacts hold nothing twice: a complex step of what is redundant is right to some 5e-6 alone.
    """
    robot, rng = random_tree(seed, bodies=8), np.random.default_rng(seed)
    model, data = robot.model, robot.model.createData()
    last = max(range(1, model.njoints), key=lambda joint: sum(model.nvs[k] for k in model.supports[joint]))
    pin.forwardKinematics(model, data, robot.q0)
    tip = data.oMi[last] * random_placement(rng)
    for name, joint in (("tip", last), ("middle", model.parents[last]), ("there", 0)):
        model.addFrame(pin.Frame(name, joint, 0, data.oMi[joint].actInv(tip), pin.OP_FRAME))
    robot = sprung(robot, rng) if robot.nq == robot.nv else dynamics.load(model)
    known = [
        Contact("tip", "rolling", radius=0.3, axis=rng.normal(size=3)),
        Contact("tip", "point", rng.normal(size=3), (3.0, 2.0), "local"),
        Contact("tip", "surface", random_placement(rng), (3.0, 2.0), "local-world-aligned"),
    ]
    regular = [compile_contacts(robot, contact) for contact in known if are_regular(robot, [contact])]
    contacts, impacts = regular[1 + seed // 2 % (len(regular) - 1)], as_impacts(regular[seed // 2 % len(regular)])
    tied = [Loop("tip", "there", "y z rx ry rz"), Loop("tip", "middle", "x y rx ry rz")]
    return robot, Scene(
        tree=robot.tree, weightless=robot.tree.weightless or robot.tree, base=whole.floating(robot),
        branch=branch(robot, "tip"),
        contacts=contacts, impacts=impacts, nc=forces(contacts), ni=forces(impacts),
        loops=compile_loops(robot.mechanism, robot.tree.previous, tied, robot.q0), pulls=entries_of(np.eye(robot.nv)),
    )  # fmt: skip


def room_of(scene):
    """Numbers of memory that any source takes."""
    tree, closed = scene.tree, scene.loops
    bodies = batch.size(tree.nb, tree.nq, tree.nv, 1, max(scene.nc, scene.ni))
    alone = bodies + Rates.size(tree) + Looping.size(tree, nc=closed.nc, entries=closed.entries)
    return max(alone, Workspace.size(scene.base) + whole.Whole.size(scene.base))


@pytest.mark.parametrize("source", SIZES, ids=lambda source: source.py_func.__name__)
def test_every_number_gives_the_result_of_floats(source):
    run, numbers = OfTrees(source), cases(OTHERS, ("lanes",))
    for seed in range(TREES):
        rng = np.random.default_rng(seed)
        robot, scene = scene_of(seed)
        condition = np.linalg.cond(dynamics.mass_matrix(robot, robot.q0)) ** TIMES_INVERTED.get(source, 0)
        X = np.array([np.concatenate([*random_state(robot, rng), rng.normal(size=robot.nv + 6)]) for _ in range(9)])
        run.agree(numbers, scene.address, X, SIZES[source](scene, robot.nv), room_of(scene), condition * TOLERANCE)
