"""Places of a problem's numbers by name, and copies of a problem with other numbers there.

A place is "x0", "control_limits", a field of a term or a constraint as errors name it ("running[1].weights",
"terminal[0].target", "at[46][0].weight", "during[range(0, 9)][2].weight", "constraints[0].limits"), or a number of the
dynamics that they let vary ("dynamics.masses"). The last part alone will do where it is meant clearly: one place, or
several that have the same numbers now, which are then varied together, as a coefficient of friction of many terms.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.bounds import as_limits
from ddp.constraints.constraint import Soft
from ddp.constraints.placement import Placed, begun
from ddp.constraints.traced import TracedConstraint
from ddp.costs.batch import ability, check_length, inside, levels
from ddp.costs.compiled import CompiledTerm
from ddp.costs.objective import Objective
from ddp.costs.terms import Cost
from ddp.costs.traced import TracedTerm
from ddp.errors import DDPError, ProblemError, as_array, instance, nearest, said
from ddp.protocols import Array
from ddp.systems.system import ability as of_system

if TYPE_CHECKING:
    from ddp.problem import Problem

OWN = "x0", "control_limits"
"""Places of the problem itself."""

TERMS = "running", "during", "at", "terminal"
CONSTRAINTS = "constraints", "constraints_at", "terminal_constraints"


class Place(NamedTuple):
    """A field of the item ``item`` of a list of the problem; ``key`` of a mapping of lists, None of a plain list.

    name: of the term or constraint that has the field.
    """

    name: str
    listed: str
    key: Any
    item: int
    field: str = ""

    def __str__(self) -> str:
        return f"{self.name}.{self.field}" if self.field else self.name

    def thing(self, problem: Problem) -> Any:
        """The term or constraint that has the field."""
        lists = getattr(problem, self.listed)
        return (lists if self.key is None else lists[self.key])[self.item]

    def owner(self, problem: Problem) -> Any:
        """The thing itself, or the term or constraint in it that it lifts, whose field it is."""
        return next(one for one in levels(self.thing(problem)) if self.field in _fields(one))


def places_of(problem: Problem) -> dict[str, Place]:
    """All places in terms and constraints, by their names."""
    things = ((where, one) for where in things_of(problem) for one in levels(where.thing(problem)))
    places = (where._replace(field=field) for where, one in things for field in _fields(one))
    return {str(place): place for place in places}


def resolved(problem: Problem, name: Any) -> tuple[Place, ...] | str:
    """The places that a name means, or the name of a number of the problem itself or of its dynamics."""
    instance("varying", name, str, "the name of a place")
    if name in OWN:
        return name
    known, own = problem.places, of_system(problem.dynamics, "variable")
    if name.startswith("dynamics.") and name.removeprefix("dynamics.") in own:
        return name
    if name in known:
        return (known[name],)
    meant = [place for place in known.values() if place.field == name]
    if name in own and not meant:
        return f"dynamics.{name}"
    if not meant:
        paths = [*(f"dynamics.{one}" for one in own), *known]
        options = paths if "." in name else [*OWN, *own, *(place.field for place in known.values())]
        raise ProblemError(f"varying: the problem has no number {said(name)}; {nearest(name, options)}")
    values = [getattr(place.owner(problem), name) for place in meant if len(meant) > 1]
    if name in own or not all(_same(values[0], value) for value in values):
        several = [f"dynamics.{one}" for one in own if one == name]
        several += [path for path, place in known.items() if place.field == name]
        listed = ", ".join(several[:4]) + (", ..." if len(several) > 4 else "")
        raise ProblemError(f"varying: {name} may be {listed}: say which")
    return tuple(meant)


def number(problem: Problem, name: str) -> NDArray[np.float64]:
    """Numbers that a place has now; poses as (4, 4) matrices."""
    found = problem.resolved(name)
    if name == "x0":
        value: Any = problem.x0
    elif name == "control_limits":
        value = np.stack([problem.lower, problem.upper])
    elif isinstance(found, str):
        value = getattr(problem.dynamics, found.removeprefix("dynamics."))
    else:
        value = getattr(found[0].owner(problem), found[0].field)
    return np.array(getattr(value, "homogeneous", value), dtype=np.float64)


def started(problem: Problem, X0: Array) -> list[Problem]:
    """Copies with other initial states X0 (M, nx), which are not checked here."""
    X0 = X0.copy()
    X0.flags.writeable = False
    for name in ("rows", "limited_rows") if problem.limited else ("rows",):
        getattr(problem, name)  # copies share rows, and the memory that solves lay out for them
    twins = [problem.twin(x0=x0) for x0 in X0]
    for twin in twins:
        if (placed := begun(problem.placed, problem.dynamics, twin.x0)) is not problem.placed:
            _hold(twin, placed, None)
    return twins


def _hold(twin: Problem, placed: tuple[Placed, ...], before: Problem | None) -> None:
    """Give a copy, just made, other constraints; before: the problem whose constraints have moved, if they have."""
    for name in ("rows", "limited_rows"):
        vars(twin).pop(name, None)
    vars(twin).update(placed=placed, _before=before)


def varied(problem: Problem, numbers: Mapping[str, Any]) -> Problem:
    """Copy with other numbers in some places; see `Problem.varying`."""
    of_things: dict[str, tuple[Place, dict[str, Any]]] = {}
    of_dynamics: dict[str, Any] = {}
    x0 = limits = None
    for name, value in numbers.items():
        found = problem.resolved(name)
        if name == "x0":
            x0 = value
        elif name == "control_limits":
            limits = value
        elif isinstance(found, str):
            _give(of_dynamics, found.removeprefix("dynamics."), value, found)
        else:
            for place in found:
                _give(of_things.setdefault(place.name, (place, {}))[1], place.field, value, place)
    other = problem if x0 is None else problem.starting_at(x0)
    if of_dynamics:
        other = _with_dynamics(other, of_system(problem.dynamics, "varied")(**of_dynamics))
    changed, made = {}, {}  # what stands in two places remains one
    for place, values in of_things.values():
        key = len(of_things) > 1 and (id(place.thing(other)), *values, *map(id, values.values()))
        if key not in made:
            made[key] = _varied(other, place, values)
        changed[place] = made[key]
    if changed:
        other = _with_things(other, changed)
    return other if limits is None else _with_limits(other, limits)


def _give(values: dict[str, Any], field: str, value: Any, place: object) -> None:
    """Give a field a value, once; ProblemError where another name has meant it, too."""
    if field in values:
        raise ProblemError(f"varying: {place} is given twice, by two names")
    values[field] = value


def varied_each(problem: Problem, arrays: Mapping[str, Any]) -> list[Problem | Exception]:
    """Copies with the numbers of each sample in some places, (M, ...), or the error that these raise."""
    X0, others = arrays.get("x0"), {name: values for name, values in arrays.items() if name != "x0"}
    try:
        if X0 is not None:
            problem.dynamics.check_state("x0", as_array("x0", X0, (None, problem.dynamics.nx)))
    except ProblemError:  # some of them are no states
        X0, others = None, dict(arrays)
    if X0 is not None and not others:
        return [*started(problem, X0)]
    found: list[Problem | Exception] = []
    for i in range(len(next(iter(arrays.values())))):
        try:
            one = varied(problem, {name: values[i] for name, values in others.items()})
            check_sizes(problem, one)
            found.append(one if X0 is None else started(one, X0[i : i + 1])[0])
        except Exception as reason:
            found.append(reason)
    return found


def check_sizes(problem: Problem, other: Problem) -> None:
    """Raise ProblemError if constraints have more rows than those of a problem, or fewer."""
    if other.multiplier_count != problem.multiplier_count:
        raise ProblemError(
            f"varying: expected constraints with {problem.multiplier_count} rows, as they have now, got"
            f" {other.multiplier_count}: where one stands in two places, as at the end of the horizon, name both"
        )


def things_of(problem: Problem, kinds: Sequence[str] = (*TERMS, *CONSTRAINTS)) -> Iterator[Place]:
    """Places of all terms and constraints in some lists, with an empty field."""
    for listed in kinds:
        lists = getattr(problem, listed)
        groups = lists.items() if isinstance(lists, Mapping) else [(None, lists)]
        for key, group in groups:
            where = listed if key is None else f"{listed}[{key}]"
            for i in range(len(group)):
                yield Place(f"{where}[{i}]", listed, key, i)


def _fields(thing: Any) -> list[str]:
    """Names of the numbers of a term or a constraint: of fields that hold some, and others that it lets vary.

    Not of fields whose metadata say ``{"varies": False}``, as those that count something.
    """
    own = fields(thing) if is_dataclass(thing) else ()
    names = [field.name for field in own if field.init and field.metadata.get("varies", True)]
    names = names if own else list(getattr(thing, "__dict__", ()))
    held = [name for name in names if not name.startswith("_") and _is_number(getattr(thing, name, None))]
    return [*dict.fromkeys((*held, *ability(thing, "movable")))]


def _is_number(value: Any) -> bool:
    """Whether a value is made of numbers; poses of Pinocchio are by their matrix."""
    if isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, (int, float, np.number, np.ndarray)) or hasattr(value, "homogeneous")


def _same(a: Any, b: Any) -> bool:
    a, b = (getattr(value, "homogeneous", value) for value in (a, b))
    return np.shape(a) == np.shape(b) and bool(np.array_equal(a, b))


def _varied(problem: Problem, place: Place, values: dict[str, Any]) -> Any:
    """A term or a constraint with other numbers; ProblemError for one that its traced value does not depend on."""
    thing = place.thing(problem)
    made = _with_numbers(place, thing, values)
    if place.listed in TERMS:
        _check_fit(problem, place, made)
    if isinstance(thing, (CompiledTerm, Cost)):
        return made
    terms = (entry.term for entry in problem.objective.entries)
    traced = [term for term in terms if isinstance(term, TracedTerm) and term.term is thing]
    for name in values if traced else ():
        if not traced[0].traced.reads(name):  # but it may read what its constructor makes of it
            other = made if len(values) == 1 else _with_numbers(place, thing, {name: values[name]})
            same = TracedTerm(other, problem.dynamics).traced.digest == traced[0].traced.digest
            if same and not _same(getattr(thing, name), getattr(other, name)):
                kind = type(thing).__name__
                said = "expected a number that value(x, u) reads, got one that it does not: nothing would vary"
                raise ProblemError(f"{place.name}.{name} ({kind}): {said}")
    return made


def _check_fit(problem: Problem, place: Place, term: Any) -> None:
    """Raise ProblemError for a term that is not of its knots any more, or of other states or controls.

    A term's own ``varied`` keeps to its states and controls.
    """
    system: Any = problem.dynamics
    while name := ability(term, "lifts"):
        term, system = getattr(term, name), term.system.system
    knots = range(problem.horizon) if place.listed == "running" else place.key if place.listed == "during" else range(1)
    check_length(place.name, term, knots)
    if getattr(term, "varied", None) is None and isinstance(term, CompiledTerm):
        try:
            term.check_sizes(len(knots), system.nx, system.nu)
        except ProblemError as reason:
            raise ProblemError(f"{place.name} ({type(term).__name__}): {reason}") from None


def _with_numbers(place: Place, thing: Any, values: dict[str, Any]) -> Any:
    """A thing with other numbers, checked by its own constructor."""
    if name := ability(thing, "lifts"):
        here = _fields(thing)
        if within := {field: value for field, value in values.items() if field not in here}:
            values = {field: values[field] for field in values.keys() - within.keys()}
            thing = replace(thing, **{name: _with_numbers(place, getattr(thing, name), within)})
        if not values:
            return thing
    try:
        if (own := getattr(thing, "varied", None)) is not None:
            return own(**values)
        if is_dataclass(thing) and not isinstance(thing, type):
            return replace(thing, **values)
    except (DDPError, TypeError) as reason:
        kind = type(reason) if isinstance(reason, DDPError) else ProblemError
        raise kind(f"{place.name} ({type(thing).__name__}): {reason}") from reason
    twin = copy.copy(thing)
    for name, value in values.items():
        setattr(twin, name, value)
    return twin


def _with_things(problem: Problem, changed: dict[Place, Any]) -> Problem:
    """Copy with other terms and constraints in some places."""
    lists: dict[str, Any] = {}
    held, swaps = {}, {}
    for place, thing in changed.items():
        _, listed, key, index, _ = place
        if listed not in lists:
            before = getattr(problem, listed)
            lists[listed] = list(before) if key is None else {k: list(v) for k, v in before.items()}
        (lists[listed] if key is None else lists[listed][key])[index] = thing
        if listed in TERMS:
            swaps[place.name] = place.thing(problem), thing
        else:
            held[place] = thing
    placed = _moved(problem, held) if held else problem.placed
    if placed is None:
        return replace(problem, **lists)
    own = {name: tuple(one) if isinstance(one, list) else one for name, one in lists.items()}
    if swaps:
        own["objective"] = problem.objective.with_terms(swaps)
        if own["objective"] is None:
            running, during, at, terminal = (lists.get(name, getattr(problem, name)) for name in TERMS)
            given = problem.dynamics, problem.horizon, problem.x0, running, during, at, terminal
            own["objective"] = Objective.of(*given, tried=True)
    other = problem.twin(**own, _resolved={})  # names may mean less by now
    if held:
        _hold(other, placed, problem._before or problem)
    return other


def _moved(problem: Problem, changed: dict[Place, Any]) -> tuple[Placed, ...] | None:
    """A problem's constraints with some that have moved, see ``movable``; None where others have changed."""
    swaps: dict[int, Any] = {}
    for place, after in changed.items():
        before = place.thing(problem)
        if isinstance(before, Soft):
            if not np.array_equal(before.price, after.price):
                return None
            before, after = before.constraint, after.constraint
        if id(before) not in swaps and _has_moved(before, after):
            swaps[id(before)] = after
        if swaps.get(id(before)) is not after:
            return None
    if sum(id(entry.given) in swaps for entry in problem.placed) != len(changed):
        return None  # one of them stands in another place, too
    own, x0, dynamics = list(problem.placed), problem.x0, problem.dynamics
    for i, entry in enumerate(own):
        if id(entry.given) in swaps:
            if (moved := entry.with_given(swaps[id(entry.given)], x0, dynamics)) is None:
                return None
            own[i] = moved
    return tuple(own)


