from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from train_data import dataset, small_trainer

import smeoffline.train
from smeoffline.data.policy_file import load_policy
from smeoffline.errors import SpecError, TrainingError, VersionError
from smeoffline.train.files import held, write_atomically
from smeoffline.train.interrupt import StopRequest, TrainingInterrupted
from smeoffline.train.metrics import Metrics, read_metrics
from smeoffline.train.record import read_run
from smeoffline.train.run import train
from smeoffline.train.run_folder import open_run
from smeoffline.train.shipped_run import load_learner

SMALL = {"batch_size": 8, "hidden_units": (8,)}


@pytest.fixture
def out(tmp_path):
    """Where runs go."""
    return tmp_path / "runs"


def run_bc(out, **changes):
    """Train a small BC for 250 steps, or as told."""
    options = {"algo": "bc", "steps": 250, "settings": SMALL, "out": out, **changes}
    return train(options.pop("data", dataset()), **options)


def bits(run: Path) -> bytes:
    """What acts in a run, without its metadata."""
    rows = np.random.default_rng(0).random((20, 6), dtype=np.float32)
    return load_policy(run / "policy.onnx")(rows).tobytes()


def losses(run: Path) -> list:
    """The metrics of a run without its times."""
    return [(line["step"], line["losses"]) for line in read_metrics(run)]


def test_a_run_has_what_the_design_says(out):
    """A finished run has its record, metrics, policy and checkpoint, in a folder named by what it is."""
    made = run_bc(out, seed=3)
    assert made.run == out / "sme-small-v0--bc-s3"
    assert {p.name for p in made.run.iterdir()} == {
        "run.json",
        "metrics.jsonl",
        "policy.onnx",
        "checkpoint",
    }
    assert made.to_dict() == {
        "run": str(made.run),
        "policy": str(made.run / "policy.onnx"),
        "steps": 250,
        "seconds": made.seconds,
        "notes": [],
    }
    record = read_run(made.run)
    assert (record.status, record.step, record.steps, record.seed, record.algorithm) == (
        "done",
        250,
        250,
        3,
        "bc",
    )
    assert (record.dataset_id, record.dataset_sha256) == ("sme/small-v0", "content of seed 0")
    assert record.settings == {"batch_size": 8, "hidden_units": [8]}
    assert record.hyperparameters["learning_rate"] == 1e-3
    assert {"python", "torch", "d3rlpy", "numpy", "onnx", "onnxruntime"} <= record.versions.keys()
    assert made.seconds == record.seconds > 0
    rows = np.full((2, 6), 0.5, np.float32)
    np.testing.assert_array_equal(made.act(rows), load_policy(made.policy)(rows))


def test_a_run_can_be_opened_again(out):
    """A finished run gives its record and its policy."""
    made = run_bc(out)
    record, policy = open_run(made.run)
    assert record.dataset_id == "sme/small-v0"
    assert (policy.observation_dim, policy.action_dim) == (6, 3)


def test_an_unfinished_run_says_what_to_do(out):
    """A run without a policy says how far it is and why, and how to go on."""
    made = run_bc(out)
    made.policy.unlink()
    read_run(made.run).changed(status="failed", reason="disk full", step=100).write(made.run)
    with pytest.raises(TrainingError, match=r"failed after step 100 of 250 \(disk full\); go on with --resume"):
        open_run(made.run)


def test_the_networks_of_a_run_can_be_asked(out):
    """The critics of a finished run say what they said at the end of training."""
    made = train(dataset(), algo="iql", steps=5, settings=SMALL, out=out)
    trainer = small_trainer("iql", **{**SMALL, "n_critics": 2})
    trainer.advance(5)
    rows, actions = np.full((4, 6), 0.3, np.float32), np.full((4, 3), 0.3, np.float32)
    expected, found = trainer.learner.values(rows, actions), load_learner(made.run).values(rows, actions)
    assert found.keys() == expected.keys() == {"q_funcs", "value_func"}
    for name in found:
        np.testing.assert_array_equal(found[name], expected[name])


def test_a_checkpoint_of_other_networks_is_one_line(out):
    """A checkpoint whose shapes are not the run's is refused in one line."""
    made = run_bc(out, steps=5)
    read_run(made.run).changed(settings={"hidden_units": [9]}).write(made.run)
    with pytest.raises(TrainingError, match="its checkpoint doesn't fit this run") as caught:
        load_learner(made.run)
    assert "\n" not in str(caught.value)


