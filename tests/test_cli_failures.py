"""What users get wrong, and what the world does to them: one clear line, and nothing left behind."""

from __future__ import annotations

import hashlib
import json
import re
import resource
import signal
import time
from pathlib import Path

import pytest
from command import SMALL, environment, invoke, python, running

from smeoffline_cli import edge, output

# Runs for minutes if nobody stops it.
LONG = ("generate", "--complexity", "10", "--episodes", "20000", "--id", "sme/t-v0")


def everything_under(folder):
    """All files and folders below a folder, with the content of files."""
    if not folder.exists():
        return {}
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def assert_one_clear_line(result_stderr, stdout, code, *fragments, start="error: "):
    """One line on stderr, nothing on stdout, exit 1 or 2, no traceback."""
    assert code in (1, 2)
    assert stdout == ""
    assert result_stderr.startswith(start), result_stderr
    assert result_stderr.count("\n") == 1, result_stderr
    for fragment in fragments:
        assert fragment in result_stderr


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--nu", "-0.1"),
        ("--nu", "nan"),
        ("--nu", "inf"),
        ("--nu", "much"),
        ("--sigma", "-1"),
        ("--sigma", "NaN"),
        ("--complexity", "0"),
        ("--complexity", "1.5"),
        ("--complexity", "1001"),
        ("--state-dim", "0"),
        ("--action-dim", "0"),
        ("--episode-length", "0"),
        ("--episodes", "0"),
        ("--episodes", "-5"),
        ("--reward-every", "0"),
        ("--min-reward", "1"),
        ("--min-reward", "nan"),
        ("--kill-threshold", "1.1"),
        ("--shaping", "-0.5"),
        ("--task-seed", "-1"),
        ("--task-seed", str(2**32)),
        ("--seed", "-1"),
        ("--base", "biased"),
        ("--explore", "probits"),
        ("--workers", "0"),
    ],
)
def test_a_value_out_of_range_names_its_option(minari_root, flag, value):
    """Each bad value is refused before any work, in one line that names the option and what was typed."""
    before = everything_under(minari_root)
    result = invoke("generate", flag, value)
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, flag)
    assert everything_under(minari_root) == before


@pytest.mark.parametrize(
    "name",
    [
        "../escape-v0",
        "/abs-v0",
        "sme/no version",
        "a b-v0",
        "",
        "sme/x",
        "sme/../x-v0",
        "sme/x-v0/",
        "x\n-v0",
    ],
)
def test_a_forbidden_id_is_refused_before_any_work(tmp_path, name):
    """An id that Minari does not take is refused, and nothing appears anywhere."""
    before = everything_under(tmp_path)
    result = invoke("generate", *SMALL, "--id", name)
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, "--id: ")
    assert result.exit_code == 2
    assert everything_under(tmp_path) == before


def test_an_existing_dataset_is_kept_unless_overwriting_is_asked_for(minari_root):
    """A second generate fails with what to do, changing no byte; with --overwrite it replaces the dataset."""
    assert invoke("generate", *SMALL, "--id", "sme/t-v0").exit_code == 0
    before = everything_under(minari_root)
    result = invoke("generate", *SMALL, "--id", "sme/t-v0", "--nu", "0.5")
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, "sme/t-v0", "overwrite")
    assert result.exit_code == 1
    assert everything_under(minari_root) == before
    assert invoke("generate", *SMALL, "--id", "sme/t-v0", "--nu", "0.5", "--overwrite").exit_code == 0
    assert set(everything_under(minari_root)) == set(before)
    assert everything_under(minari_root) != before


@pytest.mark.parametrize("below", ["", "sme"])
def test_a_file_where_a_folder_must_be_is_told(minari_root, below):
    """A root (or a namespace in it) that is a file is named, as root too, and stays as it is."""
    place = minari_root / below
    if place.exists():
        place.rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("mine")
    result = invoke("generate", *SMALL, "--id", "sme/t-v0")
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, str(place))
    assert result.exit_code == 1
    assert place.read_text() == "mine"


