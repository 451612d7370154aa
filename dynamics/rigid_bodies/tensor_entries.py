"""Places of the entries of inverse dynamics' second derivatives among the numbers that tensors.py computes."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dynamics.robots.tree import Tree

SLOTS = 14
"""Different numbers that a triple of degrees of freedom has in the four tensors."""

_GROUP = 8


class Entries(NamedTuple):
    """Entries of the tensors ∂²τ/∂q∂q, ∂²τ/∂v∂v, ∂²τ/∂v∂q (v second) and ∂M/∂q; T[i, j, k] = D_k (D_j τ_i).

    triples: how many.   places (4, nv³): where an entry is among ``values``, flat; unrelated ones are in the last row.
    groups (m,): where groups of eight consecutive entries that are not all zero begin; bounds (5,): of each tensor's.
    """

    triples: int
    places: NDArray[np.int64]
    groups: NDArray[np.int64]
    bounds: NDArray[np.int64]


_known: WeakKeyDictionary[Tree, Entries] = WeakKeyDictionary()


def entries_of(tree: Tree) -> Entries:
    """The entries of a tree's tensors, found once."""
    if tree not in _known:
        _known[tree] = _found(tree)
    return _known[tree]


def _found(tree: Tree) -> Entries:
    nv = tree.nv
    triples = _triples(tree)
    zero = SLOTS * len(triples)
    places = np.full((4, nv, nv, nv), zero)
    qq, vv, vq, aq = places
    body = tree.body.tolist()
    for n, (p, t, r) in enumerate(triples):
        i, j, k = body[p], body[t], body[r]
        at = SLOTS * n
        qq[p, t, r], vq[p, t, r] = at, at + 1
        vv[p, t, r] = at + 8
        if j != i:
            qq[t, r, p] = qq[t, p, r] = at + 2
            vq[t, r, p], vq[t, p, r] = at + 3, at + 4
            vv[t, r, p] = vv[t, p, r] = at + 5
            aq[r, t, p] = aq[t, r, p] = at + 6
        if k != j:
            qq[p, r, t], qq[r, p, t] = at, at + 7
            vv[p, r, t] = at + 8
            vq[p, r, t], vq[r, p, t] = at + 9, at + 10
            aq[r, p, t] = aq[p, r, t] = at + 11
            vv[r, t, p] = at + 13
            if j != i:
                qq[r, t, p], vq[r, t, p] = at + 7, at + 12
                vv[r, p, t] = at + 13
    flat = places.reshape(4, nv**3)
    starts = np.arange(0, nv**3 - _GROUP + 1, _GROUP)
    if nv**3 > _GROUP and nv**3 % _GROUP:
        starts = np.append(starts, nv**3 - _GROUP)
    inside = [(flat[k][starts[:, None] + np.arange(_GROUP)] != zero).any(axis=1) for k in range(4)]
    groups = [starts[some] for some in inside]
    return Entries(len(triples), flat, np.concatenate(groups), np.cumsum([0, *map(len, groups)]))


def _triples(tree: Tree) -> list[tuple[int, int, int]]:
    """Degrees of freedom p, t, r, each on the way from the end of the one before's joint to the root."""
    last = (tree.iv + tree.nj - 1).tolist()
    body, previous = tree.body.tolist(), tree.previous.tolist()
    found: list[tuple[int, int, int]] = []
    for p in range(len(body)):
        t = last[body[p]]
        while t >= 0:
            r = last[body[t]]
            while r >= 0:
                found.append((p, t, r))
                r = previous[r]
            t = previous[t]
    return found
