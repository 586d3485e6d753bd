"""A flat array whose final length is not known while it is filled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Column:
    """A flat array that grows; memory that was not written to costs nothing.

    Args:
        dtype: Of its numbers.
        width: Shape of a row.
        rows: How many to make room for at once; a hint.

    Attributes:
        width: As given.
        row_bytes: Bytes of a row.
        used: Rows that are filled; set back, the last ones are given up.
    """

    def __init__(self, dtype: type[np.generic], width: tuple[int, ...], rows: int) -> None:
        self._array: npt.NDArray[Any] = np.empty((rows, *width), dtype)
        self.width = width
        self.row_bytes = self._array.itemsize * int(np.prod(width))
        self.used = 0

    def extend(self, rows: int) -> npt.NDArray[Any]:
        """The next rows, to be filled."""
        if self.used + rows > len(self._array):
            self._array.resize((max(2 * len(self._array), self.used + rows), *self.width), refcheck=False)
        self.used += rows
        return self._array[self.used - rows : self.used]

    def finish(self) -> npt.NDArray[Any]:
        """The filled rows, and no memory beyond them."""
        if self.used < len(self._array):
            self._array.resize((self.used, *self.width), refcheck=False)
        return self._array
