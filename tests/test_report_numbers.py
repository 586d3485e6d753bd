"""The numbers of a report: Table 1, sizes, intervals, labels; and that nothing unlike is averaged."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import synthetic_results as synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

from smeoffline.bench.report.numbers import dataset_rows, means_of, result_rows
from smeoffline.bench.report.runs import study
from smeoffline.bench.report.table1 import paper_table, pooled_sizes, table1
from smeoffline.bench.report.views import curve_panels, distance_panels, gain_panels, improvement_panels
from smeoffline.errors import BenchmarkError
from smeoffline.score.statistics import bootstrap_interval


def scores(cells, name="score_wd", **labels):
    """A number of the evaluations of some cells, by seed."""
    return [
        cell.evaluation[name]
        for cell in sorted(cells, key=lambda cell: cell.seed)
        if all(cell.label(label) == value for label, value in labels.items())
    ]


def test_the_papers_table_is_read_as_printed():
    """18 cells, sorted, with the means and spreads of the paper."""
    paper = paper_table()
    assert len(paper) == 18
    assert list(paper) == list(itertools.product((0.0, 0.1), (1, 10, 50), ("bp", "bc", "iql")))
    assert (paper[0.1, 50, "iql"].mean, paper[0.1, 50, "iql"].spread) == (0.799, 0.07)
    assert (paper[0.0, 10, "bc"].mean, paper[0.0, 10, "bc"].spread) == (0.979, 0.01)
    assert (paper[0.1, 1, "bp"].mean, paper[0.1, 1, "bp"].spread) == (0.982, 0.01)


def test_a_cell_of_table_1_is_mean_and_deviation_over_seeds():
    """Each cell is what numpy gives for its runs; the behavior counts once a seed, not once an algorithm."""
    cells = synthetic.table1(4)
    for cell in table1(study(cells)).cells:
        metric, algo = ("behavior_score", "bc") if cell.row == "bp" else ("score_wd", cell.row)
        runs = scores(cells, metric, algo=algo, nu=cell.nu, complexity=cell.complexity)
        assert cell.n == len(runs) == 4
        assert cell.mean == pytest.approx(np.mean(runs), abs=1e-6)
        assert cell.spread == pytest.approx(np.std(runs, ddof=1), abs=1e-6)


def test_a_cell_agrees_within_two_standard_errors_of_the_paper_or_a_hundredth():
    """The verdict turns at max(0.01, 2 x spread / sqrt(10)), on either side."""
    for tolerance, complexity in ((0.01, 10), (2 * 0.07 / 10**0.5, 50)):
        paper = {10: 0.971, 50: 0.801}[complexity]
        for sign, factor in itertools.product((-1, 1), (0.999, 1.001)):
            wanted = paper + sign * factor * tolerance
            cells = synthetic.table1(1)
            moved = [
                synthetic.shifted(c, wanted - c.evaluation["score_wd"])
                if (c.algo, c.task["complexity"], c.behavior[0]["nu"]) == ("bc", complexity, 0.1)
                else c
                for c in cells
            ]
            made = {(c.nu, c.complexity, c.row): c for c in table1(study(moved)).cells}
            assert made[0.1, complexity, "bc"].within is (factor < 1)
            assert made[0.1, complexity, "bc"].difference == pytest.approx(wanted - paper, abs=1e-6)


def test_table_1_needs_all_of_the_papers_datasets():
    """Without one of the six, or with another reward or exploration, there is no table."""
    cells = synthetic.table1(1)
    assert table1(study(cells)) is not None
    assert table1(study([c for c in cells if c.label("complexity") != 50])) is None
    assert table1(study(synthetic.table1(1, shaping=0.5))) is None
    assert table1(study(synthetic.table1(1, explore="probit", sigma=0.1))) is None


def test_table_1_keeps_sizes_and_variants_apart():
    """Of several sizes the default is shown, of several variants the one with default settings."""
    plain = synthetic.table1(2)
    more = [*plain, *synthetic.table1(3, state_dim=2)]
    more += synthetic.table1(3, algos=("iql",), variant="greedy", settings={"weight_temp": 10.0})
    made = table1(study(more))
    assert made.size == (8, 4)
    assert made.algorithms == {"bc": "BC", "iql": "IQL"}
    trained = [cell for cell in made.cells if cell.row != "bp"]
    assert trained == [cell for cell in table1(study(plain)).cells if cell.row != "bp"]


def test_sizes_are_pooled_over_all_seeds():
    """The pooled spread is that of all runs of all sizes, and the paper's cell stands beside it."""
    cells = synthetic.size(3)
    (pooled,) = pooled_sizes(study(cells))
    assert list(pooled.sizes) == [(2, 4), (4, 4), (8, 4), (16, 4)]
    assert pooled.sizes[2, 4].mean == pytest.approx(np.mean(scores(cells, state_dim=2)), abs=1e-6)
    assert pooled.pooled.spread == pytest.approx(np.std(scores(cells), ddof=1), abs=1e-6)
    assert pooled.pooled.n == 12
    assert (pooled.paper.mean, pooled.paper.spread) == (0.803, 0.07)
    assert pooled_sizes(study([c for c in cells if c.label("state_dim") == 8])) == ()


