"""The ranking: means, intervals and probabilities of improvement, on axes that are named."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import synthetic_results as synthetic
from scipy import stats

from smeoffline.bench.report.ranking import ScoreTable, compare, ranking, stratified
from smeoffline.bench.report.report import render
from smeoffline.bench.report.runs import study
from smeoffline.errors import SpecError
from smeoffline.score.statistics import interquartile_mean

SEEDS, DATASETS = 5, 3


def drawn(spread=0.01, between=0.0, shift=0.0, seed=0):
    """Scores by dataset and seed, with a spread over seeds and one between datasets."""
    stream = np.random.default_rng(seed)
    return {
        f"d{d}": {s: shift + between * d + spread * float(stream.standard_normal()) for s in range(SEEDS)}
        for d in range(DATASETS)
    }


def swapped(cells):
    """The same scores with the axes dataset and seed the wrong way around."""
    return {seed: {d: cells[d][seed] for d in cells} for seed in next(iter(cells.values()))}


def test_the_mean_is_the_interquartile_mean_of_all_runs():
    """It equals scipy's 25% trimmed mean over every dataset and seed, and best is first."""
    good, bad = drawn(shift=0.3, between=0.1), drawn(shift=0.1, seed=1)
    made = compare(ScoreTable({"bad": bad, "good": good}))
    runs = [value for seeds in good.values() for value in seeds.values()]
    assert made.algorithms == ("good", "bad")
    assert made.iqm["good"].value == pytest.approx(stats.trim_mean(runs, 0.25), abs=1e-6)
    assert made.iqm["good"].n == SEEDS * DATASETS


def test_swapped_axes_are_refused():
    """Dataset and seed cannot be mistaken for each other: a transposed table is an error, not a result."""
    table = drawn()
    ScoreTable({"a": table})
    with pytest.raises(SpecError, match=r"axis 'dataset', got 0; axes are algorithm, dataset, seed"):
        ScoreTable({"a": swapped(table)})
    by_dataset = {d: {"a": 1.0, "b": 2.0} for d in table}
    with pytest.raises(SpecError, match="axis 'seed', got 'a'"):
        ScoreTable({"a": by_dataset})
    with pytest.raises(SpecError, match="axis 'algorithm', got 0"):
        ScoreTable(swapped(table))


def test_what_swapped_axes_would_have_hidden():
    """Runs vary, datasets do not: resampling runs gives an interval, resampling datasets would give none."""
    effects = np.random.default_rng(0).standard_normal(SEEDS)
    table = {f"d{d}": {s: float(effects[s]) for s in range(SEEDS)} for d in range(DATASETS)}

    def mean(*strata, axis=-1):
        return np.concatenate(strata, axis=axis).mean(axis=axis)

    made = stratified(ScoreTable({"a": table}).strata("a"), mean)
    wrong = stratified([np.full(DATASETS, effect) for effect in effects], mean)
    assert made.high - made.low > 0.3
    assert wrong.high - wrong.low < 1e-6


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"a": {}},
        {"a": {"d": {0: 1.0}}, "b": {"d": {1: 1.0}}},
        {"a": {"d": {0: 1.0}}, "b": {"e": {0: 1.0}}},
        {"a": {"d": {0: float("nan")}}},
        {"a": {"d": {0: None}}},
        {"a": {"d": {True: 1.0}}},
    ],
)
def test_an_incomplete_table_is_refused(values):
    """Algorithms are compared on the same datasets and seeds, and on finite scores, or not at all."""
    with pytest.raises(SpecError, match="score table"):
        ScoreTable(values)


def test_differences_between_datasets_do_not_widen_an_interval():
    """Seeds are resampled within datasets: a constant added to one dataset leaves the interval's width."""

    def mean(*strata, axis=-1):
        return np.mean([x.mean(axis=axis) for x in strata], axis=0)

    near, far = (ScoreTable({"a": drawn(between=b)}).strata("a") for b in (0.0, 100.0))
    one, other = stratified(near, mean), stratified(far, mean)
    assert other.high - other.low == pytest.approx(one.high - one.low, abs=1e-5)
    assert one.high - one.low == pytest.approx(2 * 1.96 * 0.01 / np.sqrt(SEEDS * DATASETS), rel=0.5)


def test_an_interval_comes_from_its_seed_alone():
    """The same seed gives the same interval, another one another; order of insertion does not matter."""
    strata = ScoreTable({"a": drawn()}).strata("a")

    def iqm(*x, axis=-1):
        return interquartile_mean(np.concatenate(x, axis=axis), axis=axis)

    assert stratified(strata, iqm) == stratified(strata, iqm)
    assert stratified(strata, iqm, seed=1) != stratified(strata, iqm)
    table = drawn()
    turned = {d: dict(reversed(table[d].items())) for d in reversed(table)}
    assert compare(ScoreTable({"b": turned, "a": turned})) == compare(ScoreTable({"a": table, "b": table}))


