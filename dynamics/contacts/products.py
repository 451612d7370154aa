# mypy: allow-untyped-defs, allow-untyped-calls
"""Products with rows of contacts, which have entries on a contact's way to the root alone."""

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import where_less
from dynamics.contacts.contact import SURFACE
from dynamics.geometry.spatial import rotate, rotate_back

STILL = 1e-20
"""Rows hold nothing whose response to a force is less than this part of that of three: rounding alone is in them."""


@inline
def threes(contacts, i):
    """Number of blocks of three rows of a contact: its force, and the torque of surfaces."""
    return 2 if contacts.kind[i] == SURFACE else 1


@inline
def last_dof(tree, contacts, i):
    """The degree of freedom that is nearest to contact i."""
    b = contacts.body[i]
    return tree.iv[b] + tree.nj[b] - 1


@inline
def is_tilted(contacts, r):
    """Whether nothing is ever held in some direction that is not one of the three rows from r on."""
    A = contacts.axes
    return A[r // 3, 9] + A[r // 3, 10] + A[r // 3, 11] > 0.0


@inline
def turned(contacts, r, back, x):
    """Three numbers in the rows from r on, in ``Contacts.axes``, or back."""
    A = contacts.axes[r // 3]
    Q = (A[0], A[1], A[2], A[3], A[4], A[5], A[6], A[7], A[8])
    return rotate(Q, x) if back else rotate_back(Q, x)


@kernel
def turn_tilted(contacts, back, x):
    """x (nc,) in ``Contacts.axes``, or back, where these are tilted."""
    for i in range(contacts.count):
        for part in range(threes(contacts, i)):
            r = contacts.row[i] + 3 * part
            if is_tilted(contacts, r):
                x[r], x[r + 1], x[r + 2] = turned(contacts, r, back, (x[r], x[r + 1], x[r + 2]))


@kernel
def turn_tilted_rows(contacts, back, n, S):
    """S (n, n), rows and columns, in ``Contacts.axes``, or back, where these are tilted."""
    for i in range(contacts.count):
        for part in range(threes(contacts, i)):
            r = contacts.row[i] + 3 * part
            if is_tilted(contacts, r):
                for k in range(n):
                    column = (S[r, k], S[r + 1, k], S[r + 2, k])
                    S[r, k], S[r + 1, k], S[r + 2, k] = turned(contacts, r, back, column)
                for k in range(n):
                    row = (S[k, r], S[k, r + 1], S[k, r + 2])
                    S[k, r], S[k, r + 1], S[k, r + 2] = turned(contacts, r, back, row)


@kernel
def settle_still_rows(contacts, n, S):
    """S (n, n) with ∞ on the diagonal in rows that hold nothing, as across the plane in which all joints move.

    Rows and columns of the inverse are zeros there: no force is felt, wherever the target is. Where ``Contacts.axes``
    are tilted, S is turned into them, and what is found with it has to be turned back.
    """
    turn_tilted_rows(contacts, False, n, S)
    for i in range(contacts.count):
        for part in range(threes(contacts, i)):
            r = contacts.row[i] + 3 * part
            if is_tilted(contacts, r):
                for k in range(3):
                    if contacts.axes[r // 3, 9 + k] > 0.0:
                        S[r + k, r + k] = np.inf
                continue
            x, y, z = S[r, r], S[r + 1, r + 1], S[r + 2, r + 2]
            least = STILL * STILL * (x * x + y * y + z * z)
            for k in range(r, r + 3):
                S[k, k] = where_less(least, S[k, k] * S[k, k], S[k, k], np.inf)


@kernel
def path_product(tree, contacts, C, X, m, out):
    """out (nc, m) := C X for rows C (nc, nv) of contacts, in tiles of 3 x 3."""
    for i in range(contacts.count):
        last = last_dof(tree, contacts, i)
        for part in range(threes(contacts, i)):
            r, c = contacts.row[i] + 3 * part, 0
            while c + 3 <= m:
                _path_tile(tree.previous, last, C, X, r, c, out)
                c += 3
            while c < m:
                _path_column(tree.previous, last, C, X, r, c, out)
                c += 1


@inline
def _path_tile(previous, last, C, X, r, c, out):
    s, t, u = C[r, last], C[r + 1, last], C[r + 2, last]
    x, y, z = X[last, c], X[last, c + 1], X[last, c + 2]
    sx, sy, sz, tx, ty, tz, ux, uy, uz = s * x, s * y, s * z, t * x, t * y, t * z, u * x, u * y, u * z
    k = previous[last]
    while k >= 0:
        s, t, u = C[r, k], C[r + 1, k], C[r + 2, k]
        x, y, z = X[k, c], X[k, c + 1], X[k, c + 2]
        sx, sy, sz = sx + s * x, sy + s * y, sz + s * z
        tx, ty, tz = tx + t * x, ty + t * y, tz + t * z
        ux, uy, uz = ux + u * x, uy + u * y, uz + u * z
        k = previous[k]
    out[r, c], out[r, c + 1], out[r, c + 2] = sx, sy, sz
    out[r + 1, c], out[r + 1, c + 1], out[r + 1, c + 2] = tx, ty, tz
    out[r + 2, c], out[r + 2, c + 1], out[r + 2, c + 2] = ux, uy, uz


@inline
def _path_column(previous, last, C, X, r, c, out):
    x = X[last, c]
    s, t, u = C[r, last] * x, C[r + 1, last] * x, C[r + 2, last] * x
    k = previous[last]
    while k >= 0:
        x = X[k, c]
        s, t, u = s + C[r, k] * x, t + C[r + 1, k] * x, u + C[r + 2, k] * x
        k = previous[k]
    out[r, c], out[r + 1, c], out[r + 2, c] = s, t, u
