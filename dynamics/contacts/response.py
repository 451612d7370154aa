# mypy: allow-untyped-defs, allow-untyped-calls
"""Response of constraints to forces at contacts, and the inverse of K = [M -Jᵀ ; C ε] by it.

C is what a constraint sees of accelerations: J, but for steps that end where contacts are held (phases/held_steps.py).
With G = M⁻¹ Jᵀ and S = (C G + ε)⁻¹, for C = J the inverse of the Delassus matrix,

    K⁻¹ = [M⁻¹ - G S C M⁻¹   G S ; -S C M⁻¹   S]

Arguments r are relations of contacts/relation.py, of any number. ε, a diagonal, is for C = J alone: where a caller asks
for one number, and in lanes whose contacts turn out to be redundant, there `Contacts.softness`.

Entries of S are as large as 1/ε. Their rounding leaves a residual of C a + ε f where forces do move bodies, which turns
into the directions where they do not as q changes: ∂f/∂q takes it times 1/ε once more, and Hessians so that of ∂f/∂q.
``respond`` and ``refine`` therefore solve for what is left once more, also where contacts are nearly redundant.
"""

import numpy as np

from ddp.compiling.kernel import apart, inline, kernel
from ddp.machine.memory import as_vector
from ddp.machine.number import all_less, lane_of, where_less, width, with_lane
from dynamics.arrays.products import dense_product
from dynamics.contacts.products import path_product, settle_still_rows, turn_tilted_rows

REDUNDANT = 1e-10
"""Contacts are redundant where a pivot of C G falls below this part of its diagonal."""

NEARLY = 1e-4
"""Contacts are nearly so below this part: rounding of S is magnified by its inverse, and squared in derivatives."""

SURE = 1e3
"""Rounding that elimination magnifies by more than this lowers the pivots behind in proportion, see `judge_pivot`."""


@kernel
def invert_delassus(tree, contacts, epsilon, r):
    """r.S := (J G + ε)⁻¹; needs J, G and M⁻¹. Redundant contacts have an ε of their own."""
    invert_response(tree, contacts, r.J, r)
    if epsilon > 0.0 or are_below(REDUNDANT, r.pivots, r.nc):
        invert_redundant(tree, contacts, r.nc, epsilon, r)


@kernel
def form_response(tree, contacts, nc, C, r):
    """r.S := C G, in ``Contacts.axes``."""
    path_product(tree, contacts, C, r.G, nc, r.S)
    settle_still_rows(contacts, nc, r.S)


@kernel
def eliminate(n, A, x, pivots):
    """x := A⁻¹ x by Gauss, pivot by pivot; their sizes relative to the diagonal, see `judge_pivot`. A is overwritten.

    The symmetric part of C G is positive definite where contacts are independent, C being J but for O(h): no choice of
    pivots is needed.
    """
    for i in range(n):
        pivots[i] = A[i, i]
    for j in range(n):
        judge_pivot(A, j, n, pivots)
        inverse = 1.0 / A[j, j]
        A[j, j] = inverse
        for i in range(j + 1, n):
            factor = A[i, j] * inverse
            for k in range(j + 1, n):
                A[i, k] -= factor * A[j, k]
            x[i] -= factor * x[j]
    for j in range(n - 1, -1, -1):
        own = x[j] * A[j, j]
        x[j] = own
        for i in range(j):
            x[i] -= A[i, j] * own


@kernel
def judge_pivot(A, j, n, pivots):
    """pivots[j] := the size of pivot j relative to its diagonal, or to more than that; others hold what theirs will be.

    A pivot of rounding alone is as large as that of the pivots before, times the factors between, squared: these are 1
    over a pivot before at most, and zero between contacts of separate bodies.
    """
    size = A[j, j] / pivots[j]
    share = pivots[j] / (A[j, j] * A[j, j]) * (1.0 / SURE)
    pivots[j] = where_less(size, 0.0, -size, size)
    for i in range(j + 1, n):
        grown = share * A[i, j] * A[j, i]
        grown = where_less(grown, 0.0, -grown, grown)
        pivots[i] = where_less(pivots[i], grown, grown, pivots[i])


