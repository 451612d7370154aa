# mypy: allow-untyped-defs, allow-untyped-calls
"""Derivatives and steps of compositions: a system whose controls, and numbers kept beside its state, are functions.

``u = g(x, s, r)``, ``x' = f(x, u)``, ``s' = a(x, s, r)``. With z = (dx, ds, dr), G = ∂g/∂z, S = ∂a/∂z, and A, B of f:

    x':  (A 0 0) + B G         s':  S         H = Tᵀ H_f T + ∇²((Bᵀ w_x)·g + w_s·a),   T = (1 0 0; G)
"""

import numpy as np

from ddp.compiling.kernel import call_contraction, callback, kernel
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import hold
from ddp.machine.number import WIDTH


@kernel
def compose(A, B, by_x, by_r, nu, A_out, B_out, record, begin):
    """First order of M knots from A, B of the system and derivatives of (g, a) by (dx, ds) and dr.

    record (M, .): from ``begin`` on, B and G.
    """
    n, n_all, nr = A.shape[1], by_x.shape[2], by_r.shape[2]
    for k in range(A.shape[0]):
        for i in range(n):
            for j in range(n_all):
                A_out[k, i, j] = A[k, i, j] if j < n else 0.0
            for j in range(nr):
                B_out[k, i, j] = 0.0
            for l in range(nu):
                b = B[k, i, l]
                record[k, begin + nu * i + l] = b
                if b != 0.0:
                    for j in range(n_all):
                        A_out[k, i, j] += b * by_x[k, l, j]
                    for j in range(nr):
                        B_out[k, i, j] += b * by_r[k, l, j]
        for l in range(nu):
            row = begin + n * nu + l * (n_all + nr)
            for j in range(n_all):
                record[k, row + j] = by_x[k, l, j]
            for j in range(nr):
                record[k, row + n_all + j] = by_r[k, l, j]
        for i in range(n_all - n):
            for j in range(n_all):
                A_out[k, n + i, j] = by_x[k, nu + i, j]
            for j in range(nr):
                B_out[k, n + i, j] = by_r[k, nu + i, j]


@kernel
def weights_of_functions(B, weight, out):
    """out := weights on g and a: Bᵀ w_x, w_s.  B (n, nu), weight (n + ns,), out (nu + ns,)."""
    n, nu = B.shape
    for l in range(nu):
        total = 0.0
        for i in range(n):
            total += B[i, l] * weight[i]
        out[l] = total
    for i in range(weight.shape[0] - n):
        out[nu + i] = weight[n + i]


@kernel
def add_pulled(Hf, G, n, H):
    """H += Tᵀ Hf T of symmetric Hf (n + nu, n + nu), G (nu, nz), H (nz, nz), which stays symmetric."""
    nu, nz = G.shape
    for a in range(n):
        for b in range(n):
            H[a, b] += Hf[a, b]
    uneven = False
    for l in range(nu):
        if not Hf[n + l].any():
            continue
        uneven = True
        for b in range(nz):
            g = G[l, b]
            if g == 0.0:
                continue
            for a in range(n):
                H[a, b] += Hf[n + l, a] * g
                H[b, a] += Hf[n + l, a] * g
            for m in range(nu):
                h = Hf[n + l, n + m] * g
                if h != 0.0:
                    for a in range(nz):
                        H[b, a] += G[m, a] * h
    if uneven:  # to rounding
        for a in range(nz):
            for b in range(a):
                H[a, b] = H[b, a] = 0.5 * (H[a, b] + H[b, a])


@kernel
def pull(Hf, record, begin, n, H):
    """H (M, nz, nz) += Tᵀ Hf T of M knots, G being in records (M, .) from ``begin`` on."""
    nz = H.shape[1]
    nu = Hf.shape[1] - n
    for k in range(Hf.shape[0]):
        add_pulled(Hf[k], record[k, begin : begin + nu * nz].copy().reshape((nu, nz)), n, H[k])


WORDS = 9


@callback
def contract_one(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """C function of `system.Contraction`.

    context: words, which are the contraction of the system and of (g, a), n, nu, ns, nr, and floats of f's record.
    """
    w = integers_at(context, (WORDS,))
    n, nu, ns, nr, begin = w[4], w[5], w[6], w[7], w[8]
    nz = n + ns + nr
    B = array_at(record + 8 * begin, (n, nu))
    G = array_at(record + 8 * (begin + n * nu), (nu, nz))
    Hf, own = np.empty((n + nu, n + nu)), np.empty(nu + ns)
    weights_of_functions(B, array_at(weight, (n + ns,)), own)
    call_contraction(w[0], w[1], record, weight, Hf.ctypes.data)
    call_contraction(w[2], w[3], record + 8 * (begin + n * nu + nu * nz), own.ctypes.data, hessian)
    hold(own)
    add_pulled(Hf, G, n, array_at(hessian, (nz, nz)))


@callback
def step_eight(inputs, outputs, context, knot):  # type: ignore[no-untyped-def]
    """C function of `system.Stepping`.

    context: words, which are the step of the system and its context, where (g, a) are, nx, nu, ns, nr, and addresses of
    memory for what they give and for what the step is given, whose parameters are there.
    """
    w = integers_at(context, (WORDS,))
    nx, nu, ns = w[3], w[4], w[5]
    call_contraction(w[2], inputs, w[7], 0, 0)
    given, found = array_at(w[8], (WIDTH * (nx + nu),)), array_at(w[7], (WIDTH * (nu + ns),))
    x, after = array_at(inputs, (WIDTH * nx,)), array_at(outputs, (WIDTH * (nx + ns),))
    for i in range(WIDTH * nx):
        given[i] = x[i]
    for i in range(WIDTH * nu):
        given[WIDTH * nx + i] = found[i]
    call_contraction(w[0], w[8], outputs, w[1], knot)
    for i in range(WIDTH * ns):
        after[WIDTH * nx + i] = found[WIDTH * nu + i]