def _has_moved(before: Any, after: Any) -> bool:
    """Whether a constraint is a copy of another with its bounds, of a class whose structure stays."""
    before, after = inside(before), inside(after)
    bounds = ((getattr(after, side, 0.0), getattr(before, side, 0.0)) for side in ("lower", "upper"))
    return bool(ability(before, "movable")) and all(one is its or np.array_equal(one, its) for one, its in bounds)


def _with_limits(problem: Problem, given: Any) -> Problem:
    """Copy with other limits of controls."""
    limits = as_limits(given, problem.horizon, problem.dynamics)
    lower, upper = (limit.view() for limit in limits)
    other = problem.twin(control_limits=copy.deepcopy(given), lower=lower, upper=upper, _limits=limits)
    for array in (lower, upper):
        array.flags.writeable = False
    for name in ("limited", "limited_rows"):
        vars(other).pop(name, None)
    return other


def _with_dynamics(problem: Problem, dynamics: Any) -> Problem:
    """Copy with another system of the same sizes, to which terms and constraints refer in place of the last one."""
    old: Any = problem.dynamics
    new = dynamics
    instead: dict[int, Any] = {}  # what has been made, too: what stands in two places remains one
    while old is not None:  # of compositions, the system that each is around, too
        instead[id(old)] = new
        if (robot := getattr(old, "robot", None)) is not None:
            instead[id(robot)] = new.robot
        old, new = getattr(old, "system", None), getattr(new, "system", None)

    def moved(thing: Any) -> Any:
        """A thing that refers to the other system, or whose parts do, as a soft constraint's."""
        if id(thing) not in instead and isinstance(thing, (TracedTerm, TracedConstraint)):
            instead[id(thing)] = thing.changed(moved)
        elif id(thing) not in instead and is_dataclass(thing) and not isinstance(thing, type):
            known = {field.name: getattr(thing, field.name) for field in fields(thing) if field.init}
            others = {name: new for name, value in known.items() if (new := moved(value)) is not value}
            again = getattr(thing, "varied", partial(replace, thing))
            instead[id(thing)] = again(**others) if others else thing
        return instead.get(id(thing), thing)

    return replaced(problem, moved, dynamics)


def replaced(problem: Problem, change: Callable[[Any], Any], dynamics: Any) -> Problem:
    """Copy with other dynamics of the same sizes, and what ``change`` makes of each term and constraint."""
    lists: dict[str, Any] = {}
    for listed in (*TERMS, *CONSTRAINTS):
        before = getattr(problem, listed)
        if isinstance(before, Mapping):
            lists[listed] = {key: [change(one) for one in group] for key, group in before.items()}
        else:
            lists[listed] = tuple(change(one) for one in before)
    if problem.placed:
        return replace(problem, dynamics=dynamics, **lists)
    return problem.moved(dynamics, problem.x0, *(lists[listed] for listed in TERMS))
