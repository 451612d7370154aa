"""Sliders of pages: numbers that a reader chooses within a range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddp.errors import ProblemError, as_array, flag, instances, positive, settle, settle_by, suggesting, text


@suggesting
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
        settle_by(self, text, "name", "label", "unit")
        settle(self, label=self.label or self.name.replace("_", " "))
        flag("logarithmic", self.logarithmic)
        settle_by(self, _number, "value", "low", "high")
        if not self.low <= self.value <= self.high or self.low == self.high:
            raise ProblemError(f"{self.name}: expected low <= value <= high, got {self.low}, {self.value}, {self.high}")
        if self.logarithmic and self.low <= 0.0:
            raise ProblemError(f"low: expected a positive number for a logarithmic slider, got {self.low}")

    @classmethod
    def about(cls, name: str, value: float) -> "Slider":
        """Logarithmic slider from a hundredth to a hundred times a positive number."""
        given = positive("value", value)
        return cls(name, given, 0.01 * given, 100.0 * given, logarithmic=True)


def _number(field: str, value: Any) -> float:
    return float(as_array(field, value, ()))


def within(sliders: Sequence[Slider], asked: Mapping[str, Any]) -> dict[str, float]:
    """Numbers that a page asks for, by the names of sliders, cut to their ranges.

    Raises KeyError for one that is missing, and ProblemError for one that is no finite number.
    """
    return {s.name: min(max(_number(s.name, asked[s.name]), s.low), s.high) for s in sliders}


def as_sliders(given: Sequence[Slider], some: bool = False) -> list[Slider]:
    """Sliders with names of their own, checked; some: at least one."""
    found = instances("sliders", given, Slider, "viz.Sliders", "a viz.Slider", some=some)
    if len({slider.name for slider in found}) < len(found):
        raise ProblemError("sliders: expected names of their own, got one twice")
    return list(found)
