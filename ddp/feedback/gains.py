"""Files of gains about an equilibrium or a trajectory: states, controls and arrays of one matrix each knot."""

import os
from collections.abc import Mapping

import numpy as np

from ddp.archive import read, refuse, write
from ddp.errors import ProblemError
from ddp.files import as_path, shown
from ddp.protocols import Array
from ddp.systems.system import System

VERSION = 1

Sizes = Mapping[str, tuple[str, str, str]]
"""Names of arrays -> their three lengths by name: "N" knots or "states", one more; "nu", "n", or others."""


def save_gains(path: str | os.PathLike[str], what: str, X: Array, U: Array, gains: Mapping[str, Array]) -> None:
    """Write gains of a kind, ``what`` with its article, completely or not at all; ProblemError if that cannot be."""
    signs = {"format": _format(what), "version": VERSION, "stationary": X.ndim == 1}
    arrays = {name: array.reshape(-1, *array.shape[-2:]) for name, array in gains.items()}
    write(path, signs | {"X": np.atleast_2d(X), "U": np.atleast_2d(U)} | arrays)


def load_gains(
    path: str | os.PathLike[str], what: str, sizes: Sizes, system: System | None
) -> tuple[Array, Array, dict[str, Array]]:
    """X, U and the gains of a file, without their axis of knots about an equilibrium.

    Raises ProblemError if the file is missing, is no such file, or does not fit ``system``.
    """
    file = as_path(path)
    signs = read(file, {"format": "U0", "version": "i0", "stationary": "b0"}, what=what)
    if str(signs.get("format")) != _format(what) or signs.get("version") != VERSION or "stationary" not in signs:
        raise ProblemError(f"path: {shown(file)} is not {what} file of version {VERSION}")
    kinds = {"X": "f2", "U": "f2"} | dict.fromkeys(sizes, "f3")
    found = read(file, kinds, what=what)
    if missing := kinds.keys() - found.keys():
        raise ProblemError(f"path: {shown(file)} lacks {', '.join(sorted(missing))}")
    X, U, alone = found.pop("X"), found.pop("U"), bool(signs["stationary"])
    known = {"N": len(U), "states": len(X), "nu": U.shape[1]}
    if system is not None:
        known["n"] = system.n
        if (own := (system.nx, system.nu)) != (given := (X.shape[1], U.shape[1])):
            raise ProblemError(f"path: {shown(file)} is of another system: expected nx, nu = {own}, got {given}")
        system.check_state("path", X)
    damaged = [] if len(X) == (1 if alone else len(U) + 1) and (len(U) == 1 or not alone) else ["X"]
    for name, lengths in sizes.items():
        right = all(known.setdefault(of, got) == got for of, got in zip(lengths, found[name].shape, strict=True))
        damaged += [] if right and np.isfinite(found[name]).all() else [name]
    refuse(file, damaged, what)
    return (X[0], U[0], {name: array[0] for name, array in found.items()}) if alone else (X, U, found)


def _format(what: str) -> str:
    """The first word of a file says whose it is, the second what it holds."""
    return f"mayne {what.split()[-1]}"
