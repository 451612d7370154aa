"""Sliders of pages: numbers that a reader chooses within a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddp.errors import ProblemError, as_array, flag, instances, positive, text


@dataclass(frozen=True)
class Slider:
    """A number that a reader of the page chooses between ``low`` and ``high``; logarithmic: by its logarithm."""

    name: str
    value: float
    low: float
    high: float
    label: str = ""
    unit: str = ""
    logarithmic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", text("name", self.name))
        object.__setattr__(self, "label", text("label", self.label) or self.name.replace("_", " "))
        text("unit", self.unit)
        flag("logarithmic", self.logarithmic)
        for name in ("value", "low", "high"):
            object.__setattr__(self, name, float(as_array(name, getattr(self, name), ())))
        if not self.low <= self.value <= self.high or self.low == self.high:
            raise ProblemError(f"{self.name}: expected low <= value <= high, got {self.low}, {self.value}, {self.high}")
        if self.logarithmic and self.low <= 0.0:
            raise ProblemError(f"low: expected a positive number for a logarithmic slider, got {self.low}")

    @classmethod
    def about(cls, name: str, value: float) -> Slider:
        """Logarithmic slider from a hundredth to a hundred times a positive number."""
        given = positive("value", value)
        return cls(name, given, 0.01 * given, 100.0 * given, logarithmic=True)


def within(sliders: Sequence[Slider], asked: Mapping[str, Any]) -> dict[str, float]:
    """Numbers that a page asks for, by the names of sliders, cut to their ranges.

    Raises KeyError for one that is missing, and ProblemError for one that is no finite number.
    """
    return {s.name: min(max(float(as_array(s.name, asked[s.name], ())), s.low), s.high) for s in sliders}


def as_sliders(given: Sequence[Slider], some: bool = False) -> list[Slider]:
    """Sliders with names of their own, checked; some: at least one."""
    found = instances("sliders", given, Slider, "viz.Sliders", "a viz.Slider", some=some)
    if len({slider.name for slider in found}) < len(found):
        raise ProblemError("sliders: expected names of their own, got one twice")
    return list(found)
