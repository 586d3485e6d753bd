"""What every test shares: a private dataset root, the import path of subprocesses, Hypothesis profiles."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# No deadline: the first example of a test pays for torch's start-up. In CI the examples are the same in
# every run, so that a red build is never a matter of luck; elsewhere each run looks at new ones.
settings.register_profile("local", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# A shell without job control starts background processes with SIGINT ignored, which children inherit: tests of
# Ctrl-C would then wait for an interruption that never comes.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _outside_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep fixtures wider than one test away from ~/.minari, and let subprocesses import the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
        paths = [str(ROOT), str(ROOT / "cli"), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        yield


@pytest.fixture(autouse=True)
def minari_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's datasets go: an empty folder of its own."""
    root = tmp_path / "minari"
    root.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    return root


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the test with torch set to 1 and to 2 threads; afterwards torch has as many as before."""
    import torch  # not every test needs it

    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The bytes of a bundle of one small dataset."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("packed")
        patch.setenv("MINARI_DATASETS_PATH", str(folder / "minari"))
        from bundles import packed  # and all that it needs: only for the tests of bundles

        return packed(folder)
