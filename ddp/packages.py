"""Check that the packages which Python finds under mayne's names are mayne's own; a digest of their sources.

Their names are short: a user's script ``ddp.py``, a module ``dynamics.py``, a folder ``problems/`` or another
distribution's ``viz`` hides them, and what Python then says names none of that. Checked when `ddp` or `mayne` is
imported; mayne runs this file by itself, so it needs nothing else.
"""

import hashlib
import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("ddp", "dynamics", "problems", "viz")


def check_packages(folder: Path) -> None:
    """Raise ImportError, naming the file, unless each of `PACKAGES` is found in ``folder``."""
    for name in PACKAGES:
        own, found = folder / name / "__init__.py", _found(name)
        if found is None or not (own.is_file() and Path(found).is_file() and own.samefile(found)):
            raise ImportError(_reason(name, found, own), name=name, path=found)


@cache
def edition() -> str:
    """Digest of all that moves and solves problems, by which pickles know who wrote them."""
    found, above = hashlib.blake2b(digest_size=8), Path(__file__).resolve().parents[1]
    for name in PACKAGES[:-1]:  # pictures are in no pickle
        for folder, _, files in sorted(os.walk(above / name)):
            for file in sorted(file for file in files if file.endswith(".py")):
                with open(os.path.join(folder, file), "rb") as source:
                    found.update(file.encode() + source.read())
    return found.hexdigest()


def _found(name: str) -> str | None:
    """The file that is imported under a name, or would be."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    spec = find_spec(name)
    return spec.origin if spec else None


def _reason(name: str, found: str | None, own: Path) -> str:
    if not own.is_file():
        return f"mayne: the package {name!r} is not installed in {own.parent.parent}; install mayne again"
    if found is None:
        return f"mayne: the package {name!r} of {own.parent.parent} is not found on Python's path"
    if Path(found).name == "__init__.py":
        found = str(Path(found).parent)
    return f"mayne: {name!r} is imported from {found}, which hides mayne's own package; rename it"


check_packages(Path(__file__).resolve().parents[1])
