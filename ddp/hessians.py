"""Costs' Hessians (N+1, nz, nz), of which many are diagonal: no more of those is touched than their diagonals."""

from __future__ import annotations

from ddp.kernel import kernel


@kernel
def clear_hessians(separable, start, stop, H):
    """H := 0 at the knots start .. stop-1, where the rest of the separable ones is zero already."""
    nz = H.shape[1]
    for t in range(start, stop):
        if separable[t]:
            for i in range(nz):
                H[t, i, i] = 0.0
        else:
            for i in range(nz):
                for j in range(nz):
                    H[t, i, j] = 0.0


@kernel
def scales(l, H, nu):
    """The sum of |l| (N+1,), and the mean of the diagonals in the last nu coordinates of H, but for knot N."""
    nz, magnitude, total = H.shape[1], abs(l[-1]), 0.0
    for t in range(H.shape[0] - 1):
        magnitude += abs(l[t])
        for i in range(nz - nu, nz):
            total += H[t, i, i]
    return magnitude, total / ((H.shape[0] - 1) * nu)


@kernel
def copy_diagonals(separable, start, stop, H, out):
    """The diagonals of H into ``out`` where the knots start .. stop-1 are separable."""
    for t in range(start, stop):
        if separable[t]:
            for i in range(H.shape[1]):
                out[t, i, i] = H[t, i, i]


@kernel
def differences(knots, H, G, out, used):
    """out (K, nz, nz) := H - G at K knots, of which the upper triangles count; used (nz,): whether a row is not zero."""
    nz = H.shape[1]
    used[:] = False
    for k in range(knots.size):
        for i in range(nz):
            for j in range(i, nz):
                out[k, i, j] = H[knots[k], i, j] - G[knots[k], i, j]
                out[k, j, i] = out[k, i, j]
                if out[k, i, j] != 0.0:
                    used[i], used[j] = True, True
