"""MuJoCo's compiler: an MJCF file as a model in which every default, class, include and frame is settled.

Its elements by kind and number, as messages name them.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np

from ddp.errors import ModelError
from dynamics.robots.joints import root_name
from dynamics.robots.mjcf import files
from dynamics.robots.mjcf.states import FREE

_NUMBERS = (
    "body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia", "body_gravcomp", "jnt_pos",
    "jnt_axis", "jnt_stiffness", "dof_armature", "dof_damping", "dof_frictionloss", "qpos0", "qpos_spring", "key_qpos",
    "actuator_gear", "actuator_gainprm", "actuator_biasprm", "actuator_armature", "actuator_damping", "site_pos",
    "site_quat",
)  # fmt: skip
"""Fields of a compiled model that a robot is made of but for limits: MuJoCo lets some of them be infinite."""


class Compiled(NamedTuple):
    """A file that MuJoCo has compiled: its text, the elements with their lines, the model, warnings of the compiler."""

    path: Path
    text: bytes
    spec: Any
    model: Any
    warnings: tuple[str, ...]


def import_mujoco() -> ModuleType:
    """Import mujoco; ModelError says how to install it."""
    try:
        import mujoco
    except ImportError:
        raise ModelError(
            "MuJoCo, which reads MJCF files and plays motions, is not installed: pip install mujoco, or mayne with its"
            " extra: mayne[mujoco]"
        ) from None
    return mujoco


def compile_file(path: Path, text: bytes, root: str | None = None) -> Compiled:
    """Compile an MJCF file; ModelError in MuJoCo's words if it cannot be.

    text: the file's in UTF-8; the folder of its path is that of included files and meshes.
    root: "free-flyer" gives a free joint to the one body that carries everything that moves, if it has none; "fixed"
    and None leave the file as it is, but "fixed" refuses a base that is free.
    """
    mujoco = import_mujoco()
    if not str(path).isprintable():
        raise _refusal(path, "expected a path that can be printed, which MuJoCo needs")
    files.check(path, text, where(path))
    with _errors_of(mujoco, path) as said:
        here = f"{path}.xml"  # MuJoCo reads by suffix; handed over like this, the text may be in a file of any
        spec = mujoco.MjSpec.from_file(here, include={here: text})
        model = spec.compile()
    if root == "fixed" and (model.jnt_type == FREE).any():
        raise _refusal(path, "root: the file has bodies with a free joint, which cannot be 'fixed'; leave root out")
    if root == "free-flyer":
        _release(path, spec, model)
        with _errors_of(mujoco, path) as said:
            model = spec.compile()
    if any("NaN" in warning for warning in said):
        raise _refusal(path, "expected numbers, got a NaN")
    fields = {name: getattr(model, name) for name in _NUMBERS} | {"gravity": model.opt.gravity}
    for name, numbers in fields.items():
        if not np.isfinite(numbers).all():
            raise _refusal(path, f"expected finite numbers, got {name} with one that is not")
    return Compiled(path, text, spec, model, tuple(said))


def _release(path: Path, spec: Any, model: Any) -> None:
    """Give the base a free joint, if it has none; keyframes, which count configurations without it, are dropped."""
    moving = {int(model.body_rootid[b]) for b in model.jnt_bodyid}
    if len(moving) != 1:
        reason = f"{len(moving)} bodies of the world carry joints" if moving else "nothing in the file moves"
        raise _refusal(path, f"root: expected one body of the world as the base of a free-flyer, but {reason}")
    base = next(body for body in spec.bodies if body.id == moving.copy().pop())
    if [joint.type for joint in base.joints] == [FREE]:
        return
    if base.joints:
        name = repr(base.name) if base.name else str(base.id)
        reason = f"root: expected a base that is fixed to the world, but body {name} has a joint of its own"
        raise _refusal(path, reason)
    for key in list(spec.keys):
        spec.delete(key)
    base.mocap = False
    base.add_freejoint(name=root_name({joint.name for joint in spec.joints}))


@contextmanager
def quietly() -> Iterator[list[str]]:
    """Within the block, collect what MuJoCo warns of, which it would write into a file of the working folder."""
    mujoco = import_mujoco()
    said: list[str] = []
    usual = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(said.append)
    try:
        yield said
    finally:
        mujoco.set_mju_user_warning(usual)


@contextmanager
def _errors_of(mujoco: ModuleType, path: Path) -> Iterator[list[str]]:
    """Collect MuJoCo's warnings, and turn its errors into ModelErrors."""
    try:
        with quietly() as said, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield said
        said += [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        said[:] = [_one_line(warning) for warning in said]
    except (ValueError, RuntimeError, TypeError, KeyError, mujoco.FatalError, mujoco.UnexpectedError) as reason:
        raise _refusal(path, f"MuJoCo cannot read it ({_one_line(str(reason))})") from None


def _refusal(path: Path, reason: str) -> ModelError:
    return ModelError(f"{where(path)}: {reason}")


def where(path: Path) -> str:
    """Beginning of errors of a file, or of a text, whose path is not absolute."""
    return f"robot file {str(path)!r}" if path.is_absolute() else "robot text"


def _one_line(text: str) -> str:
    """MuJoCo's words in one line, without the names of elements that have none."""
    words = "; ".join(line.strip() for line in text.strip().splitlines() if line.strip())
    return re.sub(r"(XML )?Error: ", "", words.replace("Element name '', ", "element "))


_LISTS = {
    "body": "bodies", "joint": "joints", "tendon": "tendons", "actuator": "actuators", "equality": "equalities",
    "flex": "flexes",
}  # fmt: skip


class Elements:
    """Names of a compiled file's elements: 'hip' (line 12), where the line is known.

    It is not for elements of included files.
    """

    def __init__(self, compiled: Compiled) -> None:
        self._m, self._text, spec = compiled.model, compiled.text, compiled.spec
        self._types = {
            int(actuator.id): actuator.type.name.removeprefix("mjACTUATOR_").lower() for actuator in spec.actuators
        }
        self._lines = {
            kind: {int(element.id): _line(element.info) for element in getattr(spec, many)}
            for kind, many in _LISTS.items()
        }

    def named(self, kind: str, i: int, more: str = "") -> str:
        """Element i of a kind; ``more`` is told with its line."""
        mujoco = import_mujoco()
        name = mujoco.mj_id2name(self._m, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), i)
        inside = ", ".join(part for part in (self._lines[kind].get(i, ""), more) if part)
        return (repr(name) if name else f"{kind} {i}") + (f" ({inside})" if inside else "")

    def actuator(self, i: int, law: str = "") -> str:
        """Actuator i; its type is told with its line, of a <general> one its law."""
        written = self._types.get(i, "general")
        return self.named("actuator", i, law if written == "general" else written)

    def option(self, name: str) -> str:
        """An attribute of <option> by name and value, with its line."""
        lines: list[int] = []
        parser = expat.ParserCreate("utf-8")

        def opened(tag: str, attributes: dict[str, str]) -> None:
            if tag == "option" and name in attributes:
                lines.append(parser.CurrentLineNumber)

        parser.StartElementHandler = opened
        parser.Parse(self._text, True)
        value = f"{name} {getattr(self._m.opt, name):g}"
        return f"{value}, line {lines[-1]}" if lines else value


def _line(info: str) -> str:
    """The line in what MuJoCo keeps of an element's origin; it is 0 in included files."""
    found = re.search(r"line ([1-9]\d*)", info)
    return f"line {found[1]}" if found else ""
