"""Full second-order trajectory optimisation for robots: all that a user names, in one place.

    import mayne

    problem = mayne.gaits.trot("go2")
    solution = mayne.solve(problem)

Each name is imported when it is first asked for, from where ``__init__.pyi`` says: importing mayne takes no time.
"""

import ast
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

_HERE = Path(__file__).parent

runpy.run_path(str(_HERE.parent / "ddp" / "packages.py"))  # as a file: importing ddp takes a second

_MEANT = {
    "load": ("load_robot", "load_urdf", "load_mjcf", "load_model", "urdf", "robotwrapper", "from_urdf", "read_urdf"),
    "solve": ("optimize", "optimise", "minimize", "minimise", "run", "plan", "trajopt"),
    "solve_many": ("solve_batch", "batch_solve", "solve_all", "solve_parallel", "solve_multiple"),
    "solve_best": ("solve_global", "multistart", "multi_start"),
    "durations": ("free_time", "minimum_time", "time_optimal"),
    "RecedingHorizon": ("mpc", "nmpc"),
    "inverse_dynamics": ("rnea",),
    "forward_dynamics": ("aba",),
    "mass_matrix": ("crba", "inertia_matrix"),
    "frame_placement": ("forward_kinematics", "fk", "frame_pose"),
    "center_of_mass": ("com", "centre_of_mass"),
    "kalman": ("kalmanfilter",),
    "plot_solution": ("plot", "plot_trajectory"),
    "save_html": ("visualize", "visualise", "render", "view", "show", "display"),
    "simulate": ("simulation",),
}
"""Names of mayne, and words for them in other programs, in small letters."""


@cache
def _origins() -> dict[str, str]:
    """The module that each name is imported from."""
    found: dict[str, str] = {}
    for node in _statements(_HERE / "__init__.pyi"):
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            found |= dict.fromkeys(_listed(str(node.module)) if names == ["*"] else names, str(node.module))
    return found


def _statements(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body


def _listed(package: str) -> list[str]:
    """The ``__all__`` of a package, which is not imported."""
    assigned = (node for node in _statements(_HERE.parent / package / "__init__.py") if isinstance(node, ast.Assign))
    return next(ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "__all__")


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_origins())
    if name == "__version__":
        return str(import_module("importlib.metadata").version("mayne"))
    origin = None if name.startswith("_") else _origins().get(name)
    if origin is None:
        hint = _elsewhere(name)
        if own := not hint and next((own for own, words in _MEANT.items() if name.lower() in words), ""):
            text = f"module 'mayne' has no attribute {name!r}; mayne.{own} is what is often called so"
            raise AttributeError(text, name=name, obj=None)  # of the module, Python would suggest another name
        raise AttributeError(f"module 'mayne' has no attribute {name!r}{hint}")
    found = _imported(f"mayne.{name}") if origin == "mayne" else getattr(_imported(origin), name)
    _draw_in_notebooks()
    globals()[name] = found
    return found


class _Front(ModuleType):
    """The module mayne, whose modules show their own names alone, also where ``import mayne.gaits`` sets them."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _origins().get(name) == "mayne":
            value.__dir__, value.__getattr__ = partial(_own, value), partial(_refuse, value)  # type: ignore[assignment]
            lines = [f"{own}: {str(vars(value)[own].__doc__).splitlines()[0]}" for own in sorted(_own(value))]
            value.__doc__ = "\n".join([f"{value.__doc__}\n", *lines])  # `help` tells no names from elsewhere
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Front


def _own(module: ModuleType) -> list[str]:
    """Names that a module of mayne is for: of its part of `problems`, or imported here by name."""
    part = f"problems.{module.__name__.rpartition('.')[2]}"
    imports = (node for node in _statements(Path(str(module.__file__))) if isinstance(node, ast.ImportFrom))
    listed = {alias.asname for node in imports for alias in node.names} | {*getattr(sys.modules[part], "__all__", ())}
    found = [(name, value) for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    return [name for name, value in found if name in listed or value.__module__.startswith(part)]


def _refuse(module: ModuleType, name: str) -> NoReturn:
    """Raise AttributeError for a name that a module of mayne has not, with the nearest ones."""
    hint = import_module("ddp.errors").nearest(name, _own(module))
    text = f"module {module.__name__!r} has no attribute {name!r}; {hint}"
    raise AttributeError(text, name=name, obj=None)  # of the module, Python would suggest the name once more


def _elsewhere(name: str) -> str:
    """Packages that have a name that mayne itself has not, in words; nothing if none has."""
    if name.startswith("_"):
        return ""
    own = [module for module, origin in _origins().items() if origin == "mayne"]
    found = [f"mayne.{module}.{name}" for module in own if hasattr(globals().get(module) or __getattr__(module), name)]
    return f"; there is {' and '.join(found[:2])}" if found else ""


@cache
def _draw_in_notebooks() -> None:
    """Let notebooks show motions of solutions; what draws them is imported then."""
    import_module("ddp.solutions.solution").drawers[:] = [lambda solution: import_module("viz.html").as_html(solution)]


def _imported(module: str) -> ModuleType:
    """A module; what is not loaded yet takes a second or two, which is told where somebody waits at a terminal."""
    if module in sys.modules:
        return import_module(module)
    with _telling():
        return import_module(module)


@contextmanager
def _telling() -> Iterator[None]:
    """Within the block, say on a terminal that mayne is loaded, unless MAYNE_QUIET is set."""
    if os.environ.get("MAYNE_QUIET", "0") not in ("", "0") or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    text = "loading mayne..."
    sys.stderr.write(text)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write(f"\r{' ' * len(text)}\r")
        sys.stderr.flush()


def __dir__() -> list[str]:
    """All names that are meant, for completion: not what this file imports for itself."""
    return sorted({*_origins(), "__all__", "__version__", *(name for name in globals() if name.startswith("__"))})
