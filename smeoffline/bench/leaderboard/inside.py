"""What runs inside the sandbox: a stranger's algorithm, on arrays, to arrays. Nothing here is trusted outside.

    python -m smeoffline.bench.leaderboard.inside MODULE:FUNCTION SEED STEPS

The arrays of `INPUT` go in; the actions at its probes come out on stdout, in numpy's format.
"""

from __future__ import annotations

import dataclasses
import io
import os
import sys

import numpy as np

from smeoffline.errors import SmeofflineError

CODE, ENTRANT, INPUT = "/run/code", "/run/entrant", "/run/input.npz"
PROBES = "probes"


def main() -> int:
    """Train and act; the exit code."""
    result = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the algorithm prints is no part of the result
    name, seed, steps = sys.argv[1:]
    try:
        actions = answer(name, int(seed), int(steps))
    except SmeofflineError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    page = io.BytesIO()  # numpy writes arrays to no pipe
    np.lib.format.write_array(page, actions, allow_pickle=False)
    with result:
        result.write(page.getvalue())
    return 0


def answer(name: str, seed: int, steps: int) -> np.ndarray:
    """The actions of the trained policy at the probes, (n, N_a) float32."""
    from smeoffline.data.action_box import ActionBox
    from smeoffline.score.evaluate import act
    from smeoffline.train.own import find_train, run_train
    from smeoffline.train.transitions import Transitions

    os.chdir(ENTRANT)
    with np.load(INPUT, allow_pickle=False) as arrays:
        data = Transitions(**{field.name: arrays[field.name] for field in dataclasses.fields(Transitions)})
        probes = arrays[PROBES]
    box = ActionBox.unit(data.actions.shape[1])
    policy, _ = run_train(find_train(name), data, box, seed=seed, steps=steps)
    return np.ascontiguousarray(act(policy, probes), np.float32)


if __name__ == "__main__":
    sys.exit(main())
