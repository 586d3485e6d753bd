"""`sme-offline report`: the files it writes, whose bytes depend on the results alone, and bad input."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import synthetic_results as synthetic
from command import ROOT, environment, invoke, python

from smeoffline.bench.report.report import render, report

SMALL_GAIN = {"seeds": 2, "algos": ("bc", "iql", "td3plusbc"), "nus": (0.0, 0.3), "complexities": (1,)}
COMMITTED = sorted(path.parent for path in (ROOT / "reports").glob("*/report.md"))


@pytest.fixture(scope="module")
def table1(tmp_path_factory):
    """The report of a small run of the paper's grid."""
    return report(synthetic.write(tmp_path_factory.mktemp("table1"), synthetic.table1(2)))


@pytest.fixture(scope="module")
def gain(tmp_path_factory):
    """The report of a small grid of base error and exploration."""
    return report(synthetic.write(tmp_path_factory.mktemp("gain"), synthetic.gain(**SMALL_GAIN)))


def texts(made):
    """Every file's content by its path in the report."""
    return {path.relative_to(made.folder).as_posix(): path.read_bytes() for path in made.files}


def sections(made):
    """Headings of the page."""
    return re.findall(r"^## (.*)$", made.files[0].read_text(), re.MULTILINE)


def test_a_report_needs_no_torch(tmp_path):
    """Making a whole report imports neither torch nor what would import it."""
    synthetic.write(tmp_path, synthetic.table1(1))
    heavy = ("torch", "d3rlpy", "minari", "h5py", "onnxruntime")
    shown = python(
        "import sys\nfrom smeoffline_cli.main import program\n"
        f"try: program.main(['report', {str(tmp_path)!r}, '--json'])\nexcept SystemExit: pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    assert json.loads(shown.splitlines()[0])["done"] == 12
    assert shown.splitlines()[-1] == "[]"


def test_the_bytes_depend_on_the_results_alone(tmp_path, gain):
    """Shuffled lines, another folder, day, hash seed, time zone and matplotlibrc change no byte."""
    cells = synthetic.gain(**SMALL_GAIN)
    order = np.random.default_rng(1).permutation(len(cells))
    synthetic.write(tmp_path / "results", [cells[i] for i in order])
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nsavefig.bbox: tight\nxtick.major.pad: 12\n")
    env = environment(
        MATPLOTLIBRC=str(tmp_path), SOURCE_DATE_EPOCH="86400", PYTHONHASHSEED="7", TZ="Asia/Tokyo", LC_ALL="C"
    )
    command = ["-m", "smeoffline_cli.main", "report", "results", "--out", "elsewhere"]
    subprocess.run([sys.executable, *command], cwd=tmp_path, env=env, check=True, capture_output=True)
    elsewhere = tmp_path / "elsewhere"
    written = {p.relative_to(elsewhere).as_posix(): p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}
    assert written == texts(gain)
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["results.jsonl"]


def test_a_report_is_replaced_by_the_next(tmp_path):
    """A second call with more results overwrites the files, and leaves no temporary ones."""
    folder = synthetic.write(tmp_path / "results", [synthetic.cell()])
    first = texts(report(folder))
    synthetic.write(folder, [synthetic.cell(), synthetic.cell(seed=1)])
    second = report(folder)
    assert set(first) == set(texts(second))
    assert first["report.md"] != texts(second)["report.md"]
    assert {p.name for p in folder.iterdir()} == {"results.jsonl", "report.md", "report.json", "figures"}


def test_figures_of_an_earlier_report_do_not_stay(tmp_path):
    """A figure that the results no longer have goes; a picture that no report has made stays."""
    folder = synthetic.write(tmp_path / "results", synthetic.gain(**SMALL_GAIN))
    before = set(texts(report(folder)))
    (folder / "figures" / "mine.svg").write_text("<svg/>")
    synthetic.write(folder, [synthetic.cell()])
    after = set(texts(report(folder)))
    gone = {name for name in before - after if name.startswith("figures/")}
    assert gone
    there = {f"figures/{path.name}" for path in (folder / "figures").iterdir()}
    assert there == {name for name in after if name.startswith("figures/")} | {"figures/mine.svg"}


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_a_committed_report_is_what_its_results_give(folder):
    """The files under `reports/` are what `report` makes of the results beside them, byte for byte."""
    made, _ = render(folder)
    assert {f"figures/{path.name}" for path in (folder / "figures").iterdir()} == {n for n in made if "/" in n}
    assert {name: (folder / name).read_text(encoding="utf-8") for name in made} == made


def test_the_numbers_about_gain_are_those_of_its_report():
    """Each row of the table in `reports/README.md` has the means of the committed report."""
    page = (ROOT / "reports" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (1|5) \| (0\.\d) \| (0\S*) \| (.+) \|$", page, flags=re.MULTILINE)
    record = json.loads((ROOT / "reports" / "gain" / "report.json").read_text(encoding="utf-8"))
    gains = {(r["dataset"], r["algorithm"]): r["rl_gain"] for r in record["results"]}
    found = {}
    for row in record["datasets"]:
        (behavior,) = row["behavior"]
        means = [gains[row["dataset"], algorithm] for algorithm in record["algorithms"]]
        if None not in means:
            shrinkage = row["clone_shrunk_score"] - row["imitation_score"]
            place = row["task"]["complexity"], behavior["nu"], behavior["sigma"]
            found[place] = [row["headroom"], shrinkage, *(mean["value"] for mean in means)]
    told = {(int(c), float(nu), float(sigma)): texts.split(" | ") for c, nu, sigma, texts in rows}
    assert set(told) == set(found)
    for place, texts in told.items():
        assert [float(text.replace("−", "-")) for text in texts] == pytest.approx(found[place], abs=5.1e-4), place


def test_the_json_result_names_cells_and_files(tmp_path):
    """`--json` prints one object: cells with the promised keys, files that exist. Text shows the table."""
    synthetic.write(tmp_path, synthetic.table1(2))
    result = invoke("report", tmp_path, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    record = json.loads(result.stdout)
    keys = {
        "nu",
        "complexity",
        "row",
        "mean",
        "spread",
        "n",
        "paper_mean",
        "paper_spread",
        "difference",
        "within",
    }
    assert len(record["cells"]) == 18
    assert all(keys <= set(cell) for cell in record["cells"])
    assert all(Path(name).is_file() for name in record["files"])
    assert record["files"][0] == str(tmp_path / "report.md")
    text = invoke("report", tmp_path)
    assert text.exit_code == 0
    assert len(re.findall(r"^0(?:\.1)? +\d+ +(?:bp|bc|iql) ", text.stdout, re.MULTILINE)) == 18
    assert str(tmp_path / "report.md") in text.stdout


def test_the_record_is_written_as_it_is_printed(table1):
    """report.json holds what `--json` prints, but for the files, which it names relative to itself."""
    stored = json.loads((table1.folder / "report.json").read_text())
    printed = table1.to_dict()
    assert [str(table1.folder / name) for name in stored.pop("files")] == printed.pop("files")
    assert stored == json.loads(json.dumps(printed))


def test_sections_appear_where_the_results_have_what_they_need(table1, gain, tmp_path):
    """The paper's grid gets Table 1, varied exploration a ranking, several sizes a table of sizes."""
    common = ["Improvement over the behavior policy", "Score by distance from the training distribution"]
    common += ["Learning curves", "All results", "How it was run"]
    assert set(common) <= set(sections(table1)) & set(sections(gain))
    assert "Table 1 of the paper, ours beside it" in sections(table1)
    assert "Ranking" not in sections(table1)
    assert {"Ranking", "What the reward teaches"} <= set(sections(gain))
    assert "Table 1 of the paper, ours beside it" not in sections(gain)
    bare = [cell for cell in synthetic.size(1) if cell.task["state_dim"] in (2, 8)]
    bare = [dataclasses.replace(cell, curve=(), evaluation={**cell.evaluation, "ood_curve": []}) for cell in bare]
    made = report(synthetic.write(tmp_path, bare))
    expected = ["Size of the task", "Improvement over the behavior policy", "All results", "How it was run"]
    assert sections(made) == expected


def test_every_figure_is_embedded_with_words_for_it(table1, gain):
    """Each SVG is shown once, by a relative path that exists, with an alt text that has numbers or names."""
    for made in (table1, gain):
        shown = re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", made.files[0].read_text())
        svgs = [path.relative_to(made.folder).as_posix() for path in made.files if path.suffix == ".svg"]
        assert sorted(name for _, name in shown) == sorted(svgs)
        assert all(len(alt) > 40 and re.search(r"\d", alt) for alt, _ in shown)


def test_figures_are_sound_and_rounded(gain):
    """Every figure is XML with a title and unique ids; no raster, no date, no third decimal."""
    for path in gain.files:
        if path.suffix != ".svg":
            continue
        text = path.read_text()
        root = ET.fromstring(text)  # noqa: S314 - we have just written it
        ids = [node.attrib["id"] for node in root.iter() if "id" in node.attrib]
        assert len(ids) == len(set(ids))
        assert [name for name in ids if re.fullmatch(r"[a-z][0-9a-f]{10}", name)] == []  # hashes of floats
        used = re.findall(r'(?:url\(|href=")#([\w.]+)', text)
        assert set(used) <= set(ids)
        assert root.find("{http://www.w3.org/2000/svg}title").text
        assert "<image" not in text
        assert "date" not in text.lower()
        tags = "".join(re.findall(r"<[^>]+>", text))
        assert re.search(r"\d\.\d{3,}", tags) is None


def test_text_in_figures_stays_text(gain):
    """A figure can be searched: names of algorithms, and the values in cells, are text."""
    text = (gain.folder / "figures" / "gain.svg").read_text()
    words = re.findall(r">([^<>\n]+)</text>", text)
    assert {"TD3+BC, C = 1", "ν = 0.3", "probit", "gaussian", "none"} <= set(words)
    best = max(r["rl_gain"]["value"] for r in gain.record["results"] if r["rl_gain"] is not None)
    assert f"+{best:.2f}".replace("0.", ".") in words


@pytest.mark.parametrize(
    ("algos", "order"),
    [
        (("bc", "iql"), ["BC, C = 1", "IQL, C = 1", "BC, C = 10", "IQL, C = 10"]),
        (
            ("bc", "iql", "td3plusbc", "plas", "crr", "awac", "bcq"),
            ["BC, C = 1", "BC, C = 10", "IQL, C = 1", "IQL, C = 10"],
        ),
    ],
)
def test_panels_to_compare_are_side_by_side(tmp_path, algos, order):
    """A row of the heat map has every algorithm on a task; with too many of them, an algorithm on every task."""
    made, _ = render(synthetic.write(tmp_path, synthetic.gain(1, algos=algos, nus=(0.0, 0.3))))
    titles = re.findall(r">([^<>\n]+, C = \d+)</text>", made["figures/gain.svg"])
    assert titles[: len(order)] == order


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        (None, ["results.jsonl", "benchmark"]),
        ("", ["results.jsonl", "none", "benchmark"]),
        ('{"schema": 1, "suite"', ["results.jsonl", "none"]),
        ("{newer}\n", ["schema 1", "got 2", "line 1"]),
        ("no json\n{good}\n", ["line 1"]),
        ("{board}\n", ["a leaderboard's", "sme-offline leaderboard build"]),
        ("{board}", ["a leaderboard's", "sme-offline leaderboard build"]),
        ("{good}\n{nan}\n", ["score_wd", "nan", "--s9"]),
        ("{good}\n{missing}\n", ["headroom", "None", "--s9"]),
    ],
)
def test_bad_results_are_one_clear_line(tmp_path, content, fragments):
    """What cannot be reported is told in one line that says what to do, and nothing is written."""
    folder = tmp_path / "results"
    good = synthetic.cell()
    other = synthetic.cell(seed=9)
    lines = {
        "good": good.to_line(),
        "board": (ROOT / "reports" / "leaderboard" / "results.jsonl").read_text(encoding="utf-8").splitlines()[0],
        "newer": good.to_line().replace('"schema": 1', '"schema": 2', 1),
        "nan": re.sub(r'"score_wd": [\d.]+, "score_ood"', '"score_wd": NaN, "score_ood"', other.to_line()),
        "missing": other.to_line().replace('"headroom"', '"headrom"'),
    }
    folder.mkdir()
    if content is not None:
        (folder / "results.jsonl").write_text(re.sub(r"\{(\w+)\}", lambda m: lines[m[1]], content))
    result = invoke("report", folder, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert all(fragment in result.stderr for fragment in fragments), result.stderr
    assert "board" not in str(content) or "remove" not in result.stderr  # nothing in it is wrong
    assert not (tmp_path / "out").exists()


def test_a_half_written_line_counts_for_nothing(tmp_path):
    """What a killed writer leaves behind does not change the report."""
    cells = synthetic.table1(1)
    whole, _ = render(synthetic.write(tmp_path / "whole", cells))
    torn = synthetic.write(tmp_path / "torn", cells)
    with (torn / "results.jsonl").open("a") as file:
        file.write(synthetic.cell(seed=5).to_line()[:200])
    assert render(torn)[0] == whole


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    """Where a file is in the way of the folder, one line names it."""
    synthetic.write(tmp_path / "results", synthetic.table1(1))
    (tmp_path / "out").write_text("mine")
    result = invoke("report", tmp_path / "results", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert str(tmp_path / "out") in result.stderr
    assert result.stderr.count("\n") == 1


def test_failed_cells_are_listed_with_their_reasons(tmp_path):
    """A reason of several lines, with signs that Markdown knows, is one sound row; other cells count."""
    cells = synthetic.table1(2)
    cells[0] = synthetic.failed(cells[0], "loss | is\n*NaN* <b>`x`")
    made = report(synthetic.write(tmp_path, cells))
    page = made.files[0].read_text()
    (row,) = [line for line in page.splitlines() if "loss" in line]
    assert row.endswith(r"| loss \| is \*NaN\* \<b\>\`x\` |")
    assert "**1 cell failed**" in page
    assert made.record["done"] == 23
    assert [f["reason"] for f in made.record["failed"]] == ["loss | is *NaN* <b>`x`"]
    (cell,) = [c for c in made.record["cells"] if (c["nu"], c["complexity"], c["row"]) == (0.0, 1, "bc")]
    assert cell["n"] == 1
    assert cell["spread"] is None


def test_a_benchmark_in_which_all_failed_has_a_report(tmp_path):
    """With nothing but failures the page lists them, and no table pretends to know."""
    made = report(synthetic.write(tmp_path, [synthetic.failed(c) for c in synthetic.table1(1)]))
    assert sections(made) == ["Table 1 of the paper, ours beside it", "Failed cells", "How it was run"]
    assert all(cell["n"] == 0 and cell["within"] is None for cell in made.record["cells"])


def test_gains_stand_beside_what_shrinkage_gives(tmp_path, gain):
    """A column tells what shrinking imitation gains, and the page what that means; results without it have neither."""
    page = gain.files[0].read_text()
    assert "| dataset | n | headroom | shrinkage | BC |" in page
    assert "may owe nothing to the reward" in page
    rows = [row for row in gain.record["datasets"] if row["headroom"] >= 0.02]
    for row in rows:
        shrinkage = row["clone_shrunk_score"] - row["imitation_score"]
        assert shrinkage == pytest.approx(0.1 * row["headroom"], abs=2e-6)
        assert f"| {row['n']} | {row['headroom']:.3f} | +{shrinkage:.3f} |" in page
    earlier = []
    for cell in synthetic.gain(**SMALL_GAIN):
        kept = {name: value for name, value in cell.evaluation.items() if name != "clone_shrunk_score"}
        earlier.append(dataclasses.replace(cell, evaluation=kept))
    made = report(synthetic.write(tmp_path, earlier))
    assert "shrinkage" not in made.files[0].read_text().lower()
    assert {row["clone_shrunk_score"] for row in made.record["datasets"]} == {None}


def test_one_seed_has_no_interval_and_says_so(tmp_path):
    """With one seed every spread and interval is null, and the page says why; with two it does not."""
    made = report(synthetic.write(tmp_path, synthetic.gain(**{**SMALL_GAIN, "seeds": 1})))
    page = made.files[0].read_text()
    assert "There is one seed" in page
    assert "±" not in page.replace("mean ± standard deviation", "")
    assert all(r["score_wd"]["spread"] is None and r["improvement"]["low"] is None for r in made.record["results"])
    assert all(row["low"] is None for row in made.record["ranking"]["iqm"])


def test_the_page_tells_how_to_make_it_again(gain):
    """Versions, platforms and seeds are told, and the commands name suite, seeds and steps."""
    page = gain.files[0].read_text()
    assert "sme-offline benchmark gain --out DIR --seeds 2 --steps 1000\nsme-offline report DIR\n" in page
    assert "| torch | 0.0.0 |" in page
    assert "| machine | synthetic |" in page
    assert "Seeds: 0 and 1." in page


def test_a_suite_of_ones_own_is_called_as_a_file(tmp_path):
    """Only the name of a shipped suite is a command's argument; of another one the page names the file, and says so."""
    cells = [dataclasses.replace(cell, suite="mine") for cell in synthetic.gain(**SMALL_GAIN)]
    page = report(synthetic.write(tmp_path, cells)).files[0].read_text()
    assert "sme-offline benchmark mine.toml --out DIR --seeds 2 --steps 1000  # the suite's own file\n" in page
