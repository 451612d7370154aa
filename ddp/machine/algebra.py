# mypy: allow-untyped-defs, allow-untyped-calls
"""Small dense algebra of one knot."""

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.number import WIDTH
from ddp.machine.simd import load_some, multiply_add, store_some

PIVOT = 1e-15
"""A pivot this much smaller than its diagonal entry is rounding: the matrix counts as singular."""

ROUNDS, ROUNDING = 30, 1e-17
"""Most sweeps of rotations, six to ten being usual; and how small entries beside the diagonal are in the end."""


@kernel
def factorize(L):
    """Factorize a symmetric matrix in place, L lower; False if it is not positive definite, or NaN."""
    n = len(L)
    for j in range(n):
        diagonal = L[j, j]
        pivot = diagonal
        for m in range(j):
            pivot -= L[j, m] * L[j, m]
        if not (pivot > PIVOT * abs(diagonal)):
            return False
        L[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            total = L[i, j]
            for m in range(j):
                total -= L[i, m] * L[j, m]
            L[i, j] = total / L[j, j]
    return True


@kernel
def dot(a, b, size):
    """Σ a_i b_i of two vectors' first entries, in four sums that do not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = size // 4 * 4
    for i in range(0, whole, 4):
        first += a[i] * b[i]
        second += a[i + 1] * b[i + 1]
        third += a[i + 2] * b[i + 2]
        fourth += a[i + 3] * b[i + 3]
    for i in range(whole, size):
        first += a[i] * b[i]
    return (first + second) + (third + fourth)


@kernel
def positive_part(H):
    """H := the positive semidefinite matrix nearest to it, as `terms.positive_part`; NaN where it is not finite."""
    n = len(H)
    V = np.eye(n)
    finite = diagonalise(H, V)
    for l in range(n):
        root = np.sqrt(max(H[l, l], 0.0))
        for i in range(n):
            V[l, i] *= root
    for i in range(n):
        for j in range(n):
            H[i, j] = 0.0 if finite else np.nan
            for l in range(n):
                H[i, j] += V[l, i] * V[l, j]


@kernel
def diagonalise(A, V):
    """A symmetric matrix A := V A Vᵀ, diagonal, V orthogonal, by Jacobi's rotations; V is the unit matrix at first.

    False where A is not finite. Golub & Van Loan (2013), §8.5.
    """
    n = len(A)
    for _ in range(ROUNDS):
        largest, beside = 0.0, 0.0
        for i in range(n):
            for j in range(i + 1):
                if not abs(A[i, j]) < np.inf:
                    return False
                if i == j:
                    largest = max(largest, abs(A[i, i]))
                else:
                    beside = max(beside, abs(A[i, j]))
        if beside <= ROUNDING * largest:
            break
        for p in range(n):
            for q in range(p + 1, n):
                if A[p, q] != 0.0:
                    cotangent = 0.5 * (A[q, q] - A[p, p]) / A[p, q]
                    t = 1.0 / (abs(cotangent) + np.sqrt(1.0 + cotangent * cotangent))
                    c = 1.0 / np.sqrt(1.0 + t * t)
                    rotate(A, V, p, q, c, c * t if cotangent >= 0.0 else -c * t)
    return True


@kernel
def rotate(A, V, p, q, c, s):
    """Rows and columns p and q of A, and rows of V, by the rotation with cosine c and sine s that makes A_pq zero."""
    for i in range(len(A)):
        a, b = A[i, p], A[i, q]
        A[i, p], A[i, q] = c * a - s * b, s * a + c * b
    for i in range(len(A)):
        a, b = A[p, i], A[q, i]
        A[p, i], A[q, i] = c * a - s * b, s * a + c * b
        a, b = V[p, i], V[q, i]
        V[p, i], V[q, i] = c * a - s * b, s * a + c * b
    A[p, q], A[q, p] = 0.0, 0.0


@kernel
def add_product(g, M, z, rows, columns, apart):
    """g (columns,) += Mᵀ z (rows,), M with its rows ``apart``."""
    for i in range(0, columns, WIDTH):
        count = min(WIDTH, columns - i)
        total = load_some(g, i, count)
        for j in range(rows):
            total = multiply_add(z[j], load_some(M, apart * j + i, count), total)
        store_some(g, i, total, count)


@kernel
def add_square(J, w, size, columns, H, apart):
    """H (columns, columns), its rows ``apart``, += Jᵀ diag(w) J of J (size, columns); the upper half, then mirrored."""
    for j in range(columns):
        for i in range(j // WIDTH * WIDTH, columns, WIDTH):
            count = min(WIDTH, columns - i)
            total = load_some(H, apart * j + i, count)
            for r in range(size):
                total = multiply_add(w[r] * J[columns * r + j], load_some(J, columns * r + i, count), total)
            store_some(H, apart * j + i, total, count)
    for j in range(columns):
        for l in range(j):
            H[apart * j + l] = H[apart * l + j]
