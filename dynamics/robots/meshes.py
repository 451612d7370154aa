"""Mesh files: where they are, and whether a native parser survives them."""

from __future__ import annotations

import stat
from pathlib import Path

from ddp.errors import ModelError
from dynamics.robots import collada, companions
from dynamics.robots.inspection import mode

FORMATS = (".stl", ".dae", ".obj", ".gltf", ".glb")
"""Suffixes of meshes that are drawn: formats whose native parsers survive files that are damaged."""
LARGEST = 512 * 2**20
"""Bytes of a mesh file; public ones have 29 MB."""


def find(filename: str, robot_file: str, packages: tuple[str, ...]) -> tuple[str, str]:
    """The path of a mesh that a robot file names, and the reason why it cannot be drawn, empty if it can.

    ``package://`` and ``model://`` are looked for in ``packages``; other names beside the robot file, then as they are.
    """
    scheme, separated, rest = filename.partition("://")
    if separated and scheme in ("package", "model"):
        candidates = [Path(folder, rest.lstrip("/")) for folder in packages]
    else:
        plain = filename.removeprefix("file://")
        candidates = [Path(robot_file).parent / plain, Path(plain)]
    path = next((path for path in candidates if stat.S_ISREG(mode(path) or 0)), None)
    return (filename, "no such file") if path is None else (str(path.absolute()), _flaw(path))


def _flaw(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        return f"a format that is not read: {suffix or 'no suffix'}"
    if path.stat().st_size > LARGEST:
        return f"more than {LARGEST // 2**20} MB"
    try:
        with open(path, "rb") as file:
            contents = b"" if suffix == ".stl" else file.read(LARGEST)
        if suffix == ".dae":
            collada.check(contents, path.name)
        elif suffix != ".stl":
            companions.check(path, contents, path.name)
    except (OSError, ModelError) as reason:
        return str(reason).removeprefix(f"{path.name}: ")
    return ""
