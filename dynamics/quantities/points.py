# mypy: allow-untyped-defs, allow-untyped-calls
"""Origins of frames at eight knots at once, and how joints move them, in the world's axes.

Numbers of eight knots lie side by side, in rows of memory: P (3, 8) of an origin, D (3 m, 8) of its Jacobian, column
after column.
frames.py places one knot at a time, with rotations, to second order: origins alone take it 2.6 (hyq) to 3.5 (talos)
times as long, with their Jacobians 1.7 to 2.2 times.

To second order, f · p of a force f turns with each joint that moves what a later one carries: D_j D_k p = ω_j × D_k p,
j before k, and in one joint the symmetric part of it.
"""

import numpy as np
from numba import types

from ddp.compiling.kernel import kernel
from ddp.machine.memory import as_matrix, columns_of, memory_of, numbers_between, rows_at, rows_of
from ddp.machine.number import WIDTH
from ddp.machine.packing import pack
from dynamics.geometry.spatial import add3, angular, cross3, dot3, join, part3, put, rotate, velocity_at
from dynamics.quantities.frames import placed
from dynamics.rigid_bodies.kinematics import Workspace, place_bodies
from dynamics.rods.inverse import turn_rod
from dynamics.rods.memory import has_rod
from dynamics.rods.motion import span_rod

_floats = rows_at(types.float64)


@kernel
def knots_workspace(tree, nx):
    """Memory for eight states of nx numbers and the bodies of a tree."""
    memory = _floats(64)
    return np.empty((nx + numbers_between(memory, Workspace(memory, tree).end), WIDTH))


@kernel
def place_branch(branch, X, t, memory):
    """Place the bodies of a branch at the states t .. t+7 of X (M, nx), the last one repeated."""
    nx = columns_of(X)
    pack(X, t, memory, nx)
    place_bodies(branch.tree, memory, False, Workspace(memory[nx:], branch.tree))


@kernel
def place_points(branch, X, t, memory, P):
    """P := the frame's origin at the states t .. t+7 of X (M, nx), the last one repeated."""
    place_branch(branch, X, t, memory)
    take_point(branch, branch.tree, columns_of(X), memory, P)


@kernel
def begins(first, second):
    """Whether a branch is where another one begins: bodies that are placed for that one are its own, too."""
    found = first.count <= second.count and first.tree.nb <= second.tree.nb
    for b in range(first.tree.nb):
        found = found and not has_rod(first.tree, b)  # which may end before its tip
    for j in range(first.count if found else 0):
        found = found and first.dof[j] == second.dof[j]
    return found


@kernel
def take_point(branch, tree, nx, memory, P):
    """P := the frame's origin, after `place_branch` of a branch with a ``tree`` that this one `begins`."""
    _, p = placed(branch, Workspace(memory[nx:], tree))
    put(P, 0, p)


@kernel
def point_columns(branch, tree, nx, memory, P, D):
    """D := the Jacobian of the origin, after `place_points`, of a branch with ``tree``, or `take_point`."""
    ws, p = Workspace(memory[nx:], tree), part3(P, 0)
    for b in range(branch.tree.nb):
        if has_rod(branch.tree, b):
            span_rod(branch.tree, b, ws)
    for j in range(branch.count):
        put(D, 3 * j, velocity_at(p, ws.s[j]))


@kernel
def turn_columns(D, m, J):
    """J (3 m, 8) := the Jacobian D (3 m, 8), row after row."""
    for j in range(m):
        for i in range(3):
            J[m * i + j] = D[3 * j + i]


@kernel
def bend_points(branch, tree, nx, memory, P, D, f, columns, m, H):
    """H (m m, 8) += the Hessian of f · p, f (3, 8), in ``columns`` of m, after `point_columns`."""
    ws, out, body, pull = Workspace(memory[nx:], tree), as_matrix(H, m, m), branch.tree.body, part3(f, 0)
    for j in range(branch.count):
        turned, own = cross3(pull, angular(ws.s[j])), part3(D, 3 * j)
        for k in range(j, branch.count):
            h = dot3(turned, part3(D, 3 * k))
            if body[j] == body[k]:
                h = 0.5 * (h + dot3(cross3(pull, angular(ws.s[k])), own))
            a, b = columns[j], columns[k]
            out[a, b] += h
            if j != k:
                out[b, a] += h
    for b in range(branch.tree.nb):
        if has_rod(branch.tree, b):
            wrench = join(pull, cross3(part3(P, 0), pull))
            first = columns[branch.tree.iv[b]]
            turn_rod(branch.tree, b, ws, wrench, 0.5, True, first, first, out)


@kernel
def add_form(W, D, m, size, work, n, H):
    """H (n n, 8) += Dᵀ W D of forms W (36, 8), symmetric, and columns D (6 m, 8), of both the first ``size`` of six.

    work (6, 8): scratch.
    """
    out, y = as_matrix(H, n, n), work
    for a in range(m):
        for i in range(size):
            y[i] = W[6 * i] * D[6 * a]
            for k in range(1, size):
                y[i] = y[i] + W[6 * i + k] * D[6 * a + k]
        for b in range(a, m):
            h = y[0] * D[6 * b]
            for i in range(1, size):
                h = h + y[i] * D[6 * b + i]
            out[a, b] += h
            if a != b:
                out[b, a] += h


@kernel
def place_segments(tree, bodies, ends, X, t, memory, E, S):
    """Segments on bodies, and the columns of all degrees of freedom, at the states t .. t+7 of X (M, nx).

    bodies (C,): -1 for the world.   ends (C, 6): both, in the axes of the body.   E (6 C, 8) := both in the world.
    S (6 nv, 8) := columns [linear; angular], about the world's origin.
    """
    nx, numbers, out, columns = X.shape[1], memory_of(memory), memory_of(E), memory_of(S)
    ws = Workspace(numbers[nx:], tree)
    pack(rows_of(X), t, numbers, nx)
    place_bodies(tree, numbers, False, ws)
    for c in range(bodies.size):
        b = bodies[c]
        for k in range(0, 6, 3):
            end = ends[c, k:]
            if b >= 0:
                put(out, 6 * c + k, add3(ws.p[b], rotate(ws.R[b], part3(end, 0))))
            else:
                for i in range(3):
                    out[6 * c + k + i] = end[i]
    for j in range(tree.nv):
        s = ws.s[j]
        for i in range(6):
            columns[6 * j + i] = s[i]
