"""Arrays in an `.npz` file: written with bytes that depend on the arrays alone, and read from a stranger.

Nothing of a stranger's file is believed or unpickled: the header of an array, itself bounded, is read first, and its
type and shape are compared; then no more is read than such an array has. No name in it is ever used as a path.
"""

from __future__ import annotations

import ast
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from smeoffline.sme.arrays import Floats
from smeoffline.train.files import write_atomically

Shape = tuple[int, ...]

MAX_TEXT = 65_536  # characters of an archive's text
MAX_HEADER = 10_000  # bytes before an array's data, as numpy allows
OVERHEAD = 1_000_000  # bytes of a file beside its arrays
WIDEST = 2  # times as large as float32 an array may be in a file that is looked into: float64 is told as such
MAX_FAULTS = 50  # that are told
SUFFIX = ".npy"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a member's time, which must not depend on the clock
SHOWN = 60  # characters of a stranger's text in a message
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # numpy's; what others raise on damage is not in DAMAGED
# The names of types that numpy is asked about: others can end the process, such as `m8[D/0]` by a division by zero.
PLAIN_TYPE = re.compile(r"[<>=|]?[?biufcOSUV][0-9]{0,6}")

# What zipfile and numpy raise on a damaged file; the last four, where a header is read as a Python literal.
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    SyntaxError,
    TypeError,
    KeyError,
    MemoryError,
)


class ArrayError(Exception):
    """An array is not what it must be: its text says what was expected, and what was found."""


@dataclass(frozen=True)
class Contents:
    """What was read.

    Attributes:
        text: The member that is text; None where it is missing or faulty.
        arrays: The arrays without a fault, by name.
        names: Of all that is in the file, those with a fault too.
        faults: What is wrong, one sentence each.
    """

    text: str | None
    arrays: Mapping[str, Floats]
    names: frozenset[str]
    faults: tuple[str, ...]


