"""What the file system says to a write, in one line; and having it keep what was written."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from smeoffline.errors import DatasetError

ELSEWHERE = "or set MINARI_DATASETS_PATH to another folder"


def write_error(fault: Exception, place: Path, elsewhere: str = ELSEWHERE) -> DatasetError:
    """What the operating system, or HDF5 on its behalf, says to a write: in one line, with what to do."""
    buried = re.search(r"errno = (\d+)", str(fault))  # HDF5 has it in its own text
    number = int(buried[1]) if buried else getattr(fault, "errno", None)
    reason = os.strerror(number) if number is not None else next(iter(str(fault).splitlines()), "unknown reason")
    if number in (errno.ENOSPC, errno.EDQUOT):
        return DatasetError(f"{place}: disk full ({reason}); free some space, {elsewhere}")
    if number in (errno.EROFS, errno.EACCES, errno.EPERM):
        return DatasetError(f"{place}: may not be written ({reason}); change its permissions, {elsewhere}")
    named = getattr(fault, "filename", None) or place
    return DatasetError(f"{named}: cannot be written ({reason}); check that folder, {elsewhere}")


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, survive a power cut.

    Raises:
        OSError: The bytes could not be written after all.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):  # no such thing on this file system
            raise
    finally:
        os.close(handle)
