"""What the bits of a float depend on besides the program: a tag to store beside data.

Two float implementations of a trajectory part after about 20 steps, since the transition's slope is +-2.
Bytes are compared only where the tags are equal; elsewhere single steps agree within 1e-4.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

import numpy as np
import torch


def platform_tag() -> dict[str, str]:
    """Architecture, processor vendor, CPU capability, torch, numpy and the BLAS behind torch."""
    return {
        "machine": platform.machine(),
        "vendor": _vendor(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "blas": _blas(torch.__config__.show()),
    }


def _vendor() -> str:
    """The processor's maker: one BLAS build may run other kernels on another maker's processor."""
    try:
        found = re.search(r"^vendor_id\s*:\s*(\S+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1) if found else platform.processor() or "unknown"


def _blas(build: str) -> str:
    """The BLAS line of torch's build description."""
    for pattern in (r"oneAPI Math Kernel Library Version \S+", r"OpenBLAS[^\n,]*", r"BLAS_INFO=\w+"):
        found = re.search(pattern, build)
        if found:
            return found.group(0)
    return "unknown"
