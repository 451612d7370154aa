# mypy: allow-untyped-defs, allow-untyped-calls
"""A user's cost that asks for quantities, such as a robot's: as a C function, by the chain rule.

Gauss-Newton's Hessian is that of the traced function by (dx, du, y), if need be its positive semidefinite part, pulled
back by the Jacobian of the quantities y: of ``|p - target|²`` that of the residual p.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import call_contraction, kernel
from ddp.costs.batch import CompiledCost
from ddp.costs.bound import EXACT, VALUES, bind
from ddp.costs.jitted import add_hessian
from ddp.machine.number import WIDTH
from ddp.tracing import chain
from ddp.tracing.evaluate import fill
from ddp.tracing.function import TracedFunction
from ddp.tracing.quantities import FIRST


def chained_cost(traced: TracedFunction, convex: bool) -> CompiledCost:
    """C function of a traced cost; convex: whether its Hessian by (dx, du, y) is constant and positive semidefinite."""
    code, alone, (count, (own, slope, bends), _) = traced.code, traced.layout("value"), traced.layout("all")
    curvature, (uses, kept) = chain.curvature_of(bends, traced.ne, traced.nz), traced.used
    where = code.addresses["value"], code.addresses["all"], max(alone.outputs, count)
    found = bind(_chained_cost, *where, int(convex), uses, *alone.blocks[0], *own, *slope, curvature)
    return found.owned(code, kept)


@kernel
def _chained_cost(
    value, whole, count, convex, uses, l1, l1_places, l2, l2_places, g, g_places, h, first, X, U, scale, order, l, lz,
    lzz,
):  # fmt: skip
    nx, nz, m, c = X.shape[1], lz.shape[1], h.rows.shape[0], uses.whole.shape[0]
    ny, begin_y, memory = chain.count_of(uses), nx + U.shape[1], chain.memory_for(uses)
    E, T, slope = np.empty((ny, c)), np.empty((m, c)), np.empty(nz + ny)
    G, found = np.empty((m, m)), np.empty((m, m))
    inputs, outputs = np.empty(WIDTH * (begin_y + ny)), np.empty(WIDTH * count)
    for begin in range(0, X.shape[0], WIDTH):
        fill(inputs, 0, X, begin)
        fill(inputs, nx, U, begin)
        chain.measure(uses, min(order, FIRST), X, U, begin, inputs, begin_y, memory)
        address, many = value if order == VALUES else whole, min(WIDTH, X.shape[0] - begin)
        call_contraction(address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        for lane in range(many):
            k = begin + lane
            if order == VALUES:
                l[k] += scale * entry(l1, l1_places, outputs, lane)
                continue
            l[k] += scale * entry(l2, l2_places, outputs, lane)
            for i in range(nz + ny):
                slope[i] = 0.0
            add_gradient(g, g_places, outputs, lane, 1.0, slope)
            for i in range(m):
                for j in range(m):
                    G[i, j] = h.template[i * m + j]
                    found[i, j] = 0.0
            for j in range(h.places.shape[0]):
                at = h.places[j, 1]
                G[at // m, at % m] = outputs[WIDTH * h.places[j, 0] + lane]
            add_hessian(G, 1.0, order == EXACT or convex != 0, found)
            chain.write_jacobian(uses, lane, memory, E)
            chain.weigh(uses, lane, slope[nz:], memory)
            for i in range(nz):
                lz[k, i] += scale * slope[i]
            for i in range(ny):
                if slope[nz + i] != 0.0:
                    for j in range(c):
                        lz[k, uses.whole[j]] += scale * slope[nz + i] * E[i, j]
            chain.add_pulled_back(uses, h.rows, h.direct, found, E, nz, scale, T, lzz[k])
        if order == EXACT:
            chain.add_curvatures(uses, many, begin, scale, memory, lzz)


@kernel
def entry(template, places, outputs, lane):
    """A block of one number."""
    return outputs[WIDTH * places[0, 0] + lane] if places.shape[0] > 0 else template[0]


@kernel
def add_gradient(template, places, outputs, lane, scale, slope):
    """slope (nz,) += scale times a block."""
    for i in range(template.shape[0]):
        slope[i] += scale * template[i]
    for j in range(places.shape[0]):
        slope[places[j, 1]] += scale * outputs[WIDTH * places[j, 0] + lane]
