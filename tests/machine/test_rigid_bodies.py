"""One source of every algorithm on bodies and rods: floats, complex numbers, quads and lanes agree on random trees."""

from functools import cache

import numpy as np
import pytest
from one_source import OTHERS, OfTrees, motion
from oracles import random_state, random_tree
from rod_oracles import TENDONS, random_hybrid, random_rod
from thorough import cases

import dynamics
from ddp.compiling.kernel import kernel, specialised
from ddp.machine.memory import as_matrix, as_vector
from dynamics import Assembly
from dynamics.rigid_bodies import batch, forward, inverse, tensors, world_wrenches
from dynamics.rigid_bodies.kinematics import Workspace, clear, composites, place_bodies
from dynamics.rigid_bodies.tensor_entries import SLOTS, entries_of
from dynamics.robots.tree import HybridTree, Tree
from dynamics.rods.forces import (
    add_internal_forces,
    add_internal_stiffness,
    add_tendon_columns,
    add_tendon_curvature,
    add_tendon_forces,
    add_tendon_stiffness,
)
from dynamics.rods.memory import has_rod

TREES, HYBRIDS = cases(100, 10), cases(range(20), (0, 1, 12, 13))
TENDONED = 12
"""First seed of hybrids with tendons."""

TOLERANCE = 1e-14
"""Of the largest number of a result: registers may sum in another order than floats do."""


@kernel
def inverse_dynamics(address, x, y, memory):
    tree = Tree(address)
    q, v, a, _ = motion(tree, x)
    ws = Workspace(memory, tree)
    fext = as_matrix(x[tree.nq + 3 * tree.nv :], tree.nb, 6)
    inverse.inverse_dynamics(tree, q, v, a, fext, ws, y)


@kernel
def first_derivatives(address, x, y, memory):
    tree = Tree(address)
    q, v, a, _ = motion(tree, x)
    ws, n = Workspace(memory, tree), tree.nv
    clear(y, 3 * n * n)
    composites(tree, q, v, a, as_matrix(x, 0, 6), ws)
    inverse.mass_matrix(tree, ws, as_matrix(y, n, n))
    inverse.inverse_dynamics_derivatives(tree, ws, as_matrix(y[n * n :], n, n), as_matrix(y[2 * n * n :], n, n))


@kernel
def contracted_hessian(address, x, y, memory):
    tree = Tree(address)
    q, v, a, mu = motion(tree, x)
    ws, n = Workspace(memory, tree), tree.nv
    size = n * n
    clear(y, 4 * size)
    composites(tree, q, v, a, as_matrix(x, 0, 6), ws)
    qq, qv, vv = as_matrix(y, n, n), as_matrix(y[size:], n, n), as_matrix(y[2 * size :], n, n)
    batch.contracted(tree, mu, ws, qq, qv, vv, as_matrix(y[3 * size :], n, n))


@kernel
def count_triples(tree):
    """Number of triples of degrees of freedom, each on the way from the end of the one before's joint to the root."""
    count = 0
    for p in range(tree.nv):
        t = tensors.last_of_joint(tree, tree.body[p])
        while t >= 0:
            r = tensors.last_of_joint(tree, tree.body[t])
            while r >= 0:
                count += 1
                r = tree.previous[r]
            t = tree.previous[t]
    return count


@kernel
def values_of_tensors(address, x, y, memory):
    tree = Tree(address)
    q, v, a, _ = motion(tree, x)
    ws, values = Workspace(memory, tree), as_matrix(y, 1, SLOTS)
    for n in range(count_triples(tree) + 1):
        clear(values[n], SLOTS)
    composites(tree, q, v, a, as_matrix(x, 0, 6), ws)
    tensors.inverse_dynamics_tensors(tree, ws, values)


@kernel
def forward_relation(address, x, y, memory):
    tree = Tree(address)
    q, v, tau, weight = motion(tree, x)
    ws, n = Workspace(memory, tree), tree.nv
    r, size = batch.Relation(ws.end, tree), n * n
    clear(as_vector(r.LD), 3 * size)
    clear(y, 4 * size)
    batch.relate(tree, q, v, tau, as_matrix(x, 0, 6), ws, r)
    for i in range(n):
        y[4 * size + i] = r.a[i]
        for j in range(n):
            y[4 * size + n * (1 + i) + j] = r.aq[i, j]
            y[5 * size + n * (1 + i) + j] = r.av[i, j]
            y[6 * size + n * (1 + i) + j] = r.Minv[i, j]
    qq, qv, vv = as_matrix(y, n, n), as_matrix(y[size:], n, n), as_matrix(y[2 * size :], n, n)
    batch.relate_twice(tree, weight, ws, r, qq, qv, vv, as_matrix(y[3 * size :], n, n))


@kernel
def factors(address, x, y, memory):
    tree = Tree(address)
    q, v, tau, _ = motion(tree, x)
    ws, n = Workspace(memory, tree), tree.nv
    clear(y, n * n)
    a, D = y[n * n :], y[n * n + n :]
    forward.forward_dynamics(tree, q, v, tau, as_matrix(x, 0, 6), ws, as_matrix(y, n, n), D, a)