@kernel
def invert_response(tree, contacts, C, r):
    """r.S := (C G)⁻¹ by Gauss and Jordan, r.pivots as ``eliminate`` has them, r.CM := C M⁻¹; needs G."""
    nc, nv = r.nc, r.nv
    path_product(tree, contacts, C, r.Minv, nv, r.CM)
    form_response(tree, contacts, nc, C, r)
    S = r.S
    for c in range(nc):
        r.pivots[c] = S[c, c]
    for c in range(nc):
        judge_pivot(S, c, nc, r.pivots)
        inverse = 1.0 / S[c, c]
        S[c, c] = 1.0
        for j in range(nc):
            S[c, j] = S[c, j] * inverse
        for i in range(nc):
            if i != c:
                factor = S[i, c]
                S[i, c] = 0.0
                for j in range(nc):
                    S[i, j] -= factor * S[c, j]
    turn_tilted_rows(contacts, True, nc, S)


@kernel
def are_below(least, pivots, n):
    """Whether a pivot is less than ``least``, in any lane."""
    found = False
    for i in range(n):
        found = found or not all_less(0.5, where_less(pivots[i], least, 0.0, 1.0))
    return found


@kernel
def is_redundant(pivots, n, lane):
    """Whether contacts hold what others hold already, in one lane."""
    found = False
    for i in range(n):
        found = found or lane_of(pivots[i], lane) < REDUNDANT
    return found


@apart
def solve_redundant(contacts, n, S, x, pivots):
    """x := (S + ε)⁻¹ x in the lanes whose contacts are redundant; lanes that repeat S share the inverse."""
    A, inverse, b = np.full((n, n), np.nan), np.empty((n, n)), np.empty(n)
    for lane in range(width(pivots[0])):
        if is_redundant(pivots, n, lane):
            known = True
            for i in range(n):
                for j in range(n):
                    entry = lane_of(S[i, j], lane)
                    known = known and entry == A[i, j]
                    A[i, j] = entry
            if not known:
                for i in range(n):
                    for j in range(n):
                        inverse[i, j] = A[i, j]
                invert_regularized(contacts, 0.0, inverse)
            for i in range(n):
                b[i] = lane_of(x[i], lane)
            for i in range(n):
                total = 0.0
                for j in range(n):
                    total += inverse[i, j] * b[j]
                x[i] = with_lane(x[i], lane, total)


@apart
def invert_redundant(tree, contacts, n, epsilon, r):
    """r.S := (J G + ε)⁻¹ with the ε asked for, in all lanes, or with its own in those whose contacts are redundant.

    Of complex numbers only real parts are inverted. ``respond`` makes up for that once: complex steps of a and f by q
    are right to some 5e-6 then. Refining twice would make that 1e-10; floats have no use for it.
    """
    inverse, A = r.S, np.empty((width(r.pivots[0]), n, n))
    for lane in range(len(A)):
        for i in range(n):
            for j in range(n):
                A[lane, i, j] = lane_of(inverse[i, j], lane)
    form_response(tree, contacts, n, r.J, r)
    for lane in range(len(A)):
        if epsilon > 0.0 or is_redundant(r.pivots, n, lane):
            for i in range(n):
                for j in range(n):
                    A[lane, i, j] = lane_of(r.S[i, j], lane)
            invert_regularized(contacts, epsilon, A[lane])
            turn_tilted_rows(contacts, True, n, A[lane])
    for lane in range(len(A)):
        for i in range(n):
            for j in range(n):
                r.S[i, j] = with_lane(r.S[i, j], lane, A[lane, i, j])


@kernel
def invert_regularized(contacts, epsilon, A):
    """A := (A + ε)⁻¹ by eigenvectors, whose rounding is magnified by 1/ε and not by 1/ε²; NaN if A is not finite.

    They are those of A in units in which ε is one. Where rows hold nothing, ∞ on the diagonal becomes zero.
    """
    n, total, share = len(A), 0.0, np.empty(len(A))
    for i in range(n):
        share[i] = 1.0 / np.sqrt(epsilon if epsilon > 0.0 else contacts.softness[i])
        if A[i, i] == np.inf:
            A[i, i], share[i] = 1.0, 0.0
    for i in range(n):
        for j in range(n):
            A[i, j] *= share[i] * share[j]
            total += abs(A[i, j])
    if n == 0 or not total < np.inf:
        for i in range(n):
            for j in range(n):
                A[i, j] = np.nan
        return
    values, vectors = np.linalg.eigh(A)
    largest = max(abs(values[0]), abs(values[n - 1]))  # in ascending order
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(values.size):
                value = values[k] if values[k] > REDUNDANT * largest else 0.0
                total += vectors[i, k] * vectors[j, k] / (value + 1.0)
            A[i, j] = A[j, i] = total * share[i] * share[j]


