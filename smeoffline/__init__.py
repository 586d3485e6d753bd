"""Offline-RL datasets whose answer is known, and a benchmark on them that is hard to fool.

    import smeoffline as so

    task = so.Task(state_dim=8, action_dim=4, complexity=50, seed=1)
    made = so.generate(task, so.Behavior(nu=0.3, sigma=0.3), episodes=1000, seed=0)
    run = so.train(made.dataset_id, algo="td3plusbc", seed=0, steps=5_000)
    print(so.evaluate(run.run).rl_gain)

Names are imported on first use: `import smeoffline` loads neither torch nor minari (0.15 s, nearly all
of it gymnasium and numpy). Gymnasium is loaded at once because its `make("smeoffline:smeoffline/SME-v0")`
imports this module and expects to find the id registered, also where this module was imported before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register, registry

if TYPE_CHECKING:
    from smeoffline.data.audit.inspection import Finding as Finding
    from smeoffline.data.audit.inspection import Inspection as Inspection
    from smeoffline.data.audit.inspection import inspect as inspect
    from smeoffline.data.behavior import Behavior as Behavior
    from smeoffline.data.generate import Generated as Generated
    from smeoffline.data.generate import generate as generate
    from smeoffline.data.recipe import Component as Component
    from smeoffline.data.recipe import Recipe as Recipe
    from smeoffline.errors import SmeofflineError as SmeofflineError
    from smeoffline.score.evaluate import Evaluation as Evaluation
    from smeoffline.score.runs import evaluate as evaluate
    from smeoffline.sme.model import Sme as Sme
    from smeoffline.sme.task import Task as Task
    from smeoffline.train.job import TrainedRun as TrainedRun
    from smeoffline.train.run import train as train
    from smeoffline.train.transitions import Transitions as Transitions

__version__ = "0.1.0"

__all__ = [
    "Behavior",
    "Component",
    "Evaluation",
    "Finding",
    "Generated",
    "Inspection",
    "Recipe",
    "Sme",
    "SmeofflineError",
    "Task",
    "TrainedRun",
    "Transitions",
    "__version__",
    "evaluate",
    "generate",
    "inspect",
    "train",
]

# Where each public name lives. Type checkers read the imports above, and a test compares the two.
_HOME = {
    "Behavior": "smeoffline.data.behavior",
    "Component": "smeoffline.data.recipe",
    "Evaluation": "smeoffline.score.evaluate",
    "Finding": "smeoffline.data.audit.inspection",
    "Generated": "smeoffline.data.generate",
    "Inspection": "smeoffline.data.audit.inspection",
    "Recipe": "smeoffline.data.recipe",
    "Sme": "smeoffline.sme.model",
    "SmeofflineError": "smeoffline.errors",
    "Task": "smeoffline.sme.task",
    "TrainedRun": "smeoffline.train.job",
    "Transitions": "smeoffline.train.transitions",
    "evaluate": "smeoffline.score.runs",
    "generate": "smeoffline.data.generate",
    "inspect": "smeoffline.data.audit.inspection",
    "train": "smeoffline",  # the room itself, which can be called: see there
}

ENV_ID = "smeoffline/SME-v0"


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    # A room of the function's own name would shadow it as soon as anything imports that room.
    value = (
        importlib.import_module(f"{home}.{name}") if home == __name__ else getattr(importlib.import_module(home), name)
    )
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})


if ENV_ID not in registry:  # gymnasium warns when an id is registered again, as a reload would
    register(
        id=ENV_ID,
        entry_point="smeoffline.sme.env:SMEEnv",
        vector_entry_point="smeoffline.sme.vector_env:SMEVectorEnv",
    )
