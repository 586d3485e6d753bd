"""Speed, as ratios measured in one run on this machine: `make bench`, or `python benchmarks/run.py [ROW...]`.

Each row pairs us with today's tool (or with the limit of the machine) and says what the ratio should reach.
Rows: policy, write, read, generate, train, evaluate, install, bundle-memory, memory. The last generates
10,000,000 transitions, which takes 1.2 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import rows_bundle
import rows_data
import rows_train
from measure import HEADER, Row

ROWS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "policy": rows_data.policy,
    "write": rows_data.write,
    "read": rows_data.read,
    "generate": rows_data.generate,
    "train": rows_train.train,
    "evaluate": rows_train.evaluate,
    "install": rows_bundle.install,
    "bundle-memory": rows_bundle.memory,
    "memory": rows_data.memory,
}


def main() -> None:
    """Measure the named rows, or all of them, and print each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], help="which rows (all)")
    chosen = parser.parse_args().rows or list(ROWS)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{platform.machine()}, {cores} cores, Python {platform.python_version()}")
    print(HEADER)
    with tempfile.TemporaryDirectory(prefix="smeoffline-bench-") as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        for name in chosen:
            for row in ROWS[name](Path(folder)):
                print(row, flush=True)


if __name__ == "__main__":
    main()
