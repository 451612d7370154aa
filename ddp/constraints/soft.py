"""Constraints that may be violated for a price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ddp.constraints.constraint import Equality, Inequality
from ddp.constraints.jitted import JittedConstraint
from ddp.errors import ProblemError, as_array, axes, choice, said, suggesting
from ddp.protocols import Array, Constraint

NORMS = "L1", "L2"


@suggesting
@dataclass(frozen=True, eq=False)
class Soft:
    """A constraint that may be violated: every violation v costs ``price |v|`` (L1) or ``½ price v²`` (L2).

        Problem(..., constraints=[Soft(Inequality(lambda x, u: x[0] - 1.0), price=10.0)])

    constraint: any that a problem takes.
    price: a number or (size,), positive, in cost per unit (L1) or per unit squared (L2). Among ``constraints`` it is a
        density, multiplied by how long a knot takes as running costs are; not at single knots, stretches and the end.
    norm: with "L1" the constraint holds exactly wherever its multiplier is no larger than the price, and is violated as
        little as pays elsewhere; with "L2" it is violated by multiplier / price.

    Violations of soft constraints are in `Solution.residuals`, and do not count in `Solution.violation`; what they cost
    is part of `Solution.cost`, and of `explain` a share.
    """

    constraint: Constraint | Equality | Inequality
    price: ArrayLike
    norm: str = "L1"
    lifts: ClassVar[str] = "constraint"

    def __post_init__(self) -> None:
        if isinstance(self.constraint, (type, Soft)) or self.constraint is None:
            raise ProblemError(f"constraint: expected a constraint, got {said(self.constraint)}")
        shape = (None,) if axes(self.price) == 1 else ()
        price = as_array("price", self.price, shape).copy()
        if price.size == 0 or not (price > 0.0).all():
            raise ProblemError(f"price: expected positive numbers, got {said(self.price)}")
        choice("norm", self.norm, NORMS)
        object.__setattr__(self, "price", price)

    def softness(self, name: str, weights: Array, size: int) -> tuple[Array, Array]:
        """Caps of multipliers and compliances (M, size) at knots with some weights (M,): see `Placed`."""
        price = np.asarray(self.price)
        if price.ndim == 1 and len(price) != size:
            raise ProblemError(f"{name}: price: expected a number or shape ({size},), got {price.shape}")
        each = weights[:, None] * np.broadcast_to(price, size)
        if self.norm == "L1":
            return each, np.zeros_like(each)
        return np.full_like(each, np.inf), 1.0 / each


ConstraintLike = Constraint | Equality | Inequality | JittedConstraint | Soft
"""Forms in which a problem takes constraints."""
