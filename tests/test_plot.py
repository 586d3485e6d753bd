"""Pictures: drawn from the real thing, the same bytes each time, and honest about what they show."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from command import invoke
from scipy import stats
from stored import block, write

from smeoffline.bench.pictures import canvas
from smeoffline.bench.pictures import dataset as picture_dataset
from smeoffline.bench.pictures.behaviors import Seen, behaviors_picture, seen
from smeoffline.bench.pictures.canvas import PIXELS, optimal_square, square_states
from smeoffline.bench.pictures.run import run_picture
from smeoffline.bench.pictures.task import spread, task_picture
from smeoffline.data.behavior import BASES, Behavior
from smeoffline.data.exploration import EXPLORATIONS
from smeoffline.data.storage import store
from smeoffline.errors import SpecError, TrainingError
from smeoffline.sme.task import Task
from smeoffline.train.record import RunRecord
from smeoffline_cli import plot

PNG = b"\x89PNG\r\n"
TINY = Task(state_dim=2, action_dim=2)


def texts(path):
    """All text in an SVG."""
    return ["".join(node.itertext()) for node in ET.parse(path).iter() if node.tag.endswith("}text")]  # noqa: S314 - ours


def test_the_same_task_gives_the_same_svg(tmp_path):
    """Drawn twice, a picture has the same bytes, is well-formed, and names each complexity."""
    paths = [task_picture((1, 2), (3,), action_dim=2).save(tmp_path / f"{i}.svg") for i in range(2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert {"C = 1", "C = 2", "uniform"} <= set(texts(paths[0]))


@pytest.mark.parametrize("state_dims", [(1,), (2, 8), (32,)])
def test_no_density_is_cut_off(state_dims):
    """One axis, the same in all panels, holds every curve, also where few state channels make actions dense."""
    figure = task_picture((1, 2), state_dims).figure
    panels = [ax for ax in figure.axes if ax.get_yscale() == "function"]
    assert len(panels) == 2 * len(state_dims)
    assert len({ax.get_ylim() for ax in panels}) == 1
    highest = max(float(np.max(curve.get_data().values)) for ax in panels for curve in ax.patches)
    assert highest < panels[0].get_ylim()[1]
    assert panels[0].get_ylim()[1] == pytest.approx(1.05 * max(highest, 4))


@pytest.mark.parametrize(("state_dims", "whatever"), [((2, 8), False), ((1,), True)])
def test_the_heading_tells_that_squares_have_two_state_channels(state_dims, whatever, tmp_path):
    """They have, whichever sizes are compared below; where two is none of these, the heading says so."""
    (heading,) = [t for t in texts(task_picture((1,), state_dims).save(tmp_path / "t.svg")) if "first channel" in t]
    assert "N_s = 2" in heading
    assert ("whatever is compared below" in heading) == whatever


def test_the_square_shows_the_optimal_action_where_it_is():
    """A pixel's column is the first state channel and its row, from below, the second."""
    drawn = optimal_square(TINY.build())
    states = np.array([[(20 + 0.5) / PIXELS, (130 + 0.5) / PIXELS]], np.float32)
    assert drawn[130, 20] == pytest.approx(TINY.build().optimal_action(states)[0, 0], abs=1e-5)
    assert square_states(2).tolist() == [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]


@pytest.mark.parametrize("power", [0.3, 1.0, 4.0])
def test_the_distance_from_uniform_is_that_of_kolmogorov_and_smirnov(power):
    """It equals scipy's, over all channels together; densities integrate to 1."""
    actions = (np.random.default_rng(0).random((500, 3)) ** power).astype(np.float32)
    found = spread(actions)
    assert found.distance == pytest.approx(stats.kstest(actions.ravel(), "uniform").statistic, abs=1e-6)
    assert found.densities.mean(axis=1) == pytest.approx(np.ones(3))


def test_every_base_and_every_exploration_is_drawn(tmp_path, monkeypatch):
    """Each registered pair has a panel with its score, but `policy`, which needs a file; a new one would too."""
    drawn = []
    monkeypatch.setattr("smeoffline.bench.pictures.behaviors.seen", lambda b, t: drawn.append(b) or seen(b, t))
    path = behaviors_picture(TINY, nu=0.2, sigma=0.1).save(tmp_path / "b.svg")
    pairs = {(b.base, b.explore) for b in drawn}
    bases = [base for base in BASES if base not in ("policy", "random")]
    assert pairs == {(b, e) for b in bases for e in EXPLORATIONS} | {("random", "none")}
    assert len([text for text in texts(path) if text.startswith("score ")]) == len(pairs)


