"""State of a descent between two iterations: arrays from which it goes on, to the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.models.built_in import Model
from ddp.protocols import Array
from ddp.sweeps.outcome import Sweep

if TYPE_CHECKING:
    from ddp.descent import Descent

NUMBERS = (
    "cost", "gap", "highest", "magnitude", "control_weight", "damping", "unit", "resolution", "noise", "grain",
    "settled",
)  # fmt: skip
"""Numbers of an iterate."""


def state_of(descent: Descent) -> list[Array]:
    """Copies of all that a descent goes on from, after compiled iterations have been left."""
    i, b, s = descent.iterate, descent.iterate.found, descent.iterate.swept
    signs = [descent.asks, i.limited, i.guess is None, i.motion is None, i.known]
    swept = [] if s is None else [s.d0, s.expected, s.gradient, s.failed]
    lost, kept = i.line.lost or (), [] if b is None else [np.array(b.state), *b.kept]
    of_iterate = [getattr(i, name) for name in NUMBERS]
    parts = signs, of_iterate, _flat(descent), i.X, i.U, i.gaps, swept, [len(lost), len(kept)], *lost, *kept
    return [np.array(part, dtype=np.float64) for part in parts]


def resume(descent: Descent, state: Sequence[Array]) -> None:
    """Go on from where it stood."""
    i, (signs, numbers, model, X, U, gaps, swept, (lost, kept), *rest) = descent.iterate, state
    asks, limited, led, recalled, known = signs.astype(int).tolist()
    descent.asks = bool(asks)
    if limited:
        i.limit()
    if led:
        i.guess = None
    if recalled:
        i.motion, i.bound = None, np.inf
    i.arrive(X, U, gaps)
    i.known = 0
    if known:
        i.know(known)
    for name, number in zip(NUMBERS, numbers.tolist(), strict=True):
        setattr(i, name, int(number) if name == "settled" else number)
    i.line.lost = (rest[0], rest[1]) if lost else None
    if int(kept):
        of_sweeps, *arrays = rest[int(lost) :]
        i.backward.state = int(of_sweeps[0]), int(of_sweeps[1])
        for own, array in zip(i.backward.kept, arrays, strict=True):
            own[:] = array
    if len(swept):
        k, K = i.backward.kept[:2]
        d0, expected, gradient, failed = swept.tolist()
        i.swept = Sweep(k, K, d0, expected, gradient, int(failed))
    _fill(descent, model)


def _lists(descent: Descent) -> list[tuple[str, Any]]:
    """Numbers of the model, and lists of them, by name."""
    own = vars(_numbers(descent)).items()
    return [(name, value) for name, value in sorted(own) if name not in ("attempts", "rules")]


def _numbers(descent: Descent) -> object:
    assert isinstance(descent.model, Model)  # others keep to themselves where they are: solves with them begin anew
    return descent.model.numbers


def _flat(descent: Descent) -> list[float]:
    return [number for _, own in _lists(descent) for number in (own if isinstance(own, list) else [own])]


def _fill(descent: Descent, flat: Array) -> None:
    left = iter(flat.tolist())
    for name, own in _lists(descent):
        if isinstance(own, list):
            own[:] = [type(one)(next(left)) for one in own]
        else:
            setattr(_numbers(descent), name, type(own)(next(left)))
