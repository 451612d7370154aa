"""Motion under contacts and impacts of eight states at once, by sparse factors alone: what rollouts and forces need.

With M = Lᵀ D L of the tree (forward.py) and rows Y = J L⁻¹, which have the entries of J's paths to the root alone,

    z = L⁻ᵀ (τ - bias)     Σ = Y D⁻¹ Yᵀ     f = -Σ⁻¹ (c + Y D⁻¹ z)     a = L⁻¹ D⁻¹ (z + Yᵀ f)

c what must vanish at contacts without joint accelerations. In an impact z = 0 and c = J (1 + e) v. The factors of Σ
are exact: contacts that are redundant are told by their pivots, and are for contact_batch.py to solve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.kernel import kernel
from dynamics.contact_kinematics import contact_jacobian, place_contacts
from dynamics.forward import factorize
from dynamics.inverse import generalized_forces, mass_matrix
from dynamics.kinematics import forces, place_bodies, sum_composites
from dynamics.lanes import WIDTH, lane_array, lane_matrix, lane_vector


class Factors(NamedTuple):
    """What is found: a (nv,), f (nc,), D (nv,), pivots (nc,) relative to the diagonal; scratch z, c, LD, Y, Σ."""

    a: np.ndarray
    f: np.ndarray
    D: np.ndarray
    pivots: np.ndarray
    z: np.ndarray
    c: np.ndarray
    LD: np.ndarray
    Y: np.ndarray
    sigma: np.ndarray


def lane_factors_size(nv: int, nc: int) -> int:
    """How many lanes ``lane_factors`` takes, and what it is given."""
    return 3 * nv + 3 * nc + nv * nv + nc * nv + nc * nc


@kernel
def lane_factors(arena, a, f, D, pivots):
    """`Factors` of eight states with its results in the memory given."""
    nv, nc = a.shape[0], f.shape[0]
    return Factors(
        lane_array(a), lane_array(f), lane_array(D), lane_array(pivots), lane_vector(arena, nv), lane_vector(arena, nc),
        lane_matrix(arena, nv, nv), lane_matrix(arena, nc, nv), lane_matrix(arena, nc, nc),
    )  # fmt: skip


@kernel
def factor_motion(tree, contacts, q, v, tau, no_fext, ws, place, s):
    """LD, D and z of free motion, J in Y; leaves motions at a = 0 for ``move_contacts``."""
    place_bodies(tree, q, True, ws)
    for i in range(tree.body.size):
        s.a[i] = 0.0
    forces(tree, v, s.a, no_fext, ws)
    sum_composites(tree, ws)
    mass_matrix(tree, ws, s.LD)
    factorize(tree, s.LD, s.D)
    generalized_forces(tree, s.a, ws, s.z)
    for i in range(tree.body.size - 1, -1, -1):
        s.z[i] = tau[i] - s.z[i]
    for i in range(tree.body.size - 1, -1, -1):
        j = tree.previous[i]
        while j >= 0:
            s.z[j] -= s.LD[i, j] * s.z[i]
            j = tree.previous[j]
    place_contacts(tree, contacts, q, ws, place)
    contact_jacobian(tree, contacts, ws, place, s.Y)


@kernel
def last_dof(tree, contacts, i):
    """The degree of freedom that is nearest to contact i."""
    b = contacts.body[i]
    return tree.iv[b] + tree.nj[b] - 1


@kernel
def row_end(contacts, i, nc):
    """Where the rows of contact i end."""
    return contacts.row[i + 1] if i + 1 < contacts.row.size else nc


@kernel
def reduce_jacobian(tree, contacts, s):
    """Y := J L⁻¹, and Σ = Y D⁻¹ Yᵀ on and below its diagonal."""
    LD, Y, sigma, nc = s.LD, s.Y, s.sigma, s.f.size
    for i in range(contacts.body.size):
        first, end = contacts.row[i], row_end(contacts, i, nc)
        k = last_dof(tree, contacts, i)
        while k >= 0:
            j = tree.previous[k]
            while j >= 0:
                factor = LD[k, j]
                for r in range(first, end):
                    Y[r, j] -= factor * Y[r, k]
                j = tree.previous[j]
            k = tree.previous[k]
        for r in range(first, end):
            for c in range(r + 1):
                total = 0.0 * s.D[0]
                k = last_dof(tree, contacts, i)
                while k >= 0:
                    total += (Y[r, k] * LD[k, k]) * Y[c, k]
                    k = tree.previous[k]
                sigma[r, c] = total


@kernel
def factor_sigma(s):
    """Σ = N P Nᵀ: N strictly below the diagonal of Σ, P⁻¹ on it."""
    sigma = s.sigma
    for i in range(s.f.size):
        pivot = sigma[i, i]
        for j in range(i):
            total = sigma[i, j]
            for k in range(j):
                total -= sigma[i, k] * sigma[j, k]
            sigma[i, j] = total
        for j in range(i):
            scaled = sigma[i, j] * sigma[j, j]
            pivot -= scaled * sigma[i, j]
            sigma[i, j] = scaled
        s.pivots[i] = pivot / sigma[i, i]
        sigma[i, i] = 1.0 / pivot


@kernel
def push_back(tree, contacts, s):
    """f and a, from z and c (which changes), Y and the factors of Σ."""
    LD, Y, sigma, f, nc = s.LD, s.Y, s.sigma, s.f, s.f.size
    for i in range(contacts.body.size):
        for r in range(contacts.row[i], row_end(contacts, i, nc)):
            total = -s.c[r]
            k = last_dof(tree, contacts, i)
            while k >= 0:
                total -= (Y[r, k] * LD[k, k]) * s.z[k]
                k = tree.previous[k]
            for c in range(r):
                total -= sigma[r, c] * f[c]
            f[r] = total
    for r in range(nc - 1, -1, -1):
        total = f[r] * sigma[r, r]
        for c in range(r + 1, nc):
            total -= sigma[c, r] * f[c]
        f[r] = total
    for i in range(contacts.body.size):
        for r in range(contacts.row[i], row_end(contacts, i, nc)):
            k = last_dof(tree, contacts, i)
            while k >= 0:
                s.z[k] += Y[r, k] * f[r]
                k = tree.previous[k]
    for i in range(tree.body.size):
        total = s.z[i] * LD[i, i]
        j = tree.previous[i]
        while j >= 0:
            total -= LD[i, j] * s.a[j]
            j = tree.previous[j]
        s.a[i] = total


@kernel
def see_impact(restitution, v, s):
    """c := (1 + e) J v, before Y is reduced."""
    for r in range(s.f.size):
        total = 0.0 * v[0]
        for k in range(v.size):
            total += s.Y[r, k] * v[k]
        s.c[r] = (1.0 + restitution) * total


@kernel
def is_any_redundant(pivots, count, limit):
    """Whether any contact of the first ``count`` lanes of pivots (nc, 8) holds what others hold already."""
    for i in range(pivots.shape[0]):
        for lane in range(min(count, WIDTH)):
            if pivots[i, lane] <= limit:
                return True
    return False
