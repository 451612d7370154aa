# mypy: allow-untyped-defs, allow-untyped-calls
"""What knot_curvature.py works on: how a tree's degrees of freedom are related, as factors of products, and scratch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from ddp.compiling.kernel import integer_pointer, kernel
from ddp.matrices.tiles import WIDTH, bands, padded
from dynamics.geometry.joint_motion import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.robots.model import Model
from dynamics.steps.lane_curvature import FIELDS

MOVED, CARRIED, COUPLE, WP, TOTAL = 0, 6, 18, 21, 27
PSIDDS, PSI_A, CHI, S_A = 42, 48, 51, 57
P, Z, FORCE, HELD_Y = 60, 66, 69, 75
MINUS_BW, VS, HELD_Z = 78, 81, 87
YS, HELD_G = 90, 96
ETAS, S_A_AGAIN, SS, OMEGA, ROWS = 99, 105, 108, 114, 115
"""Rows of scratch over the degrees of freedom, in runs that are factors of the products."""


class Plan(NamedTuple):
    """Sizes and addresses: of a record's parts, nv and nz padded (lx, ld), and scratch; begin: of the description.

    groups (g, 3): kind, first degree of freedom and number of them of joints whose motions do not commute.
    J (groups, 6, 8): Jr of each.  C, D (8, 8), (6, 8): of one group's curvature.
    reals: the step h.   runs: see ``runs``, of qa.
    half, above, under (nv, lx): (j < i) + ½ (same body), (j ≤ i), (j < i)ᵀ; strict, below: (j < i), (j ≤ i)ᵀ.
    upper, lower: where rows of ``above`` and ``under`` have entries, see `tiles.bands`.   zeros: a row of them, (ld,).
    qq, vv, qv, vq, qa, aq (nv, lx): products, where they have entries; zeros elsewhere.
    """

    nq: int
    nv: int
    nu: int
    begin: int
    lx: int
    ld: int
    number: int
    groups: int
    upper: int
    lower: int
    runs: int
    reals: int
    half: int
    above: int
    under: int
    strict: int
    below: int
    rows: int
    effective: int
    qq: int
    vv: int
    qv: int
    vq: int
    qa: int
    aq: int
    A: int
    H: int
    curved: int
    J: int
    C: int
    D: int
    zeros: int


class Curvature:
    """A ``Plan`` behind one address, alive as long as this object is. Who works in it must be alone.

    bound: whether something in the world depends on where joints on the world stand, as contacts do.
    """

    def __init__(self, tree: Model, nq: int, nu: int, h: float, bound: bool = False) -> None:
        nv = len(tree.body)
        nz = 2 * nv + nu
        lx, ld = padded(nv), padded(nz)
        same = np.equal.outer(tree.body, tree.body)
        strict = _carried(tree)
        above = strict | same
        factors = strict + 0.5 * same, above, strict.T, strict, above.T
        bent = np.isin(tree.kind, (FREE_FLYER, SPHERICAL, PLANAR))
        groups = np.stack([tree.kind[bent], tree.iv[bent], tree.nj[bent]], axis=1)
        upper, lower = bands(above), bands(strict.T)
        parts = [np.ravel(table) for table in (groups, upper, lower, _runs(tree, above | strict.T, bound))]
        self._integers = np.concatenate(parts).astype(np.int64)
        tables = self._integers.ctypes.data + 8 * np.cumsum([0, *(part.size for part in parts[:-1])])
        sizes = [nv * lx] * 5 + [ROWS * lx, lx, *[nv * lx] * 6, nv * ld, ld * ld, 6 * ld, 48 * len(groups), 64, 48, ld]
        places = np.cumsum([WIDTH, *(padded(size) + WIDTH for size in sizes)])
        memory = np.zeros(places[-1] + WIDTH)
        self._reals = memory[-memory.ctypes.data // 8 % WIDTH :]
        self._reals[0] = h
        for place, factor in zip(places, factors, strict=False):
            self._reals[place : place + nv * lx].reshape(nv, lx)[:, :nv] = factor
        addresses = self._reals.ctypes.data + 8 * np.concatenate([[0], places[:-1]])
        begin = record_parts(nq, nv, nu)[0]
        self._header = np.array([nq, nv, nu, begin, lx, ld, len(groups), *tables, *addresses], dtype=np.int64)
        self.address = int(self._header.ctypes.data)


def _carried(tree: Model) -> NDArray[np.bool_]:
    """(nv, nv): whether j's body is an ancestor of i's."""
    nv = len(tree.body)
    strict = np.zeros((nv, nv), dtype=bool)
    for i in range(nv):
        b = tree.parent[tree.body[i]]
        while b >= 0:
            strict[tree.iv[b] : tree.iv[b] + tree.nj[b], i] = True
            b = tree.parent[b]
    return strict


def _runs(tree: Model, related: NDArray[np.bool_], bound: bool) -> list[int]:
    """``Plan.runs``: rows of joints on the world have no columns, since nothing carries them, unless they are bound."""
    return runs(related & ((tree.parent[tree.body] >= 0) | bound)[:, None])


def runs(entries: NDArray[np.bool_]) -> list[int]:
    """Panels of six rows of a matrix: how many rows, how many runs of columns, and where those begin, end."""
    found: list[int] = []
    for i in range(0, len(entries), 6):
        panel = entries[i : i + 6]
        edges = np.flatnonzero(np.diff(panel.any(axis=0), prepend=False, append=False))
        found += [len(panel), len(edges) // 2, *edges]
    return found


def record_parts(nq: int, nv: int, nu: int) -> tuple[int, int]:
    """Where the description of the degrees of freedom begins in a record, and the record's size: whole registers."""
    begin = padded(nq + 2 * nv + nv * nv + nv * (2 * nv + nu))
    return begin, begin + FIELDS * padded(nv)


@kernel
def read_plan(context):
    """The ``Plan`` at an address."""
    x = carray(integer_pointer(context), 32)
    return Plan(
        x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15], x[16],
        x[17], x[18], x[19], x[20], x[21], x[22], x[23], x[24], x[25], x[26], x[27], x[28], x[29], x[30],
        x[31],
    )  # fmt: skip