@settings(max_examples=15)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.floats(-1, 1), min_size=n, max_size=n), min_size=1, max_size=4)
    )
)
def test_an_interval_is_the_one_of_the_statistics_room(rows):
    """Intervals of several rows at once are those of each alone, and a single seed has none."""
    for row, made in zip(rows, means_of([dict(enumerate(row)) for row in rows]), strict=True):
        assert made.n == len(row)
        assert made.value == pytest.approx(np.mean(row), abs=2e-6)
        if len(row) == 1:
            assert (made.low, made.high) == (None, None)
        else:
            assert (made.low, made.high) == pytest.approx(bootstrap_interval([np.array(row)], np.mean), abs=2e-6)


def test_variants_are_never_averaged():
    """Runs that differ in settings, steps or episodes get labels of their own; equal ones share one."""
    cells = [
        *(synthetic.cell("iql", seed=seed) for seed in range(3)),
        synthetic.cell("iql", settings={"expectile": 0.9}),
        synthetic.cell("iql", settings={"expectile": 0.8}),
        synthetic.cell("iql", variant="greedy", settings={"weight_temp": 10.0}),
        synthetic.cell("iql", steps=2000),
        synthetic.cell("iql", episodes=500),
    ]
    made = study(cells)
    counts = {(row.dataset.label, row.algorithm): row.score.n for row in result_rows(made)}
    assert counts == {
        ("C = 1, 100 episodes, ν = 0.1", "IQL (1,000 steps)"): 3,
        ("C = 1, 100 episodes, ν = 0.1", "IQL (expectile = 0.9, 1,000 steps)"): 1,
        ("C = 1, 100 episodes, ν = 0.1", "IQL (expectile = 0.8, 1,000 steps)"): 1,
        ("C = 1, 100 episodes, ν = 0.1", "IQL greedy"): 1,
        ("C = 1, 100 episodes, ν = 0.1", "IQL (2,000 steps)"): 1,
        ("C = 1, 500 episodes, ν = 0.1", "IQL (1,000 steps)"): 1,
    }


def test_the_order_of_lines_is_of_no_consequence():
    """Reversed results give an equal study."""
    cells = synthetic.gain(2, nus=(0.0, 0.3), complexities=(1,))
    assert study(cells[::-1]) == study(cells)
    again = [synthetic.shifted(synthetic.cell(suite=suite), by) for suite, by in (("a", 0.0), ("b", 0.1))]
    assert study(again[::-1]) == study(again)  # the same run in two suites counts once, always the same one
    assert len(study(again).runs) == 1


def test_a_reference_row_counts_once_a_seed():
    """Means of reference rows do not depend on how many algorithms ran on a seed's dataset."""
    cells = [synthetic.cell(algo, nu=0.3, seed=seed) for algo in ("bc", "iql") for seed in range(3)]
    extra = [synthetic.cell("plas", nu=0.3, seed=0), synthetic.cell("crr", nu=0.3, seed=0)]
    (few,), (many,) = dataset_rows(study(cells)), dataset_rows(study([*cells, *extra]))
    assert (few.seeds, few.behavior, few.headroom) == (many.seeds, many.behavior, many.headroom)
    assert few.behavior == pytest.approx(np.mean(scores(cells, "behavior_score", algo="bc")), abs=1e-6)


def test_cells_that_saw_other_data_are_told():
    """Where the reference rows of one dataset and seed differ between cells, the report has a note."""
    cells = [synthetic.cell(algo) for algo in ("bc", "iql")]
    assert study(cells).notes == ()
    moved = {**cells[1].evaluation, "behavior_score": cells[1].evaluation["behavior_score"] + 0.01}
    (note,) = study([cells[0], dataclasses.replace(cells[1], evaluation=moved)]).notes
    assert "seed 0: behavior_score differs between cells by 0.0100" in note