def test_the_package_is_the_function(out):
    """`smeoffline.train(...)` trains, though it is also the package that the modules are imported from."""
    made = smeoffline.train(dataset(), algo="bc", steps=1, settings=SMALL, out=out)
    assert made.steps == 1


def test_metrics_are_means_over_a_hundred_steps(out):
    """There is a line at every hundredth step, and one for what is left at the end."""
    made = run_bc(out)
    lines = read_metrics(made.run)
    assert [line["step"] for line in lines] == [100, 200, 250]
    assert all(line["losses"]["loss"] > 0 and line["rate"] > 0 for line in lines)
    assert lines[0]["seconds"] < lines[1]["seconds"] <= lines[2]["seconds"]


def test_metrics_can_be_read_while_the_run_trains(out):
    """Every line is in the file as soon as its step is done."""
    seen = []
    run = out / "sme-small-v0--bc-s0"
    run_bc(out, progress=lambda step, _total, _losses: seen.append((step, read_metrics(run))))
    for step, lines in seen[:-1]:
        assert [line["step"] for line in lines] == list(range(100, step + 1, 100))
    assert seen[-1][0] == 250


def test_progress_gets_step_total_and_losses(out):
    """The callback sees the last step, the total and its losses."""
    seen = []
    run_bc(out, progress=lambda *what: seen.append(what))
    step, total, last = seen[-1]
    assert (step, total, set(last)) == (250, 250, {"loss"})


def test_a_probe_sees_the_policy_at_each_checkpoint_and_changes_nothing(out, tmp_path):
    """A probe gets the policy as it is at every checkpoint, and training goes on as without it (case 15)."""
    rows, seen = np.full((2, 6), 0.5, np.float32), []
    probed = run_bc(out, checkpoint_every=100, probe=lambda step, policy: seen.append((step, policy(rows))))
    assert [step for step, _ in seen] == [100, 200, 250]
    np.testing.assert_allclose(seen[-1][1], probed.act(rows), atol=1e-6)
    assert not np.array_equal(seen[0][1], seen[-1][1])
    assert bits(probed.run) == bits(run_bc(tmp_path / "alone").run)


@pytest.mark.parametrize("first", [130, 200])
def test_resuming_equals_never_stopping(out, tmp_path, first):
    """Some steps, then --resume to the total, equals one go, bit for bit (case 14)."""
    whole = run_bc(tmp_path / "whole")
    run_bc(out, steps=first)
    parts = run_bc(out, resume=True)
    assert parts.steps == 250
    assert bits(parts.run) == bits(whole.run)
    assert losses(parts.run) == losses(whole.run)
    assert read_run(parts.run).status == "done"


def test_how_often_it_is_saved_changes_nothing(out, tmp_path):
    """Checkpoints at every 7th step give the same policy as one at the end."""
    assert bits(run_bc(out, checkpoint_every=7).run) == bits(run_bc(tmp_path / "other").run)


def test_resuming_takes_the_settings_of_the_run(out):
    """Without settings, --resume goes on with those the run began with."""
    run_bc(out, steps=10)
    made = run_bc(out, steps=20, settings=None, resume=True)
    assert read_run(made.run).settings == {"batch_size": 8, "hidden_units": [8]}


def test_resuming_a_finished_run_does_nothing(out):
    """A run that has its steps is handed back as it is."""
    made = run_bc(out)
    before = {p.name: p.read_bytes() for p in made.run.iterdir() if p.is_file()}
    again = run_bc(out, resume=True)
    assert (again.steps, again.seconds) == (made.steps, made.seconds)
    assert {p.name: p.read_bytes() for p in made.run.iterdir() if p.is_file()} == before


def test_resuming_where_there_is_no_run_begins_one(out):
    """--resume on a new run trains it, so that one command line serves both."""
    assert run_bc(out, steps=3, resume=True).steps == 3