def test_a_full_disk_is_told_and_leaves_nothing(minari_root):
    """When the file system takes no more, one line says so, and no part of the dataset stays."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with running("generate", "--episodes", "500", "--id", "sme/t-v0", preexec_fn=small_files) as process:
        out, err = process.communicate(timeout=120)
    assert_one_clear_line(err, out, process.returncode)
    assert process.returncode == 1
    assert [name for name in everything_under(minari_root) if "t-v0" in name] == []


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("[task]\ncomplexty = 3\n", ["complexty", "'complexity'"]),
        ("[tusk]\ncomplexity = 3\n", ["tusk", "'task'"]),
        ("[[behavior]]\nnuu = 0.1\n", ["nuu", "'nu'"]),
        ("[[behavior]]\nbase = 'bais'\n", ["bais", "'bias'"]),
        ("[dataset]\nepisode = 3\n", ["'episode'", "'episodes'"]),
        ("[task]\ncomplexity = 0\n", ["complexity", "0"]),
        ("[task]\ncomplexity = true\n", ["complexity", "True"]),
        ("[task\n", ["TOML"]),
        ("behavior = 3\n", ["behavior"]),
        ("task = 3\n", ["task"]),
        ("", None),
    ],
)
def test_a_recipe_with_a_fault_names_the_file_the_key_and_the_nearest(minari_root, tmp_path, text, fragments):
    """A misspelled key or a bad value in a recipe is told with the file, the key and the nearest."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    result = invoke("generate", "--recipe", path, "--episodes", "1")
    if fragments is None:  # an empty recipe is all defaults
        assert result.exit_code == 0
        return
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, "mine.toml", *fragments)
    assert list(minari_root.rglob("*.hdf5")) == []


def test_a_recipe_that_does_not_exist_is_told_with_the_nearest(tmp_path):
    """An unknown recipe name or a missing file is one line."""
    for name in ("no-such-recipe", tmp_path / "missing.toml", tmp_path):
        result = invoke("generate", "--recipe", name)
        assert_one_clear_line(result.stderr, result.stdout, result.exit_code, str(name))


def test_inspect_of_nothing_suggests_the_nearest_id():
    """An id that does not exist is exit 1, with the nearest that does."""
    assert invoke("generate", *SMALL, "--id", "sme/mine-v0").exit_code == 0
    result = invoke("inspect", "sme/mime-v0")
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, "sme/mime-v0", "sme/mine-v0")
    assert result.exit_code == 1


def test_inspect_writes_its_page_to_a_file(tmp_path):
    """A folder, or a file in a folder that is not there, is refused with what is wrong."""
    for page, fragment in ((tmp_path, "got a folder; name a file"), (tmp_path / "no" / "x.html", "there is no folder")):
        result = invoke("inspect", "sme/none-v0", "--html", page)
        assert_one_clear_line(result.stderr, result.stdout, result.exit_code, str(page), fragment)


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "--recipe", "none"),
        ("generate", "--base", "policy", "--policy", "none.onnx"),
        ("generate", "--base", "policy"),
        ("generate", "--explore", "gaussian"),
        ("inspect", "x", "--html", "none/x.html"),
        ("inspect", "x", "--html", ""),
        ("train", "x", "--algo", "bc", "--out", "file"),
        ("evaluate", "none"),
        ("evaluate", "folder", "--values", "--figure", "none/x.svg"),
        ("ope", "x", "none"),
        ("ope", "x", "behaviour"),
        ("benchmark", "none", "--out", "x"),
        ("benchmark", "smoke", "--out", "file/x"),
        ("benchmark", "smoke", "--out", "x", "--seeds", "1000001"),
        ("benchmark", "smoke", "--out", "x", "--workers", "5000"),
        ("report", "none"),
        ("report", "file"),
        ("report", "folder", "--out", "file"),
        ("bundle", "pack", "x", "-o", "none/x.zip"),
        ("bundle", "pack", "--suite", "none", "-o", "x.zip"),
        ("bundle", "verify", "none.zip"),
        ("plot", "task", "-o", "none/x.svg"),
        ("plot", "task", "-o", "file/x.svg"),
        ("plot", "task", "-o", "x.pdf"),
        ("plot", "behaviors", "--policy", "none.onnx"),
        ("plot", "run", "none"),
        ("leaderboard", "probes", "none", "-o", "x.npz"),
        ("leaderboard", "probes", "v1", "-o", "none/x.npz"),
        ("leaderboard", "submit", "none", "--name", "x", "-o", "x.npz"),
        ("leaderboard", "submit", "folder", "--name", "", "-o", "x.npz"),
        ("leaderboard", "score", "none.npz"),
        ("leaderboard", "score", "file", "--results", "none/x.jsonl"),
        ("leaderboard", "score", "file", "--suite", "none"),
        ("leaderboard", "verify", "mine:train", "--trust", "--salt-file", "none"),
        ("leaderboard", "verify", "mine", "--trust", "--salt-file", "file"),
        ("leaderboard", "build", "none"),
        ("leaderboard", "build", "file", "--out", "file"),
    ],
    ids=" ".join,
)
def test_what_is_wrong_on_its_face_is_a_usage_error(arguments, tmp_path, monkeypatch):
    """A bad value, an input that is not there, no folder for an output: one line, exit 2, in every command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    before = everything_under(tmp_path)
    result = invoke(*arguments)
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code)
    assert result.exit_code == 2, result.stderr
    assert everything_under(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("generate", "--base", "policy"),
            "--policy must name an ONNX file for base 'policy', got none; give one, such as a run's policy.onnx",
        ),
        (("ope", "x", "behaviour"), "behavior or optimal; did you mean 'behavior'?"),
        (("ope", "x", "none"), "behavior or optimal (see"),
        (("plot", "task", "-o", "file/x.svg"), "expected a folder, got a file in its place: file; choose another"),
        (("inspect", "x", "--html", "file/a/x.html"), "expected a folder, got a file in its place: file; choose"),
    ],
    ids=str,
)
def test_a_usage_error_says_what_to_do(arguments, told, tmp_path, monkeypatch):
    """What is missing is told by its option, a misspelled word by the nearest, a file in the way by its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = invoke(*arguments)
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, told)


