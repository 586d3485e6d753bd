"""From a dataset to a policy: transitions, the loop over d3rlpy, policies in files.

The package can be called: `so.train(...)` is `smeoffline.train.run.train(...)`. Importing any module of this
room makes `smeoffline.train` the room, so a function of that name beside it would come and go.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _Room(types.ModuleType):
    """A package that trains when it is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See `smeoffline.train.run.train`."""
        from smeoffline.train.run import train

        return train(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