def test_an_existing_run_is_not_trained_over(out):
    """Without --resume an existing run is refused with how far it is and what to do; its files stay."""
    made = run_bc(out)
    before = bits(made.run)
    with pytest.raises(TrainingError, match=r"exists already \(done, 250 of 250 steps\); go on with --resume"):
        run_bc(out)
    assert bits(made.run) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {**SMALL, "batch_size": 9}}, "other batch_size: expected 8, got 9"),
        ({"data": dataset(seed=1)}, r"other dataset content \(sha256\): expected content of seed 0"),
        ({"steps": 100}, "expected --steps of 250 or more, which it has, got 100; --steps is the total"),
    ],
)
def test_resuming_as_something_else_is_refused(out, changes, message):
    """Another hyperparameter, other data of that id or fewer steps: refused, and the run is as it was."""
    made = run_bc(out)
    before = (made.run / "run.json").read_bytes()
    with pytest.raises(TrainingError, match=message):
        run_bc(out, resume=True, **changes)
    assert (made.run / "run.json").read_bytes() == before


def test_a_loss_that_is_not_finite_fails_the_run(out):
    """Rewards so large that losses overflow fail the run: its record says why, no policy (case 10)."""
    stored = dataset()
    huge = dataclasses.replace(stored, rewards=np.full_like(stored.rewards, 1e30))
    with pytest.raises(TrainingError, match=r"expected a finite critic_loss, got inf at step 1; try a lower"):
        train(huge, algo="td3", steps=20, settings=SMALL, out=out)
    run = out / "sme-small-v0--td3-s0"
    record = read_run(run)
    assert record.status == "failed"
    assert "expected a finite critic_loss" in record.reason
    assert not (run / "policy.onnx").exists()


def test_weights_that_are_not_finite_fail_the_run(out):
    """A learning rate that blows the weights up is a failed run too, not torch's traceback."""
    settings = {**SMALL, "actor_learning_rate": 1e30, "critic_learning_rate": 1e30}
    with pytest.raises(TrainingError, match=r"diverged after step|expected a finite"):
        train(dataset(), algo="sac", steps=50, settings=settings, out=out)
    assert read_run(out / "sme-small-v0--sac-s0").status == "failed"


def test_a_warm_up_longer_than_the_run_is_said(out):
    """PLAS with d3rlpy's defaults does not train its policy in 5 steps, and the result says so."""
    made = train(dataset(), algo="plas", steps=5, settings=SMALL, out=out)
    assert made.notes == (
        "plas lets the reward reach the policy only after warmup_steps=500000 steps, and this run has 5: "
        "set warmup_steps lower",
    )
    assert read_run(made.run).notes == list(made.notes)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"algo": "iqI"}, SpecError, "did you mean 'iql'"),
        ({"algo": "dqn"}, SpecError, "needs discrete actions"),
        ({"settings": {"batchsize": 3}}, SpecError, "did you mean 'batch_size'"),
        ({"steps": 0}, SpecError, "steps must be in"),
        ({"steps": 1.5}, SpecError, "steps must be a whole number"),
        ({"seed": -1}, SpecError, "seed must be in"),
        ({"seed": 2**32}, SpecError, "seed must be in"),
        ({"checkpoint_every": 0}, SpecError, "checkpoint_every must be in"),
        (
            {"data": dataset((1,) * 5, killed=()), "algo": "rebrac"},
            TrainingError,
            "whose next action is stored",
        ),
    ],
)
def test_what_cannot_begin_leaves_nothing(out, options, error, message):
    """A wrong algorithm, setting, number or dataset is refused in one line before any folder is made."""
    with pytest.raises(error, match=message) as caught:
        run_bc(out, **options)
    assert "\n" not in str(caught.value)
    assert not out.exists()


def test_a_place_that_cannot_be_written(tmp_path):
    """A file where the parent folder should be is refused in one line."""
    (tmp_path / "runs").write_text("")
    with pytest.raises(TrainingError, match=r"can't be written: .*; choose another --out"):
        run_bc(tmp_path / "runs")


def test_a_folder_that_is_no_run(out):
    """A folder of that name without a record is not trained into."""
    (out / "sme-small-v0--bc-s0").mkdir(parents=True)
    with pytest.raises(TrainingError, match=r"expected a folder with run\.json"):
        run_bc(out, resume=True)
    file = out / "policy.onnx"
    file.touch()
    with pytest.raises(TrainingError, match=r"expected a folder with run\.json"):
        read_run(file)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ('{"schema": 99}', VersionError, r"expected run\.json of schema 1, got 99"),
        ("{}", VersionError, "got None"),
        ("[]", VersionError, "got None"),
        ('{"schema": 1, "dataset_', TrainingError, r"run\.json is damaged"),
        ('{"schema": 1}', TrainingError, "'dataset_id' is missing"),
    ],
)
def test_a_record_of_another_version_or_damaged(out, text, error, message):
    """An old, new or damaged record is one clear line, never a KeyError (case 24)."""
    made = run_bc(out, steps=1)
    (made.run / "run.json").write_text(text)
    with pytest.raises(error, match=message) as caught:
        run_bc(out, resume=True)
    assert "\n" not in str(caught.value)