def test_improvement_has_the_lines_of_imitation_and_optimum():
    """The lines are what perfect imitation and the optimum improve over the behavior, group by group."""
    cells = synthetic.gain(2, algos=("bc", "iql"), nus=(0.0, 0.3), complexities=(1,))
    made = study(cells)
    panels = improvement_panels(result_rows(made), dataset_rows(made))
    (panel,) = [panel for panel in panels if panel.title == "C = 1, probit 0.3"]
    assert panel.groups == ("ν = 0", "ν = 0.3")
    here = {"algo": "bc", "nu": 0.3, "explore": "probit", "sigma": 0.3}
    behavior = np.mean(scores(cells, "behavior_score", **here))
    imitation = np.mean(scores(cells, "imitation_score", **here))
    assert panel.references["optimal"]["ν = 0.3"] == pytest.approx(1 - behavior, abs=2e-6)
    assert panel.references["imitation"]["ν = 0.3"] == pytest.approx(imitation - behavior, abs=2e-6)
    improved = np.mean(scores(cells, "improvement", **{**here, "algo": "iql"}))
    assert panel.points["IQL"]["ν = 0.3"].value == pytest.approx(improved, abs=1e-6)


def test_the_heat_map_holds_each_gain_at_its_place():
    """A cell is the mean rl_gain of its dataset; none without headroom, absent where nothing ran."""
    cells = synthetic.gain(2, algos=("iql",), nus=(0.0, 0.3), complexities=(1,))
    absent = {"nu": 0.3, "explore": "gaussian", "sigma": 0.1}
    cells = [c for c in cells if not all(c.label(k) == v for k, v in absent.items())]
    (panel,) = gain_panels(result_rows(study(cells)))
    assert panel.rows == ("ν = 0", "ν = 0.3")
    assert panel.columns == (
        ("none", ""), ("probit", "0.1"), ("probit", "0.3"), ("gaussian", "0.1"), ("gaussian", "0.3"),
    )  # fmt: skip
    expected = np.mean(scores(cells, "rl_gain", nu=0.3, explore="probit", sigma=0.3))
    assert panel.values["ν = 0.3", ("probit", "0.3")] == pytest.approx(expected, abs=1e-6)
    assert panel.values["ν = 0", ("probit", "0.3")] is None
    assert ("ν = 0.3", ("gaussian", "0.1")) not in panel.values


def test_distance_compares_algorithms_on_the_same_data():
    """A line is the mean over the datasets that all algorithms finished for that seed, from distance 0 on."""
    cells = [synthetic.cell(a, nu=nu, seed=s) for a in ("bc", "iql") for nu in (0.0, 0.3) for s in (0, 1)]
    partial = [c for c in cells if (c.algo, c.behavior[0]["nu"]) != ("iql", 0.3)]
    (whole,), (part,) = distance_panels(study(cells)), distance_panels(study(partial))
    assert whole.title == "C = 1 (2 datasets, 2 seeds)"
    assert part.title == "C = 1 (1 dataset, 2 seeds)"
    assert whole.series[0].x == (0.0, 0.05, 0.35, 0.65, 0.95)
    assert whole.series[0].y[0].value == pytest.approx(np.mean(scores(cells, algo="bc")), abs=1e-6)
    assert part.series[0].y[0].value == pytest.approx(np.mean(scores(cells, algo="bc", nu=0.0)), abs=1e-6)
    assert part.series[0].y[0].n == 2


def test_learning_curves_need_two_points():
    """A dataset's curves have every step that all seeds have, and a single point is no curve."""
    cells = [synthetic.cell(seed=0), synthetic.cell(seed=1, curve=(0.5, 1.0))]
    (panel,) = curve_panels(study(cells))
    assert panel.series[0].x == (500, 1000)
    assert [point.n for point in panel.series[0].y] == [2, 2]
    last = [cell.curve[-1].score_wd for cell in cells]
    assert panel.series[0].y[-1].value == pytest.approx(np.mean(last), abs=1e-6)
    assert curve_panels(study([synthetic.cell(curve=(1.0,))])) == ()


@pytest.mark.parametrize("points", [[{"distance": 0.5, "score": "high"}], {"0.5": 0.9}, ["0.5"]])
def test_a_curve_that_is_none_names_its_cell(points):
    """Points of another kind are refused by the cell's name."""
    cell = synthetic.cell()
    broken = dataclasses.replace(cell, evaluation={**cell.evaluation, "ood_curve": points})
    with pytest.raises(BenchmarkError, match=r"--s0'.*ood_curve"):
        study([broken])
