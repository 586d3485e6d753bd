"""How far a benchmark is, and how long it will take: told from what cells have cost so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from smeoffline.bench.cell import Cell
from smeoffline.bench.lines import CellResult

# Milliseconds of a training step on one thread of one machine: how costs relate before any is measured here.
STEP_MS = {
    "bc": 1.0,
    "plas": 2.0,
    "crr": 4.0,
    "td3plusbc": 6.0,
    "iql": 9.0,
    "sac": 10.0,
    "bear": 20.0,
    "rebrac": 24.0,
    "awac": 31.0,
    "bcq": 84.0,
    "cql": 101.0,
    "calql": 101.0,
}
OTHER_STEP_MS = 8.0


@dataclass(frozen=True)
class Status:
    """A benchmark in the middle of it.

    Attributes:
        cells: Of the suite.
        done: With a result, of earlier calls too.
        running: Under way now.
        failed: In this call.
        seconds_left: An estimate; None before the first cell of this call has ended.
        last: The cell that ended just now; None at the beginning.
    """

    cells: int
    done: int
    running: int
    failed: int
    seconds_left: float | None
    last: CellResult | None


Progress = Callable[[Status], None]


class Costs:
    """What a step of each algorithm costs here, learnt from cells that ended."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._steps: dict[str, int] = {}

    def add(self, result: CellResult) -> None:
        """Learn from a cell that was done."""
        self._seconds[result.algo] = self._seconds.get(result.algo, 0.0) + result.seconds
        self._steps[result.algo] = self._steps.get(result.algo, 0) + result.steps

    def left(self, cells: Iterable[Cell], running: int, workers: int) -> float | None:
        """Seconds until these cells are done.

        Args:
            cells: That are not done; `running` of them are half done, on average.
            running: How many are under way.
            workers: How many run at once.

        Returns:
            None before anything was learnt.
        """
        if not self._steps:
            return None
        expected = sum(STEP_MS.get(algo, OTHER_STEP_MS) * steps for algo, steps in self._steps.items())
        scale = sum(self._seconds.values()) / expected  # seconds per expected millisecond, all algorithms together
        costs = [self._cost(cell, scale) for cell in cells]
        if not costs:
            return 0.0
        half_done = 0.5 * running / len(costs)
        return sum(costs) * (1 - half_done) / workers

    def _cost(self, cell: Cell, scale: float) -> float:
        if cell.algo in self._steps:
            return cell.steps * self._seconds[cell.algo] / self._steps[cell.algo]
        return cell.steps * STEP_MS.get(cell.algo, OTHER_STEP_MS) * scale


class Tracker:
    """Counts cells, and tells.

    Args:
        cells: Of the suite.
        finished: Keys of those that earlier calls did.
        workers: Tells how many cells can run at once; a cluster may grow.
        tell: Told after every change.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        finished: Iterable[str],
        workers: Callable[[], int],
        tell: Progress | None,
    ) -> None:
        known = set(finished)
        self._total = len(cells)
        self._open = {cell.key: cell for cell in cells if cell.key not in known}
        self._failed = 0
        self._workers = workers
        self._tell = tell
        self._costs = Costs()

    def begin(self) -> None:
        """Tell where it stands before anything runs."""
        self._report(None)

    def end(self, result: CellResult) -> None:
        """Count a cell that ended."""
        del self._open[result.cell]
        self._failed += not result.done
        if result.done:
            self._costs.add(result)
        self._report(result)

    def _report(self, last: CellResult | None) -> None:
        if self._tell is None:
            return
        workers = max(1, self._workers())
        running = min(workers, len(self._open))
        self._tell(
            Status(
                cells=self._total,
                done=self._total - len(self._open) - self._failed,
                running=running,
                failed=self._failed,
                seconds_left=self._costs.left(self._open.values(), running, workers),
                last=last,
            )
        )
