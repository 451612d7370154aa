# mypy: allow-untyped-defs, allow-untyped-calls
"""A user's constraint that asks for quantities, such as a robot's: as a C function, by the chain rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, kernel
from ddp.constraints.bound import CompiledConstraint, Kernels, bind
from ddp.machine.number import WIDTH
from ddp.tracing import chain
from ddp.tracing.evaluate import fill, place
from ddp.tracing.function import TracedFunction
from ddp.tracing.layout import Block
from ddp.tracing.quantities import FIRST


def entries_of(traced: TracedFunction) -> Block:
    """Jacobian (size, ne) by (dx, du, y) as one block."""
    _, blocks, _ = traced.layout("first")
    widths = (traced.n, traced.nu, traced.ny)[: len(blocks)]  # no block of y where there is none
    parts = [block.template.reshape(traced.size, width) for block, width in zip(blocks, widths, strict=True)]
    found = []
    for block, width, begin in zip(blocks, widths, (0, traced.n, traced.nz), strict=False):
        output, position = block.places.T
        row, column = np.divmod(position, max(width, 1))
        found.append(np.stack([output, traced.ne * row + begin + column], axis=1))
    return Block(np.concatenate(parts, axis=1).ravel(), np.concatenate(found))


def depends(traced: TracedFunction) -> NDArray[np.bool_]:
    """Whether each row of a constraint depends on each number of z: (size, nz)."""
    template, places = entries_of(traced)
    by = template.reshape(traced.size, traced.ne) != 0.0
    by.ravel()[places[:, 1]] = True
    first = traced.nz
    for use in traced.uses:
        columns = [column for column in use.columns if column >= 0]
        by[np.ix_(by[:, first : first + use.quantity.size].any(axis=1), columns)] = True
        first += use.quantity.size
    return np.asarray(by[:, : traced.nz])


def chained_constraint(traced: TracedFunction) -> CompiledConstraint:
    """C function of a traced constraint."""
    code, value, second = traced.code, traced.layout("value"), traced.layout("second")
    curvature, (uses, kept) = chain.curvature_of(second.blocks[0], traced.ne, traced.nz), traced.used
    columns = np.flatnonzero(depends(traced).any(axis=0))
    made = bind(
        Kernels(chained_values, chained_jacobian, chained_curvature), uses,
        code.addresses["value"], value.outputs, *value.blocks[0],
        code.addresses["first"], traced.layout("first").outputs, *entries_of(traced),
        code.addresses["second"], second.outputs, curvature, columns, np.searchsorted(columns, uses.whole),
        columns=columns,
    )  # fmt: skip
    return made.owned(code, kept)


@kernel
def chained_values(
    uses, value, count, template, places, first, m, j, j_places, second, s, h, columns, spots, X, U, c
):  # fmt: skip
    """Outputs of ``value``."""
    chain.evaluate_chained(value, uses, X, U, np.empty((X.shape[0], 0)), count, template, places, c)


@kernel
def chained_jacobian(
    uses, value, count, template, places, first, m, j, j_places, second, s, h, columns, spots, X, U, J
):  # fmt: skip
    """Jacobian in ``columns`` of z; spots: places of ``uses.whole`` among them."""
    M, size, nx, ny = J.shape[0], J.shape[1], X.shape[1], chain.count_of(uses)
    ne, begin_y, memory = j.shape[0] // size, nx + U.shape[1], chain.memory_for(uses)
    nz, D, E = ne - ny, np.empty((M, j.shape[0])), np.empty((ny, spots.shape[0]))
    inputs, outputs = np.empty(WIDTH * (begin_y + ny)), np.empty(WIDTH * m)
    for begin in range(0, M, WIDTH):
        fill(inputs, 0, X, begin)
        fill(inputs, nx, U, begin)
        chain.measure(uses, FIRST, X, U, begin, inputs, begin_y, memory)
        call_contraction(first, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        place(outputs, j, j_places, begin, D)
        for lane in range(min(WIDTH, M - begin)):
            k = begin + lane
            chain.write_jacobian(uses, lane, memory, E)
            for r in range(size):
                for i in range(columns.shape[0]):
                    J[k, r, i] = D[k, r * ne + columns[i]]
                for i in range(ny):
                    d = D[k, r * ne + nz + i]
                    if d != 0.0:
                        for l in range(spots.shape[0]):
                            J[k, r, spots[l]] += d * E[i, l]


@kernel
def chained_curvature(
    uses, value, count, template, places, first, m, j, j_places, second, s, h, columns, spots, X, U, weight, H
):  # fmt: skip
    """Hessian by z of the constraints' weighted sum."""
    M, size, n, nx, ny = X.shape[0], weight.shape[1], h.rows.shape[0], X.shape[1], chain.count_of(uses)
    ne, begin_y, memory = j.shape[0] // size, nx + U.shape[1], chain.memory_for(uses)
    nz, D, bends = ne - ny, np.empty((M, j.shape[0])), np.empty((M, n * n))
    E, T, w = np.empty((ny, spots.shape[0])), np.empty((n, spots.shape[0])), np.empty(ny)
    inputs, outputs = np.empty(WIDTH * (begin_y + ny + size)), np.empty(WIDTH * max(m, s))
    for begin in range(0, M, WIDTH):
        many = min(WIDTH, M - begin)
        fill(inputs, 0, X, begin)
        fill(inputs, nx, U, begin)
        chain.measure(uses, FIRST, X, U, begin, inputs, begin_y, memory)
        fill(inputs, begin_y + ny, weight, begin)
        call_contraction(first, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        place(outputs, j, j_places, begin, D)
        call_contraction(second, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        place(outputs, h.template, h.places, begin, bends)
        for lane in range(many):
            k = begin + lane
            for i in range(ny):
                w[i] = 0.0
                for r in range(size):
                    w[i] += weight[k, r] * D[k, r * ne + nz + i]
            chain.weigh(uses, lane, w, memory)
            chain.write_jacobian(uses, lane, memory, E)
            chain.add_pulled_back(uses, h.rows, h.direct, bends[k].reshape(n, n), E, nz, 1.0, T, H[k])
        chain.add_curvatures(uses, many, begin, 1.0, memory, H)
