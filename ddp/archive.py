"""Named arrays in one file: numpy's .npz without pickle, written whole, and read without trust.

What is read is known before any memory is taken for it: which members, of which kind and rank, of how many bytes.
"""

import math
import os
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from ddp.compiling.interrupts import uninterrupted
from ddp.errors import ProblemError
from ddp.files import as_path_of, shown, write_atomically

LARGEST = 1 << 30
"""Bytes of all arrays of a file together, at most, unless their shapes are known."""

LONGEST, LONGEST_OF_MANY = 1 << 16, 1 << 11
"""Bytes of a text, at most: of one, and of each in a row."""

FEW = 16
"""Number of texts that may be as long as one alone."""

_LONGEST_HEADER = 4096

_METHODS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED


def write(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> Path:
    """Write arrays by their names, all of them or nothing.

    Raises ProblemError for a name that promises another format than .npz, and if the file cannot be written.
    """
    as_path_of(".npz", path)
    plain = {name: np.asarray(array) for name, array in arrays.items()}

    def put(stream: BinaryIO) -> None:
        with uninterrupted():
            np.savez_compressed(stream, allow_pickle=False, **plain)

    return write_atomically(path, put)


def read(
    path: Path,
    kinds: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    lengths: Mapping[str, tuple[int, ...]] | None = None,
    what: str = "a solution",
) -> dict[str, np.ndarray]:
    """Read the arrays of a file that ``kinds`` names, as far as they are there; nothing else is looked at.

    kinds: kind and rank of each array, "f2" for a matrix of floats: f, i, b (8 bytes, 8 bytes, 1 byte) or U.
    shapes: those that are known; then their arrays may be of any size.
    lengths: numbers of rows that arrays may have, by what else the file says; one with another is damaged.
    what: what the file should hold, for errors.

    Raises ProblemError for a file that is missing, is no archive or damaged, or whose arrays are not of these kinds
    and shapes, too large, or of texts too long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with uninterrupted(), os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("it is no regular file")
            with zipfile.ZipFile(stream) as archive:
                return _arrays(archive, path, kinds, shapes or {}, lengths or {}, what)
    except FileNotFoundError:
        raise ProblemError(f"path: there is no file {shown(path)}") from None
    except ProblemError:
        raise
    except Exception as reason:  # a damaged archive raises a dozen kinds in its reader
        told = str(reason).splitlines()[0][:200] if str(reason) else type(reason).__name__
        raise ProblemError(f"path: {shown(path)} is not {what} file, or is damaged ({told})") from None


def refuse(path: Path, damaged: list[str], what: str = "a solution") -> None:
    """Raise ProblemError if any member is named."""
    if damaged:
        raise ProblemError(
            f"path: {shown(path)} is damaged: what it holds cannot be the {', '.join(damaged)} of {what}"
        )


def _arrays(
    archive: zipfile.ZipFile, path: Path, kinds: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]],
    lengths: Mapping[str, tuple[int, ...]], what: str,
) -> dict[str, np.ndarray]:  # fmt: skip
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"{name} twice")
        members[name] = info
    found, damaged, left = {}, [], LARGEST
    for name, kind in kinds.items():
        if name not in members:
            continue
        info = members[name]
        if info.compress_type not in _METHODS or info.flag_bits & 1:
            raise ValueError(f"{name} is packed in an unknown way")
        with archive.open(info) as stream:
            dtype, shape, by_columns, size = _header(stream)
            if f"{dtype.kind}{len(shape)}" != kind or dtype.itemsize not in _SIZES.get(dtype.kind, (dtype.itemsize,)):
                damaged.append(name)
                continue
            if name in lengths and shape[0] not in lengths[name]:
                damaged.append(name)
                continue
            if shapes.get(name) not in (None, shape):
                raise ProblemError(
                    f"path: {shown(path)} is of another problem: expected {name} of shape {shapes[name]}, got {shape}"
                )
            nbytes = math.prod(shape) * dtype.itemsize
            if info.file_size != size + nbytes:
                raise ValueError(f"{name} is {info.file_size} bytes long, its header says {size + nbytes}")
            left -= 0 if name in shapes else nbytes
            longest = LONGEST if math.prod(shape) <= FEW else LONGEST_OF_MANY
            if left < 0 or (dtype.kind == "U" and dtype.itemsize > longest):
                raise ValueError(f"{name} is too large: expected at most {LARGEST >> 30} GiB in all")
            raw = stream.read(nbytes)  # no more is there: the archive checks sizes and sums of what it unpacks
            if len(raw) != nbytes:
                raise ValueError(f"{name} is cut short")
            array = np.frombuffer(raw, dtype).reshape(shape, order="F" if by_columns else "C")
            found[name] = array.astype(dtype.newbyteorder("="), order="C")
    refuse(path, damaged, what)
    return found


_SIZES = {"f": (8,), "i": (8,), "b": (1,)}


def _header(stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Type, shape, whether columns are contiguous, and how long the header is that says so."""
    if npy.read_magic(stream) != (1, 0):  # headers of later ones may be gigabytes long
        raise ValueError("no array as numpy writes them")
    shape, by_columns, dtype = npy.read_array_header_1_0(stream, _LONGEST_HEADER)
    if dtype.kind not in "fibcU" or min(shape, default=0) < 0:
        raise ValueError("an array of something else than numbers and texts")
    return dtype, shape, by_columns, stream.tell()
