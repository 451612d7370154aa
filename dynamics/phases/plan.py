# mypy: allow-untyped-defs, allow-untyped-calls
"""What phases/knot.py works on: the plan of a tree (knot_plan.py), how its modes' contacts are held, and scratch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from ddp.compiling.kernel import integer_pointer, kernel
from ddp.matrices.tiles import WIDTH, padded
from dynamics.contacts.contact import POINT, Contacts
from dynamics.phases.modes import HELD, IMPACT, Modes, contacts_of, layout
from dynamics.robots.flattened import Packed
from dynamics.robots.model import Model
from dynamics.steps.knot_plan import Curvature, runs

SUMS = 48
"""Rows of sums over contacts."""


class PhasePlan(NamedTuple):
    """Addresses: of a ``Plan``, a ``Packed``, modes' arrays and a table of them, and scratch; sizes.

    The table has a row of seven for each mode: whether its knots may be done here (steps held by points alone),
    contacts m, forces nc, and addresses of ``held`` (m, lx), 1 where a degree of freedom moves a contact, its transpose
    (nv, lm), the gains (3, lm), and the ``runs`` of Rᵀ, whose rows are degrees of freedom.
    K, Z, D, places, end: where parts of a record begin (modes.py). lm: contacts, padded.
    omega: (lk,).   by_contact: (SUMS, lm).   totals: (SUMS, lx).   of_contacts: (15, lm).
    R: (3 lm, lx).   moved, bent (nv, ld), W (lx, lx), next (2 nv,): of held steps.
    g, ends: where a record's weights on forces and the description of ends begin.
    """

    plan: int
    packed: int
    size_table: int
    size_integers: int
    size_reals: int
    modes_table: int
    integers: int
    reals: int
    table: int
    K: int
    Z: int
    D: int
    places: int
    end: int
    lm: int
    omega: int
    by_contact: int
    totals: int
    of_contacts: int
    R: int
    moved: int
    bent: int
    W: int
    next: int
    g: int
    ends: int


class PhaseCurvature:
    """A ``PhasePlan`` behind one address, alive as long as this object is. Who works in it must be alone."""

    def __init__(self, tree: Model, nq: int, nu: int, modes: Modes) -> None:
        nv = len(tree.body)
        where = layout(modes, nq, nv, nu)
        lx, lm = where.lx, max(where.lm, WIDTH)
        rows, held = [], []
        felt: list[NDArray[np.int64]] = []
        plan, packed = Curvature(tree, nq, nu, 0.0, True), Packed(tree, nq, nu)  # steps of time are the modes'
        self._kept = plan, packed, modes, felt
        for i, (kind, _, nc, *_) in enumerate(modes.table):
            contacts, _ = contacts_of(modes, i)
            m = len(contacts.body)
            moved = np.zeros((max(m, 1), lx))
            moved[:m, :nv] = _moved(tree, contacts)
            transposed, gains = np.zeros((nv, lm)), np.zeros((3, lm))
            transposed[:, :m] = moved[:m, :nv].T
            if kind != HELD:  # whose forces alone act where they begin
                gains[:, :m] = contacts.gains.T
            held += [moved, transposed, gains]
            quick = kind != IMPACT and bool((contacts.kind == POINT).all())
            rows.append([int(quick), m, int(nc)])
            felt.append(np.array(runs(np.repeat(moved[:m, :nv] > 0.0, 3, axis=0).T), dtype=np.int64))
        shapes = [array.shape for array in held]
        ld = where.ld
        shapes += [(padded(nv + 3 * lm),), (SUMS, lm), (SUMS, lx), (15, lm), (3 * lm, lx)]
        shapes += [(nv, ld), (nv, ld), (lx, lx), (2 * nv,)]
        sizes = [padded(int(np.prod(shape))) + WIDTH for shape in shapes]
        memory = np.zeros(sum(sizes) + WIDTH)
        self._reals = memory[-memory.ctypes.data // 8 % WIDTH :]
        places = np.cumsum([0, *sizes])[:-1]
        for place, array in zip(places, held, strict=False):
            self._reals[place : place + array.size] = array.ravel()
        at = [int(self._reals.ctypes.data + 8 * place) for place in places]
        for i, row in enumerate(rows):
            row += [*at[3 * i : 3 * i + 3], felt[i].ctypes.data]
        self._table = np.array(rows, dtype=np.int64)
        lists = [len(modes.table), len(modes.integers), len(modes.reals), *(array.ctypes.data for array in modes)]
        parts = [self._table.ctypes.data, *where[:5], lm, *at[3 * len(rows) :], where.g, where.ends]
        self._header = np.array([plan.address, packed.address, *lists, *parts], dtype=np.int64)
        self.address = int(self._header.ctypes.data)


def _moved(tree: Model, contacts: Contacts) -> NDArray[np.float64]:
    """(m, nv): one where a degree of freedom is on the way from a contact to the root."""
    moved = np.zeros((len(contacts.body), len(tree.body)))
    for i, body in enumerate(contacts.body):
        b = int(body)
        while b >= 0:
            moved[i, tree.iv[b] : tree.iv[b] + tree.nj[b]] = 1.0
            b = int(tree.parent[b])
    return moved


@kernel
def read_phase_plan(context):
    """The ``PhasePlan`` at an address."""
    x = carray(integer_pointer(context), 26)
    return PhasePlan(
        x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15], x[16],
        x[17], x[18], x[19], x[20], x[21], x[22], x[23], x[24], x[25],
    )  # fmt: skip


@kernel
def mode_at(c, i):
    """The row of mode i."""
    x = carray(integer_pointer(c.table + 56 * i), 7)
    return x[0], x[1], x[2], x[3], x[4], x[5], x[6]