@kernel
def least_pivot(r):
    """The least pivot of every lane."""
    least = 1.0
    for i in range(r.nc):
        least = where_less(r.pivots[i], least, r.pivots[i], least)
    return least


@inline
def softness(contacts, epsilon, least, i):
    """ε of row i in every lane: the one asked for, or that of redundant contacts where they are, or zero."""
    return where_less(least, REDUNDANT, contacts.softness[i], 0.0) if epsilon == 0.0 else 0.0 * least + epsilon


@inline
def where_refined(epsilon, least, left):
    """Residual that is left, in lanes where it is taken away once more; else zero."""
    return left if epsilon > 0.0 else where_less(least, NEARLY, left, 0.0)


@kernel
def respond(contacts, epsilon, r):
    """f, and a += G f, so that c + J a + ε f = 0 for the c of r.c; r.down and r.right are scratch.

    Where there is an ε, or nearly one, f is refined once, which takes the rounding of S from the residual.
    """
    nc, gap = r.nc, as_vector(r.down)
    for i in range(nc):
        r.f[i] = 0.0 * r.c[i]
        gap[i] = see_acceleration(r, i)
    push(r, gap)
    if epsilon > 0.0 or are_below(NEARLY, r.pivots, nc):
        least = least_pivot(r)
        for i in range(nc):
            soft = softness(contacts, epsilon, least, i)
            gap[i] = where_refined(epsilon, least, see_acceleration(r, i) + soft * r.f[i])
        push(r, gap)


@kernel
def see_acceleration(r, i):
    """Row i of c + J a."""
    total = r.c[i]
    for k in range(r.nv):
        total = total + r.J[i, k] * r.a[k]
    return total


@kernel
def push(r, gap):
    """f -= S gap, and a with it."""
    nc, nv, change = r.nc, r.nv, as_vector(r.right)
    for i in range(nc):
        total = 0.0 * gap[i]
        for j in range(nc):
            total = total - r.S[i, j] * gap[j]
        change[i] = total
        r.f[i] = r.f[i] + total
    for i in range(nv):
        total = r.a[i]
        for k in range(nc):
            total = total + r.G[i, k] * change[k]
        r.a[i] = total


@kernel
def refine(contacts, epsilon, r, share, columns, z):
    """z -= K⁻¹ (0 ; share c_y + J z_a + ε z_f) in lanes to refine, after ``invert_kkt``: columns of z_y, or of z_τ.

    share: 1, or 0 for z_τ, the first columns of K⁻¹. r.c is scratch.
    """
    if epsilon == 0.0 and not are_below(NEARLY, r.pivots, r.nc):
        return
    least, nc, nv = least_pivot(r), r.nc, r.nv
    for j in range(columns):
        for i in range(nc):
            soft = softness(contacts, epsilon, least, i)
            total = share * r.cq[i, j] + soft * z[nv + i, j]
            for k in range(nv):
                total = total + r.J[i, k] * z[k, j]
            r.c[i] = where_refined(epsilon, least, total)
        for i in range(nv + nc):
            total = z[i, j]
            for k in range(nc):
                total = total - r.Kinv[i, nv + k] * r.c[k]
            z[i, j] = total


@kernel
def invert_kkt(r):
    """K⁻¹ of a solved relation, its blocks among the scratch as well."""
    nc, nv = r.nc, r.nv
    K = r.Kinv
    for i in range(nv):
        for j in range(nv):
            K[i, j] = r.Minv[i, j]
    if nc == 0:
        return
    dense_product(nc, nv, nc, -1.0, r.S, r.CM, r.down)
    dense_product(nv, nc, nc, 1.0, r.G, r.S, r.right)
    dense_product(nv, nv, nc, 1.0, r.G, r.down, r.corner)
    for i in range(nv):
        for j in range(nv):
            K[i, j] += r.corner[i, j]
        for j in range(nc):
            K[i, nv + j] = r.right[i, j]
    for i in range(nc):
        for j in range(nv):
            K[nv + i, j] = r.down[i, j]
        for j in range(nc):
            K[nv + i, nv + j] = r.S[i, j]