def test_a_record_with_a_value_of_another_type(out):
    """A field of the wrong type is named."""
    made = run_bc(out, steps=1)
    found = json.loads((made.run / "run.json").read_text())
    for name, value in [("seed", "0"), ("status", "sleeping"), ("settings", []), ("seconds", True)]:
        (made.run / "run.json").write_text(json.dumps({**found, name: value}))
        with pytest.raises(TrainingError, match=name if name != "status" else "sleeping"):
            read_run(made.run)


@pytest.mark.parametrize("damage", ["empty", "half", "garbage"])
def test_a_damaged_checkpoint_is_one_line(out, damage):
    """A checkpoint that was damaged is refused, naming the file; nothing of it is unpickled."""
    made = run_bc(out, steps=10)
    path = made.run / "checkpoint" / "state.pt"
    data = path.read_bytes()
    path.write_bytes({"empty": b"", "half": data[: len(data) // 2], "garbage": b"\x80\x04garbage"}[damage])
    with pytest.raises(TrainingError, match=r"checkpoint .*state\.pt: damaged") as caught:
        run_bc(out, resume=True)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_another_version(out):
    """A checkpoint of a newer schema gives a version message (case 24)."""
    import torch

    made = run_bc(out, steps=1)
    torch.save({"schema": 99}, made.run / "checkpoint" / "state.pt")
    with pytest.raises(VersionError, match="expected schema 1, got 99"):
        run_bc(out, steps=2, resume=True)


def test_a_killed_run_goes_on_from_its_checkpoint(out, tmp_path):
    """A process that died leaves `running` and half a line of metrics; --resume still equals one go."""
    whole = run_bc(tmp_path / "whole")
    made = run_bc(out, steps=150)
    (made.run / "run.json").write_text(
        json.dumps({"schema": 1, **dataclasses.asdict(read_run(made.run).changed(status="running"))})
    )
    with (made.run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 160, "losses": {}}\n{"step": 2')
    (made.run / "policy.onnx").unlink()
    resumed = run_bc(out, resume=True)
    assert bits(resumed.run) == bits(whole.run)
    assert losses(resumed.run) == losses(whole.run)


def test_a_run_that_died_after_its_last_checkpoint(out):
    """Its record, which may be a checkpoint behind, is made to agree with what was trained."""
    made = run_bc(out, steps=20)
    behind = read_run(made.run).changed(status="running", step=10, seconds=0.0)
    behind.write(made.run)
    assert run_bc(out, steps=20, resume=True).seconds == made.seconds
    record = read_run(made.run)
    assert (record.status, record.step, record.seconds) == ("done", 20, made.seconds)


def test_a_run_that_died_before_its_first_checkpoint(out):
    """It begins again from the start."""
    made = run_bc(out, steps=150)
    (made.run / "checkpoint" / "state.pt").unlink()
    before = losses(made.run)
    assert losses(run_bc(out, steps=150, resume=True).run) == before


def test_one_process_at_a_time(out):
    """A run that another process trains right now is left alone."""
    made = run_bc(out, steps=1)
    script = f"""
        from pathlib import Path
        from smeoffline.train.files import held
        import sys
        with held(Path({str(made.run)!r})) as mine:
            print(mine, flush=True)
            sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "True\n"
        with pytest.raises(TrainingError, match="another process is training it now"):
            run_bc(out, steps=2, resume=True)
        other.communicate("")
    assert run_bc(out, steps=2, resume=True).steps == 2


def test_an_interruption_keeps_what_was_trained(out, tmp_path):
    """Ctrl-C stops after the step that runs, keeps a checkpoint and says how to go on from there."""

    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(TrainingInterrupted, match=r"stopped after step \d+ of 100000, .* with --resume") as caught:
        run_bc(out, steps=100_000, progress=interrupt)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert signal.getsignal(signal.SIGINT) is before
    record = read_run(out / "sme-small-v0--bc-s0")
    assert record.status == "interrupted"
    assert 0 < record.step < 100_000
    total = record.step + 50
    resumed = run_bc(out, steps=total, resume=True)
    whole = run_bc(tmp_path / "whole", steps=total)
    assert bits(resumed.run) == bits(whole.run)
    assert losses(resumed.run) == losses(whole.run)


def test_an_interruption_in_the_last_step_is_not_forgotten(out, tmp_path):
    """A caller that trains several runs is stopped, also where training had nothing left to do."""

    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted, match="stopped after step 2 of 2, "):
        run_bc(out, steps=2, progress=interrupt)
    assert read_run(out / "sme-small-v0--bc-s0").status == "interrupted"
    resumed, whole = run_bc(out, steps=2, resume=True), run_bc(tmp_path / "whole", steps=2)
    assert bits(resumed.run) == bits(whole.run)
    assert losses(resumed.run) == losses(whole.run)


def test_a_second_signal_within_a_moment_is_the_same_wish():
    """Two SIGINTs in a row, as a terminal and make send them, are one request to stop."""
    with StopRequest() as stop:
        assert not stop()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop()


def test_insisting_stops_at_once(monkeypatch):
    """A SIGINT some seconds after the first raises, for a step that hangs."""
    monkeypatch.setattr("smeoffline.train.interrupt.GRACE_SECONDS", -1.0)
    with StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_an_ignored_signal_stays_ignored():
    """Under nohup, SIGHUP is ignored, and training must not take it for a wish to stop."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_error_in_the_callback_fails_the_run(out):
    """What a callback raises comes through, and the record does not stay at `running`."""

    def broken(*_):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        run_bc(out, progress=broken)
    record = read_run(out / "sme-small-v0--bc-s0")
    assert (record.status, record.reason) == ("failed", "mine")


def test_a_dataset_that_is_not_ours_trains(out):
    """A plain Minari dataset trains in its own action space, and a hash of its content is recorded."""
    space = {"type": "Box", "shape": [3], "low": [-2.0] * 3, "high": [2.0] * 3}
    foreign = dataset(metadata={"action_space": json.dumps(space)})
    foreign = dataclasses.replace(foreign, actions=foreign.actions * 4 - 2)
    made = run_bc(out, data=foreign)
    actions = made.act(foreign.observations)
    assert actions.min() < -0.1
    assert actions.max() > 0.1
    record = read_run(made.run)
    assert (record.action_low, record.action_high) == ([-2.0] * 3, [2.0] * 3)
    assert len(record.dataset_sha256) == 64
    with pytest.raises(TrainingError, match="other dataset content"):
        run_bc(out, data=dataclasses.replace(foreign, rewards=foreign.rewards + 1), resume=True)


def test_metrics_survive_losses_that_come_and_go(tmp_path):
    """A loss that only some steps have is averaged over those steps."""
    with Metrics(tmp_path) as metrics:
        for step in range(100):
            metrics.add({"a": 1.0, "b": 2.0} if step % 2 else {"a": 3.0}, seconds=step + 1.0)
    assert losses(tmp_path) == [(100, {"a": 2.0, "b": 2.0})]
    assert read_metrics(tmp_path)[0]["rate"] == 1.0


def test_a_file_is_old_or_new(tmp_path):
    """A write that fails leaves the old file and no temporary one."""
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "new")  # not bytes: fails in the middle
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["file"]


def test_a_lock_is_held_once(tmp_path):
    """A lock that is held is not given out again, and is free afterwards."""
    with held(tmp_path) as first, held(tmp_path) as second:
        assert (first, second) == (True, False)
    with held(tmp_path) as third:
        assert third


def test_nothing_is_printed_or_warned(tmp_path):
    """Importing d3rlpy, training and exporting in a fresh process say nothing at all."""
    script = """
        from train_data import dataset
        from smeoffline.train.run import train
        import sys
        train(dataset(), algo="iql", steps=3, settings={"batch_size": 8}, out=sys.argv[1])
    """
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_the_package_is_light_until_it_trains():
    """Importing the run module loads neither torch, d3rlpy, onnx nor minari, for the sake of --help."""
    heavy = ("torch", "d3rlpy", "onnx", "onnxruntime", "minari", "h5py")
    script = f"import sys, smeoffline.train.run; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