def test_the_probability_of_improvement_counts_runs_on_the_same_data():
    """It is the share of datasets and seeds on which one beats the other, a tie counting one half."""
    first, second = drawn(seed=0), drawn(seed=1)
    second["d0"][0] = first["d0"][0]
    made = compare(ScoreTable({"a": first, "b": second}))
    wins = [
        1.0 if first[d][s] > second[d][s] else 0.5 if first[d][s] == second[d][s] else 0.0
        for d, s in itertools.product(first, range(SEEDS))
    ]
    assert made.wins["a", "b"].value == pytest.approx(np.mean(wins), abs=1e-6)
    assert made.wins["a", "b"].value + made.wins["b", "a"].value == pytest.approx(1)
    found = made.wins["a", "b"]
    assert found.low <= found.value <= found.high


def test_a_dataset_with_one_seed_means_no_interval():
    """Where the variation of a stratum is not known, none is made up."""
    one = {"d0": {0: 0.1}, "d1": {0: 0.3, 1: 0.4}}
    made = compare(ScoreTable({"a": one, "b": one}))
    assert made.iqm["a"].low is made.iqm["a"].high is None
    assert made.wins["a", "b"].low is None


def test_only_datasets_with_headroom_are_ranked_on():
    """Datasets whose mean headroom is below 0.05 do not count, whatever their gap closed."""
    cells = [
        synthetic.cell(a, nu=nu, explore="probit", sigma=0.3, seed=s)
        for a in ("bc", "iql")
        for nu in (0.0, 0.1, 0.5)
        for s in range(3)
    ]
    made = ranking(study(cells))
    assert made.datasets == ("C = 1, ν = 0.5, probit 0.3",)
    assert made.panel.iqm["IQL"].n == 3
    assert ranking(study([c for c in cells if c.behavior[0]["nu"] < 0.5])) is None
    assert ranking(study([c for c in cells if c.algo == "bc"])) is None


def test_algorithms_are_compared_on_what_all_have_finished():
    """A missing run drops its seed for all; an algorithm without a dataset is not ranked, and why is told."""
    cells = synthetic.gain(3, algos=("bc", "iql", "plas"), nus=(0.5,), complexities=(1,))
    whole = ranking(study(cells))
    assert (len(whole.datasets), whole.seeds, whole.dropped, whole.excluded) == (4, (3, 3), 0, {})
    lost = next(c for c in cells if c.algo == "iql" and c.seed == 1 and c.behavior[0]["sigma"] == 0.3)
    made = ranking(study([synthetic.failed(c) if c is lost else c for c in cells]))
    assert (made.seeds, made.dropped) == ((2, 3), 2)
    assert {value.n for value in made.panel.iqm.values()} == {11}
    few = [
        c for c in cells if c.algo != "plas" or (c.behavior[0]["explore"] == "probit" and c.behavior[0]["sigma"] == 0.3)
    ]
    made = ranking(study(few))
    assert set(made.panel.algorithms) == {"BC", "IQL"}
    assert made.excluded == {"PLAS": "finished on 1 of 4 datasets that can teach"}
    assert made.panel == ranking(study([c for c in cells if c.algo != "plas"])).panel


def test_a_dataset_without_information_is_not_ranked():
    """Where each state shows one action no reward can teach, so such a dataset says nothing of who learns from it."""
    silent = [synthetic.cell(a, nu=0.5, seed=s) for a in ("bc", "iql") for s in range(3)]
    assert ranking(study(silent)) is None
    told = exploring(3, (1,))
    assert ranking(study([*silent, *told])) == ranking(study(told))


def test_a_run_without_headroom_counts_for_none():
    """A seed whose dataset leaves no gap has no gap closed; the other seeds of its dataset still count."""
    cells = exploring(3, (1,))
    null = {"rl_gain": None, "gap_closed": None}
    nulled = [dataclasses.replace(c, evaluation={**c.evaluation, **null}) if c.seed == 0 else c for c in cells]
    made = ranking(study(nulled))
    assert made.seeds == (2, 2)
    assert made.panel.iqm["BC"].n == 2


def exploring(seeds, complexities):
    """Two algorithms on base error with exploration, a dataset for each complexity."""
    return [
        synthetic.cell(a, nu=0.5, explore="probit", sigma=0.3, complexity=c, seed=s)
        for a in ("bc", "iql")
        for c in complexities
        for s in range(seeds)
    ]


@pytest.mark.parametrize(("seeds", "complexities"), [(2, (1,)), (3, (1,)), (4, (1,)), (2, (1, 10))])
def test_the_least_p_value_is_that_of_the_permutation_test(seeds, complexities):
    """It is what scipy's exact test gives where one algorithm wins every run; over datasets the chances multiply."""
    apart = [np.arange(seeds, dtype=float) + shift for shift in (0.0, 100.0)]
    one = stats.permutation_test(apart, lambda a, b: np.mean(a) - np.mean(b), n_resamples=np.inf).pvalue
    made = ranking(study(exploring(seeds, complexities)))
    assert made.least_p == pytest.approx(2 * (one / 2) ** len(complexities))


@pytest.mark.parametrize(("seeds", "few"), [(1, False), (3, True), (4, False)])
def test_a_page_says_when_its_runs_are_too_few_to_exclude_chance(tmp_path, seeds, few):
    """Three seeds of one dataset can't tell two algorithms apart, four can; with one there is no interval at all."""
    made, _ = render(synthetic.write(tmp_path, exploring(seeds, (1,))))
    assert ("too few runs to exclude chance" in made["report.md"]) == few