def write(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays as `np.savez` does; the same arrays give the same bytes.

    Raises:
        OSError: The file can't be written; an old one of that name is still there.
    """
    page = io.BytesIO()
    with zipfile.ZipFile(page, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(name + SUFFIX, LONG_AGO), "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    try:
        write_atomically(path, page.getvalue())
    except OSError as fault:  # which names the temporary sibling
        raise OSError(fault.errno, fault.strerror, str(path)) from None


def read(path: Path, shapes: Mapping[str, Shape], text: str) -> Contents:
    """Read a stranger's archive.

    Args:
        path: The file.
        shapes: The arrays that it may have, all float32; which of them it must have is for the caller to say.
        text: Name of the member that is text.

    Raises:
        OSError: There is no such file, or it can't be read.
    """
    limit = OVERHEAD + 4 * MAX_TEXT + WIDEST * sum(map(_bytes, shapes.values()))
    size = path.stat().st_size
    if size > limit:
        fault = f"expected a file of at most {limit:,} bytes, got {size:,}; is it of another suite? see --suite"
        return Contents(None, {}, frozenset(), (fault,))
    try:
        with zipfile.ZipFile(path) as archive:
            return _members(archive, shapes, text)
    except DAMAGED:
        return Contents(None, {}, frozenset(), ("expected an .npz file as numpy.savez writes it, got something else",))


def _members(archive: zipfile.ZipFile, shapes: Mapping[str, Shape], text: str) -> Contents:
    """Every member, once."""
    found, arrays, faults = None, dict[str, Floats](), list[str]()
    seen = set[str]()
    for member in archive.infolist():
        name = _name(member)
        shown = repr(name[:SHOWN])
        if name in seen:
            faults.append(f"expected each array once, got {shown} again")
        elif name == text:
            found = _checked(faults, shown, lambda m=member: _text(archive, m))
        elif name in shapes:
            array = _checked(faults, shown, lambda m=member, s=shapes[name]: _array(archive, m, s))
            if array is not None:
                arrays[name] = array
        else:
            faults.append(f"expected arrays of known names, got {shown}")
        seen.add(name)
        if len(faults) == MAX_FAULTS:
            faults.append("and perhaps more")
            break
    if text not in seen:
        faults.insert(0, f"expected an array {text!r} that holds text, got none")
    names = frozenset(_name(member) for member in archive.infolist())
    return Contents(found, arrays, names, tuple(faults))


def _name(member: zipfile.ZipInfo) -> str:
    """What numpy calls a member."""
    return member.filename.removesuffix(SUFFIX)


def _checked(faults: list[str], shown: str, read_one: Any) -> Any:
    """What a function reads, or None and a fault."""
    try:
        return read_one()
    except ArrayError as fault:
        faults.append(f"{shown}: {fault}")
    except DAMAGED:
        faults.append(f"{shown}: is damaged; save it again with numpy.savez")
    return None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, shape: Shape) -> Floats:
    """One array of a member, of which no more is read than is expected of it."""
    with _opened(archive, member) as stream:
        return read_array(stream, shape)


def _opened(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """A member's data, if it is compressed as numpy does it."""
    if member.compress_type not in COMPRESSIONS:
        raise ArrayError("expected it as numpy.savez or savez_compressed writes it, got another compression")
    return archive.open(member)


def read_array(stream: IO[bytes], shape: Shape) -> Floats:
    """One array in numpy's format that fills a stream.

    Args:
        stream: Holds at most a few bytes more than expected, or is read no further.
        shape: It must have.

    Raises:
        ArrayError: Another type or shape, or bytes are missing or left over.
        Exception: One of `DAMAGED`: not in numpy's format.
    """
    kind, fortran = _header(stream, shape, np.dtype("<f4"))
    data = stream.read(_bytes(shape) + 1)
    if len(data) != _bytes(shape):
        raise ArrayError(
            f"expected {_bytes(shape):,} bytes of data, got {'fewer' if len(data) < _bytes(shape) else 'more'}"
        )
    array = np.frombuffer(data, kind).reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(array, np.float32)


def _text(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    """One text of a member."""
    if member.file_size > MAX_HEADER + 4 * MAX_TEXT:
        raise ArrayError(f"expected a text of at most {MAX_TEXT:,} characters, got {member.file_size:,} bytes")
    with _opened(archive, member) as stream:
        kind, _ = _header(stream, (), None)
        if kind.kind != "U":
            raise ArrayError(f"expected text, got {kind}")
        data = stream.read(kind.itemsize + 1)
        if len(data) != kind.itemsize or kind.itemsize == 0:
            raise ArrayError("expected text, got none or a part of it")
        return str(np.frombuffer(data, kind)[0])


def _header(stream: IO[bytes], shape: Shape, kind: np.dtype[Any] | None) -> tuple[np.dtype[Any], bool]:
    """Type and order of an array, after its shape and, where one is given, its type are found right."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ArrayError(f"expected numpy's format 1.0 or 2.0, got {version[0]}.{version[1]}")
    length = int.from_bytes(stream.read(2 if version == (1, 0) else 4), "little")
    if length > MAX_HEADER:
        raise ArrayError(f"expected a header of at most {MAX_HEADER:,} bytes, got {length:,}")
    with warnings.catch_warnings(action="ignore"):  # about escapes in it
        told = ast.literal_eval(stream.read(length).decode("latin1"))
    found, fortran, name = told["shape"], told["fortran_order"], told["descr"]
    if found != shape:
        raise ArrayError(f"expected shape {shape}, got {str(found)[:SHOWN]}")
    if not isinstance(name, str) or not PLAIN_TYPE.fullmatch(name):
        raise ArrayError(f"expected {'text' if kind is None else kind.name}, got {str(name)[:SHOWN]!r}")
    dtype = np.dtype(name)
    if kind is not None and dtype != kind:
        raise ArrayError(f"expected {kind.name}, got {str(dtype)[:SHOWN]}; use .astype(numpy.{kind.name})")
    return dtype, bool(fortran)


def _bytes(shape: Shape) -> int:
    """Of float32 data of a shape."""
    count = 4
    for length in shape:
        count *= length
    return count