@pytest.mark.parametrize("kind", ["probit", "gaussian", "uniform", "ou"])
@pytest.mark.parametrize("size", [(), ("--sigma", "0")], ids=["left out", "zero"])
def test_an_exploration_without_a_size_is_refused(minari_root, kind, size):
    """Who asks for noise by name gets noise or an error, never data without; `none` needs no size."""
    result = invoke("generate", *SMALL, "--explore", kind, *size)
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, f"--explore '{kind}'", "give --sigma")
    assert result.exit_code == 2
    assert list(minari_root.rglob("*.hdf5")) == []
    assert invoke("generate", *SMALL, "--explore", "none", *size).exit_code == 0


def test_a_report_of_a_file_says_that_a_folder_is_expected(tmp_path):
    """The results' own file, named instead of its folder."""
    (tmp_path / "results.jsonl").touch()
    result = invoke("report", tmp_path / "results.jsonl")
    assert_one_clear_line(
        result.stderr, result.stdout, result.exit_code, "expected a folder, got a file; name the one that holds results"
    )


def test_an_id_is_found_however_its_accents_were_typed():
    """A letter and its accent apart look the same, and are the same id."""
    assert invoke("generate", *SMALL, "--id", "sme/c\u00f6de-v0").exit_code == 0
    assert invoke("inspect", "sme/co\u0308de-v0").exit_code == 0


def test_an_id_that_is_no_text_in_the_locale_is_told_without_its_like():
    """What ASCII cannot decode is refused with a way out, never answered with what looks the same."""
    assert invoke("generate", *SMALL, "--id", "sme/c\u00f6de-v0").exit_code == 0
    plain = environment(LC_ALL="C", PYTHONUTF8="0")
    with running("inspect", "sme/c\u00f6de-v0", env=plain) as process:
        out, err = process.communicate(timeout=60)
    assert_one_clear_line(err, out, process.returncode, "this is no text in ascii; use a UTF-8 locale")
    assert "did you mean" not in err


def test_a_resumable_command_says_what_an_interruption_keeps():
    """What the work says itself goes first; a plain interruption gets the command's own words."""
    for raised, told in ((KeyboardInterrupt(), "all is kept"), (KeyboardInterrupt("step 3"), "step 3")):
        failing = pytest.raises(edge.Interrupted, match=f"^interrupted: {told}$")
        with failing, edge.passing_interrupts(), edge.resumable("all is kept"):
            raise raised


@pytest.mark.parametrize("damage", ["truncate", "garbage", "empty", "remove"])
def test_inspect_of_a_damaged_file_is_one_line(minari_root, damage):
    """A file that is cut, overwritten, emptied or gone is told, not dumped."""
    assert invoke("generate", *SMALL, "--id", "sme/t-v0").exit_code == 0
    path = minari_root / "sme" / "t-v0" / "data" / "main_data.hdf5"
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "garbage":
        path.write_bytes(b"no hdf5" * 100)
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    result = invoke("inspect", "sme/t-v0")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def wait_until_writing(root, process):
    """Wait until a process has begun to write below the root."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if any(path.is_file() and path.stat().st_size > 0 for path in root.rglob("*")):
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing was written: {process.poll()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
def test_an_interruption_leaves_nothing_and_the_next_call_works(minari_root, number, times):
    """Ctrl-C or a kill in the middle: one line, exit 1, soon, no remains; the same command then succeeds."""
    with running(*LONG) as process:
        wait_until_writing(minari_root, process)
        for _ in range(times):  # the second must not break off the clean-up that the first began
            process.send_signal(number)
            time.sleep(0.01)
        out, err = process.communicate(timeout=30)
    assert_one_clear_line(err, out, process.returncode, start="interrupted: ")
    assert process.returncode == 1
    assert [name for name in everything_under(minari_root) if "t-v0" in name] == []
    assert invoke("generate", *SMALL, "--id", "sme/t-v0").exit_code == 0


def test_an_interrupted_overwrite_keeps_the_old_dataset(minari_root):
    """Ctrl-C while replacing a dataset leaves the one that was there, byte for byte."""
    assert invoke("generate", *SMALL, "--id", "sme/t-v0").exit_code == 0
    before = everything_under(minari_root)
    with running(*LONG, "--overwrite") as process:
        deadline = time.monotonic() + 60
        while len(everything_under(minari_root)) <= len(before) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 1
    assert everything_under(minari_root) == before


def wait_until_listening(process):
    """Wait until a process handles SIGTERM itself: before that, Python's own start-up is to blame."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        time.sleep(1)
    while status.exists() and process.poll() is None:
        caught = int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16)
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.005)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3, 0.6, 1.0, 1.4])
def test_an_interruption_at_any_moment_is_one_line(minari_root, seconds):
    """Ctrl-C while the program is still importing ends it as quietly as later."""
    with running(*LONG) as process:
        wait_until_listening(process)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert_one_clear_line(err, out, process.returncode, start="interrupted: ")
    assert [name for name in everything_under(minari_root) if "t-v0" in name] == []