@kernel
def hessian_of_wrenches(address, x, y, memory):
    tree = Tree(address)
    ws, n = Workspace(memory, tree), tree.nv
    w = world_wrenches.Wrenches(ws.end, tree)
    for i in range(tree.nq):
        w.q[i] = x[i]
    for i in range(n):
        w.mu[i] = x[tree.nq + 2 * n + i]
    wrench = as_vector(w.wrench)
    for i in range(6 * tree.nb):
        wrench[i] = x[tree.nq + 3 * n + i]
    clear(as_vector(w.dq), n * n)
    world_wrenches.place_wrenches(tree, ws, w)
    world_wrenches.hessian_of_sample(tree, ws, w)
    result = as_vector(w.dq)
    for i in range(n * n):
        y[i] = result[i]


@kernel
def forces_of_rods(address, x, y, memory):
    """Forces of rods, and of tendons whose tensions begin the second tangent vector, to second order."""
    tree = Tree(address)
    q, v, u, mu = motion(tree, x)
    ws, n, k = Workspace(memory, tree), tree.nv, tree.cables
    clear(y, n + 3 * n * n + 2 * n * k)
    place_bodies(tree, q, True, ws)
    dq, dv, qq = as_matrix(y[n:], n, n), as_matrix(y[n + n * n :], n, n), as_matrix(y[n + 2 * n * n :], n, n)
    du, qu = as_matrix(y[n + 3 * n * n :], n, k), as_matrix(y[n + 3 * n * n + n * k :], n, k)
    for b in range(tree.nb):
        if has_rod(tree, b):
            add_internal_forces(tree, b, 1.0, q, v, y)
            add_internal_stiffness(tree, b, dq, dv)
            add_tendon_forces(tree, b, ws, 1.0, q, u, y)
            add_tendon_stiffness(tree, b, ws, q, u, dq)
            add_tendon_columns(tree, b, ws, 1.0, q, 0, du)
            add_tendon_curvature(tree, b, ws, q, u, mu, qq, qu)


SIZES = {
    inverse_dynamics: lambda tree: tree.nv,
    first_derivatives: lambda tree: 3 * tree.nv**2,
    contracted_hessian: lambda tree: 4 * tree.nv**2,
    values_of_tensors: lambda tree: SLOTS * (entries_of(tree).triples + 1),
    forward_relation: lambda tree: 7 * tree.nv**2 + tree.nv,
    factors: lambda tree: tree.nv**2 + 2 * tree.nv,
    hessian_of_wrenches: lambda tree: tree.nv**2,
}

TIMES_INVERTED = {factors: 1, forward_relation: 2}
"""Number of times that M⁻¹ is a factor of results: it magnifies rounding."""


IN_ALL = (factors,)
"""Sources that are run on every number in the suite, the others on floats and lanes there."""


@cache
def hybrid(seed):
    """Two rods and a joint in any order; for the last seeds, two rods with tendons."""
    if seed < TENDONED:
        return random_hybrid(seed, parts=3, rods=2)
    rng = np.random.default_rng(seed)
    build = Assembly(f"cables{seed}").rod(random_rod(rng, "lower"), tendons=TENDONS[:2])
    return build.rod(random_rod(rng, "upper"), "lower/tip", tendons=TENDONS[2:4]).robot()


OF_RODS = {
    first_derivatives: SIZES[first_derivatives],
    contracted_hessian: SIZES[contracted_hessian],
    forces_of_rods: lambda tree: tree.nv + 3 * tree.nv**2 + 2 * tree.nv * tree.cables,
}


@pytest.mark.parametrize("source", SIZES, ids=lambda source: source.py_func.__name__)
def test_every_number_gives_the_result_of_floats(source):
    run, numbers = OfTrees(source), OTHERS if source in IN_ALL else cases(OTHERS, ("lanes",))
    for seed in range(TREES):
        robot, rng = random_tree(seed), np.random.default_rng(seed)
        tree = robot.tree
        condition = np.linalg.cond(dynamics.mass_matrix(robot, robot.q0)) ** TIMES_INVERTED.get(source, 0)
        X = []
        for _ in range(9):  # the last register is partly filled
            wrenches = rng.normal(size=(robot.nv + 6 * tree.nb))
            X.append(np.concatenate([*random_state(robot, rng), wrenches]))
        room = max(batch.size(tree.nb, tree.nq, tree.nv), Workspace.size(tree) + world_wrenches.Wrenches.size(tree))
        run.agree(numbers, tree.address, np.array(X), SIZES[source](tree), room, condition * TOLERANCE)


@pytest.mark.parametrize("source", OF_RODS, ids=lambda source: source.py_func.__name__)
def test_every_number_gives_the_result_of_floats_on_rods(source):
    run = OfTrees(kernel(specialised(source.py_func, f"{source.py_func.__name__}_of_rods", Tree=HybridTree)))
    numbers = OTHERS if source in IN_ALL else cases(OTHERS, ("lanes",))
    for seed in HYBRIDS:
        robot, rng = hybrid(seed), np.random.default_rng(seed)
        tree = robot.tree
        X = np.array([np.concatenate([*random_state(robot, rng), rng.normal(size=robot.nv)]) for _ in range(9)])
        room = batch.size(tree.nb, tree.nq, tree.nv, tree.room)
        run.agree(numbers, tree.start, X, OF_RODS[source](tree), room, TOLERANCE)
