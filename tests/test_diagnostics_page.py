"""The page of diagnostics says what its data say."""

from __future__ import annotations

import json
import re

import pytest
from command import ROOT

FOLDER = ROOT / "reports" / "diagnostics"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
METHODS = ("fqe", "direct", "wis", "wpdis", "pdis")
HORIZONS = (1, 2, 5, 10, 20, 50, 100)


def record(name):
    """One of the JSON files beside the page."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def row(label):
    """The numbers of the row of a table that begins so; each label stands once for each number of columns."""
    found = re.findall(rf"^\| {re.escape(label)} \|(.*)\|$", PAGE, flags=re.MULTILINE)
    tables = [[float(cell.strip(" *").replace("−", "-")) for cell in line.split("|") if cell.strip()] for line in found]
    return {len(cells): cells for cells in tables}


def short(name):
    """`td3plusbc` of a run's name; `behavior` and `optimal` as they are."""
    return name.split("--")[-1].removesuffix("-s0")


LABELS = {"td3plusbc": "TD3+BC", "optimal": "optimal", "behavior": "behavior"}


@pytest.mark.parametrize("run", record("critics.json")["evaluations"])
def test_the_critics_are_those_of_the_record(run):
    """Each row has the estimate, the true value, both biases and the ranks of its run."""
    values = record("critics.json")["evaluations"][run]["values"]
    (own,) = [one for one in values["own"] if one["probes"] == "policy"]
    optimal = {one["probes"]: one for one in values["optimal"]}
    told = row(LABELS.get(short(run), short(run).upper()))[5]
    found = [own["estimate"], own["true"], own["bias"], optimal["policy"]["bias"]]
    assert told[:4] == pytest.approx(found, abs=0.051)
    assert told[4] == pytest.approx(optimal["uniform"]["action_rank_correlation"], abs=0.0051)


@pytest.mark.parametrize("policy", record("ope.json")["policies"], ids=lambda policy: short(policy["name"]))
def test_the_estimates_are_those_of_the_record(policy):
    """Each row has the true value and what each method estimates."""
    told = row(LABELS.get(short(policy["name"]), short(policy["name"]).upper()))[6]
    found = [policy["true"], *(policy["estimates"][method]["value"] for method in METHODS)]
    assert told == pytest.approx(found, abs=5.1e-4)


def test_the_methods_are_those_of_the_record():
    """The last rows have each method's mean error and rank correlation."""
    methods = record("ope.json")["methods"]
    assert row("mean absolute error")[5] == pytest.approx(
        [methods[m]["mean_absolute_error"] for m in METHODS], abs=5.1e-4
    )
    assert row("rank correlation")[5] == pytest.approx([methods[m]["rank_correlation"] for m in METHODS], abs=5.1e-3)


def test_the_horizons_are_those_of_the_records():
    """The last table has the error and the effective episodes at each horizon."""
    records = [record(f"horizon-{horizon}.json") for horizon in HORIZONS]
    errors = [found["methods"]["pdis"]["mean_absolute_error"] for found in records]
    assert row("mean absolute error, `pdis`")[7] == pytest.approx(errors, abs=5.1e-4)
    for name, label in (("bc", "BC"), ("td3plusbc", "TD3+BC"), ("optimal", "optimal")):
        effective = [
            policy["estimates"]["pdis"]["effective_samples"]
            for found in records
            for policy in found["policies"]
            if short(policy["name"]) == name
        ]
        assert row(f"effective episodes of 1,000, {label}")[7] == pytest.approx(effective, abs=0.51)
