"""Full second-order trajectory optimisation for robots: all that a user names, in one place.

    import mayne

    problem = mayne.gaits.trot("go2")
    solution = mayne.solve(problem)

Each name is imported when it is first asked for, from where ``__init__.pyi`` says: importing mayne takes no time.
"""

import ast
import runpy
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

_HERE = Path(__file__).parent

runpy.run_path(str(_HERE.parent / "ddp" / "packages.py"))  # as a file: importing ddp takes a second


@cache
def _origins() -> dict[str, str]:
    """The module that each name is imported from."""
    tree = ast.parse((_HERE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_origins())
    if name == "__version__":
        return version("mayne")
    origin = None if name.startswith("_") else _origins().get(name)
    if origin is None:
        raise AttributeError(f"module 'mayne' has no attribute {name!r}")
    found = import_module(f"mayne.{name}") if origin == "mayne" else getattr(import_module(origin), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_origins(), "__version__"})