def test_a_stuck_thread_does_not_keep_an_interrupted_program_alive():
    """After an interruption the process ends even where a worker thread never will."""
    shown = python(
        "import signal, threading\n"
        "from smeoffline_cli import edge\n"
        "edge.EXIT_SECONDS = 0.1\n"
        "edge.interruption.listen()\n"
        "print('begun', flush=True)\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "edge.guarded(lambda: signal.raise_signal(signal.SIGINT))\n",
        check=False,
        timeout=30,
    )
    assert shown == "begun\n"


def test_two_processes_that_make_one_dataset_at_once(minari_root):
    """One of them wins, the other is told that the id exists, and the dataset is sound."""
    args = ("generate", "--episodes", "300", "--id", "sme/t-v0", "--json")
    with running(*args) as first, running(*args) as second:
        ends = [(*process.communicate(timeout=120), process.returncode) for process in (first, second)]
    assert sorted(code for *_, code in ends) == [0, 1]
    (_, err, _) = next(end for end in ends if end[2] == 1)
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "sme/t-v0" in err
    record = json.loads(invoke("inspect", "sme/t-v0", "--json").stdout)
    assert record["ok"] is True
    assert [path.name for path in (minari_root / "sme").iterdir() if path.is_dir()] == ["t-v0"]


def test_two_processes_that_overwrite_one_dataset_at_once(minari_root):
    """Each may win, none may fail for the other's sake with half a dataset: what remains is sound."""
    assert invoke("generate", *SMALL, "--id", "sme/t-v0").exit_code == 0
    args = ("generate", "--episodes", "300", "--id", "sme/t-v0", "--overwrite", "--json")
    with running(*args) as first, running(*args) as second:
        ends = [(*process.communicate(timeout=120), process.returncode) for process in (first, second)]
    assert 0 in [code for *_, code in ends]
    assert all("Traceback" not in err for _, err, _ in ends)
    record = json.loads(invoke("inspect", "sme/t-v0", "--json").stdout)
    assert record["ok"] is True
    assert [path.name for path in (minari_root / "sme").iterdir() if path.is_dir()] == ["t-v0"]


def test_no_text_of_a_stranger_steers_the_terminal(tmp_path):
    """Control characters of a file's content are shown as ? in messages and tables."""
    (tmp_path / "results.jsonl").write_text(json.dumps({"schema": 1, "\x1b[2J": 1}) + "\n")
    refused = invoke("leaderboard", "build", tmp_path / "results.jsonl")
    assert refused.exit_code == 1
    assert "\x1b" not in refused.stderr
    assert output.cell("a\x1b[2J\nb") == "a?[2J?b"
    assert output.one_line("a\n\x07b") == "a ?b"


def test_an_error_of_the_operating_system_is_one_line(monkeypatch):
    """What no one foresaw about files still ends as one line, not as a traceback."""
    import smeoffline.data.generate as target

    def broken(*_, **__):
        raise OSError(28, "No space left on device", "/somewhere")

    monkeypatch.setattr(target, "generate_recipe", broken)
    result = invoke("generate")
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, "/somewhere: No space left on device; mend")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc: nobody can make a folder in it")
def test_a_place_that_no_folder_can_be_made_in_is_told_with_what_to_do():
    """What only the operating system knows of a folder is told with a way out."""
    result = invoke("benchmark", "smoke", "--out", "/proc/o")
    told = "/proc/o: No such file or directory; mend that, or choose another place"
    assert_one_clear_line(result.stderr, result.stdout, result.exit_code, told)


def test_a_bug_keeps_its_traceback(monkeypatch):
    """What is no expected failure is not dressed up as one."""
    import smeoffline.data.generate as target

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(target, "generate_recipe", broken)
    assert isinstance(invoke("generate").exception, ZeroDivisionError)