def test_what_is_seen_of_a_behavior_is_what_it_does():
    """The optimum scores 1; a larger error of either kind scores less."""
    assert seen(Behavior(base="optimal"), TINY).score == pytest.approx(1)
    small, large = (seen(Behavior(nu=nu, sigma=nu), TINY) for nu in (0.1, 0.5))
    assert isinstance(small, Seen)
    assert 1 > small.score > large.score


def generated(*args):
    """Generate a dataset; returns its id."""
    made = invoke("generate", "--state-dim", 2, "--action-dim", 2, "--episodes", 6, "--json", *args)
    assert made.exit_code == 0, made.stderr
    return json.loads(made.stdout)["dataset_id"]


def test_actions_stand_beside_the_optimum_of_their_own_state():
    """Also after episodes of unequal length: an optimal behavior's actions are the optimum of their states."""
    args = ("--base", "optimal", "--explore", "uniform", "--sigma", "0.1", "--kill-threshold", "0.5")
    held = store.read(generated(*args))
    assert len(set(held.lengths.tolist())) > 1
    steps = picture_dataset._steps(held, TINY.build())
    assert len(steps.actions) == len(held.actions)
    agree = np.abs(steps.actions - steps.optimal).max(axis=1) < 1e-4
    assert 0.7 < agree.mean() < 1  # all but the replaced ones


@pytest.mark.parametrize("dims", [(1, 1), (2, 3), (5, 6)])
def test_a_dataset_of_any_size_is_drawn(dims, tmp_path, monkeypatch):
    """With one, two or more state channels; the file is named after the dataset."""
    monkeypatch.chdir(tmp_path)
    name = generated("--state-dim", dims[0], "--action-dim", dims[1], "--nu", 0.3, "--sigma", 0.3)
    result = invoke("plot", "dataset", name, "--json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["files"] == [name.replace("/", "-") + ".svg"]
    assert name in texts(tmp_path / record["files"][0])
    assert name in record["shows"]


def test_the_ending_decides_the_format(tmp_path):
    """`-o x.png` writes a PNG, `-o x.svg` an SVG."""
    name = generated()
    for ending, magic in (("png", PNG), ("svg", b"<?xml")):
        result = invoke("plot", "dataset", name, "-o", tmp_path / f"x.{ending}")
        assert result.exit_code == 0, result.stderr
        assert (tmp_path / f"x.{ending}").read_bytes().startswith(magic)


def test_a_dataset_of_a_policy_that_is_gone_is_drawn_without_its_rows(tmp_path):
    """What a policy's file would tell is left out; what is in the data is drawn."""
    name = generated("--id", "sme/p-v0")
    header = json.loads((store.read(name).path / "data" / "metadata.json").read_text())
    header["smeoffline"]["behavior"][0] |= {"base": "policy", "policy": "gone.onnx", "policy_sha256": "0" * 64}
    header["smeoffline"]["behavior"][0]["nu"] = 0
    (store.read(name).path / "data" / "metadata.json").write_text(json.dumps(header))
    shown = texts(picture_dataset.dataset_picture(name).save(tmp_path / "p.svg"))
    assert "scores" in shown
    assert not [text for text in shown if text.startswith("imitation")]


@pytest.mark.parametrize("target", ["x.pdf", "x", "no/x.svg"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_drawn(target, tmp_path, monkeypatch):
    """One line that says what is expected, exit 2, and no file."""
    monkeypatch.chdir(tmp_path)
    result = invoke("plot", "task", "--complexity", 1, "-o", target)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert target in result.stderr
    assert [path for path in tmp_path.iterdir() if path.name != "minari"] == []


def test_the_command_knows_the_endings_of_the_library():
    """What `-o` accepts is what a picture can be saved as."""
    assert plot.ENDINGS == canvas.ENDINGS


def test_a_dataset_that_is_no_sme_is_refused():
    """Its optimum is not known: one line, exit 1."""
    path = write(block([3])) / "data" / "metadata.json"
    raw = json.loads(path.read_text())
    del raw["smeoffline"]
    path.write_text(json.dumps(raw))
    result = invoke("plot", "dataset", "sme/mine-v0")
    assert result.exit_code == 1
    assert "not a Synthetic Monitoring Environment" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["task", "--complexity", "0"], "--complexity must be in"),
        (["task", *(f"--state-dim={n}" for n in range(1, 9))], "--state-dim can be compared at 6"),
        (["behaviors", "--sigma", "2"], "--sigma"),
        (["behaviors", "--action-dim", "0"], "--action-dim must be in"),
        (["behaviors", "--reward-every", "2"], "--reward-every"),
    ],
)
def test_a_value_out_of_range_is_a_usage_error(args, told):
    """The line names the option; options that would change nothing do not exist."""
    result = invoke("plot", *args)
    assert result.exit_code == 2
    assert told in result.stderr


