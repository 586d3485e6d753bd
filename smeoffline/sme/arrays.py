"""Names for the array types that pass between rooms, and the one check on arrays from outside."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]


def as_rows(name: str, values: Any, width: int) -> Floats:
    """`values` as a contiguous (B, width) float32 array.

    Raises:
        ValueError: Another shape or not numbers; the text gives both shapes.
    """
    array = np.ascontiguousarray(values, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name}: expected shape (B, {width}), got {array.shape}")
    return array
