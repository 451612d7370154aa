"""Parts of a problem that are not compiled, as kernels ask Python for them."""

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, lacking
from ddp.errors import ModelError
from ddp.interior.memory import CONTRACT, CURVE, DIFFERENTIATE, EVALUATE, STRAY, TRACK, WEIGH
from ddp.machine.written import assign, read_one
from ddp.parallel.differentiator import Differentiator
from ddp.protocols import Array
from ddp.systems.system import MOTIONS, System, ability

if TYPE_CHECKING:
    from ddp.interior.layout import Workplace

C_FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)


class PartsInPython:
    """Python's part of kernels that work on the memory of a workplace.

    address: of the C function that they call. What it raises waits for `raise_again`, as no error can leave it; until
    then trials cost infinitely much.
    """

    def __init__(self, work: Differentiator, place: "Workplace") -> None:
        self._work, self._place = work, place
        self._failure: BaseException | None = None
        self._strayed = straying(place.problem.dynamics)
        self._wanted = FIRST | GAUSS_NEWTON | EXACT | (0 if place.problem.structure.blockwise == MOTIONS else RECORDS)
        self._parts: dict[int, Callable[[], None]] = {
            DIFFERENTIATE: self._differentiate, CONTRACT: self._contract, CURVE: self._curve, STRAY: self._stray,
            TRACK: self._track, WEIGH: self._weigh, EVALUATE: self._evaluate,
        }  # fmt: skip
        self._function = C_FUNCTION(self._call)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def raise_again(self) -> None:
        """Raise what a part has raised; an interrupt before `_call` could catch it has left its question unanswered."""
        failure, self._failure = self._failure, None
        if failure is not None or read_one(self._place.memory, "broken") != 0:
            assign(self._place.memory, {"broken": 0})
            raise failure or KeyboardInterrupt

    def _call(self, part: int, *unused: int) -> None:
        if self._failure is None:
            try:
                self._parts[part]()
                assign(self._place.memory, {"broken": read_one(self._place.memory, "broken") - 1})
                return
            except BaseException as failure:  # none can leave a C function
                self._failure = failure
        self._place.own["tried_gaps"].fill(np.inf)
        assign(self._place.memory, {"tried_cost": np.inf})

    def _differentiate(self) -> None:
        known, own, rows = 0, self._place.own, self._place.rows
        while (made := lacking(known, self._wanted, self._place.problem.curved))[0]:
            self._work.make(own["X"], own["U"], made[0])
            known = made[1]
        if rows.size:
            rows.jacobian(own["X"], own["U"], own["J"])

    def _contract(self) -> None:
        self._place.backward.contract(self._place.own["weights"])

    def _curve(self) -> None:
        place = self._place
        place.rows.add_curvature_in_python(place.own["X"], place.own["U"], place.own["weighing"], place.swept.exact)

    def _stray(self) -> None:
        own = self._place.own
        try:
            own["tried_X"][:], own["tried_gaps"][:] = self._strayed(own["X"], own["dX"], own["tried_U"])
        except ModelError:  # there is no motion
            own["tried_X"][:] = own["X"]
            own["tried_gaps"].fill(np.inf)

    def _track(self) -> None:
        place, own, count = self._place, self._place.own, read_one(self._place.lengths, "count")
        policy = own["X"], own["U"], *place.backward.policy, place.alphas[:count].copy()
        own["lanes_X"][:count], own["lanes_U"][:count] = place.problem.dynamics.track(
            *policy, own["opened"], own["low"], own["high"]
        )

    def _weigh(self) -> None:
        place, X, U = self._place, self._place.own["tried_X"], self._place.own["tried_U"]
        cost = place.problem.total(X, U)
        assign(place.memory, {"tried_cost": cost})
        if abs(cost) < np.inf:
            place.own["values"][:] = place.rows.values(X, U)

    def _evaluate(self) -> None:
        own = self._place.own
        own["values"][:] = self._place.rows.values(own["X"], own["U"])


def straying(dynamics: System) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    """States and gaps as ``strayed`` of `system.Abilities`, of a system that may lack it."""

    def stepped(X: Array, dX: Array, U: Array) -> tuple[Array, Array]:
        to = np.ascontiguousarray(dynamics.integrate(X, dX))
        to[0] = X[0]
        if not (np.isfinite(to).all() and np.isfinite(U).all()):
            raise ModelError("a step's states and controls are not finite")
        return to, np.ascontiguousarray(dynamics.difference(to[1:], dynamics.step(to[:-1], U)))

    return ability(dynamics, "strayed") or stepped
