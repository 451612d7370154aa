"""The functions that are abused: each by its name, with arguments that are valid."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from abuse.hostile import Hostile, Word, values_for


@dataclass(frozen=True, eq=False)
class Subject:
    """A function and valid arguments for it, by their names.

    spare: arguments that are left alone.   others: names under which messages may speak of an argument.
    meant: hostile values of arguments that mean something else there, or are user's code.
    refuses: whether all that is tried is refused, so that the function, a slow one, need not be called beforehand.
    """

    name: str
    call: Callable[..., Any]
    arguments: dict[str, Any]
    spare: Sequence[str] = ()
    others: dict[str, Sequence[str]] = field(default_factory=dict)
    meant: dict[str, Sequence[str]] = field(default_factory=dict)
    refuses: bool = False

    def tried(self) -> list[str]:
        """The arguments to abuse: all that it has."""
        if isinstance(next(iter(self.arguments.values()), None), Word):
            return [name for name in self.arguments if name not in self.spare]
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        known = [name for name, p in inspect.signature(self.call).parameters.items() if p.kind in kinds]
        return [name for name in known if name not in self.spare]


class Case(NamedTuple):
    """One hostile value in place of one argument."""

    subject: Subject
    argument: str
    hostile: Hostile

    def __str__(self) -> str:
        return f"{self.subject.name}({self.argument} = {self.hostile.name})"

    def run(self) -> Any:
        """Call it."""
        valid = self.subject.arguments.get(self.argument)
        return self.subject.call(**(self.subject.arguments | {self.argument: self.hostile.make(valid)}))


def cases_of(subjects: Sequence[Subject]) -> Iterator[Case]:
    """Every hostile value in place of every argument."""
    for subject in subjects:
        for argument in subject.tried():
            for hostile in values_for(subject.arguments.get(argument)):
                if hostile.name not in subject.meant.get(argument, ()):
                    yield Case(subject, argument, hostile)
