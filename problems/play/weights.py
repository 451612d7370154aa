"""Weights that planners let vary while a robot moves, by the names that explanations give their terms."""

from dataclasses import asdict
from typing import NamedTuple

import numpy as np

from ddp.protocols import Array
from ddp.receding import RecedingHorizon
from ddp.solutions.explanation import named_terms
from problems.walking.controller import Walking

FIELDS = "weight", "weights", "Q", "R"
"""Fields of terms that hold weights."""


class Weight(NamedTuple):
    """A number, or numbers that keep their proportions; place: as the planner's ``vary`` names them."""

    place: str
    given: Array

    @property
    def largest(self) -> float:
        """The largest of them, by its size."""
        return float(np.abs(self.given).max())

    def at(self, largest: float) -> Array:
        """All of them where the largest is such a number."""
        return self.given * (largest / self.largest)


def weights_of(planner: Walking | RecedingHorizon) -> dict[str, Weight]:
    """Weights of a planner that are not zero, by the names of terms; of gaits by those of `Weights`."""
    found: dict[str, Weight] = {}
    if isinstance(planner, Walking):
        found = {name: Weight(name, np.array(value)) for name, value in asdict(planner.windows.terms.weights).items()}
    else:
        problem = planner.problem
        for name, term in named_terms(problem):
            places = [str(term._replace(field=field)) for field in FIELDS]
            for place in [place for place in places if place in problem.places]:
                plain = name not in found  # several fields of one term, or equal terms of one knot
                found[name if plain else f"{name}, {place}"] = Weight(place, problem.number(place))
    return {name: weight for name, weight in found.items() if weight.given.size and weight.largest > 0.0}