RECORD = RunRecord("sme/x-v0", "x", "0" * 64, "bc", 3, 250, 4, [0.0], [1.0], step=250, status="done")
SCORES = {"score_wd": 0.93, "optimal_score": 1.0, "imitation_score": 0.91, "behavior_score": 0.9, "random_score": 0.66}


@pytest.fixture
def run(tmp_path):
    """A run's folder with three lines of metrics."""
    folder = tmp_path / "a-run"
    folder.mkdir()
    RECORD.write(folder)
    lines = [
        {"step": s, "seconds": 1.0, "rate": 50.0, "losses": {"actor_loss": -s, "x_loss": 2}} for s in (100, 200, 250)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_run_is_drawn_while_it_trains_and_after(run, tmp_path):
    """Losses and speed at first; the scores and the curve as soon as there is an evaluation."""
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 300, "lo')  # being written just now
    before = texts(run_picture(run).save(tmp_path / "r.svg"))
    assert {"actor loss", "x loss", "steps a second"} <= set(before)
    assert "scores on uniform states" not in before
    curve = [{"distance": d, "score": None if d > 0.9 else 0.9 - d, "n": 1} for d in (0.05, 0.5, 0.95)]
    (run / "evaluation.json").write_text(json.dumps({**SCORES, "ood_curve": curve}))
    after = run_picture(run)
    assert {"scores on uniform states", "score outside the cube", "this run", "0.930"} <= set(
        texts(after.save(tmp_path / "r.svg"))
    )
    assert "this run 0.930" in after.alt
    assert "actor loss from -100 to -250" in after.alt


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("metrics.jsonl", "{\n"),
        ("metrics.jsonl", ""),
        ("metrics.jsonl", "[1]\n"),
        ("evaluation.json", "{"),
        ("evaluation.json", "[]"),
        ("evaluation.json", json.dumps({**SCORES, "score_wd": "high"})),
        ("evaluation.json", json.dumps({**SCORES, "score_wd": float("nan")})),
    ],
)
def test_a_damaged_run_is_told_in_one_line(run, file, text):
    """Whatever is in its files: one line that names the run and the file."""
    (run / file).write_text(text)
    with pytest.raises(TrainingError, match=file) as told:
        run_picture(run)
    assert "\n" not in str(told.value)
    assert invoke("plot", "run", run).exit_code == 1


def test_your_own_algorithm_is_drawn_without_curves(tmp_path):
    """Its scores once it is evaluated; before, one line says that it has no metrics and what comes first."""
    folder = tmp_path / "own"
    folder.mkdir()
    RECORD.changed(algorithm="mine:train").write(folder)
    with pytest.raises(TrainingError, match=r"your own algorithm.*evaluate it first: sme-offline evaluate"):
        run_picture(folder)
    RECORD.changed(algorithm="mine:train", reloadable=False).write(folder)
    with pytest.raises(TrainingError, match="nothing to draw"):
        run_picture(folder)
    (folder / "evaluation.json").write_text(json.dumps(SCORES))
    picture = run_picture(folder)
    assert {"scores on uniform states", "0.930"} <= set(texts(picture.save(tmp_path / "own.svg")))
    assert picture.alt.endswith("random 0.660.")


def test_a_folder_that_is_no_run_is_told(tmp_path):
    """One line, exit 1."""
    result = invoke("plot", "run", tmp_path)
    assert result.exit_code == 1
    assert "run.json" in result.stderr


def test_too_many_values_are_refused_by_the_library_too():
    """A picture holds six columns; what is named twice counts once."""
    with pytest.raises(SpecError, match="6 values"):
        task_picture(tuple(range(1, 9)))
    assert dataclasses.is_dataclass(task_picture((1,) * 9, (2,), action_dim=1))
