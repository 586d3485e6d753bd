"""A stranger's algorithm in a process without network, files, environment or neighbors: bubblewrap.

The child has namespaces of its own, an empty environment, and a file system of nothing but: the system's
libraries, Python's prefix, this package, the entrant's module, one file of arrays, and an empty /tmp that is gone
afterwards; all but /tmp read-only. It is told by arrays, and answers in arrays. This is isolation, not proof: a
fault in the kernel or in bubblewrap is a way out.
"""

from __future__ import annotations

import collections
import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smeoffline.bench.leaderboard import archive
from smeoffline.bench.leaderboard.inside import CODE, ENTRANT, INPUT, PROBES
from smeoffline.errors import BenchmarkError
from smeoffline.sme.arrays import Floats
from smeoffline.train.transitions import Transitions

PROGRAM = "bwrap"
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives")  # where libraries are; some are links through the second
SCRATCH_BYTES = 2**30  # of /tmp
MAX_LOG_LINES, MAX_LOG_LINE = 50, 2000
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own, empty and gone afterwards
    "LANG": "C.UTF-8",
    "PYTHONPATH": f"{CODE}:{ENTRANT}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Entrant:
    """An algorithm in a module, which is never imported outside the sandbox.

    Attributes:
        name: `package.module:function`.
        path: The package's folder or the module's file: what the sandbox sees of it.
    """

    name: str
    path: Path

    @classmethod
    def find(cls, name: str, folder: Path | None = None) -> Entrant:
        """The entrant of a name, in the current folder or another one.

        Raises:
            BenchmarkError: The name has another form, or there is no such package or module.
        """
        module, colon, attribute = name.partition(":")
        parts = [*module.split("."), *attribute.split(".")]
        if not colon or not all(part.isidentifier() for part in parts):
            raise BenchmarkError(f"entrant: expected package.module:function, as in mine.algorithm:train, got {name!r}")
        base = Path.cwd() if folder is None else folder
        for path in (base / parts[0], base / f"{parts[0]}.py"):
            if path.is_dir() if path.suffix == "" else path.is_file():
                return cls(name, path.resolve())
        raise BenchmarkError(f"entrant {name!r}: expected the package or module {parts[0]!r} in {base}, got neither")


@dataclass(frozen=True)
class Sandbox:
    """How to run an entrant.

    Attributes:
        entrant: Whom.
        timeout: Seconds that one training may take.
    """

    entrant: Entrant
    timeout: float

    def check(self, hidden: Sequence[Path]) -> None:
        """Refuse to begin where it could not isolate.

        Args:
            hidden: Files and folders that the entrant must not see.

        Raises:
            BenchmarkError: No bubblewrap, it is not allowed to make namespaces, or something that must stay
                hidden lies in a folder that the sandbox shows.
        """
        if shutil.which(PROGRAM) is None:
            raise BenchmarkError(
                "verify: needs bubblewrap (`bwrap`; the package `bubblewrap` of Debian, Fedora and others) to run a "
                "stranger's code, found none; install it, or score submitted actions instead"
            )
        shown = [path for path in self._shown() if path.exists()]
        for path in hidden:
            for folder in shown:
                if path.resolve().is_relative_to(folder.resolve()):
                    raise BenchmarkError(f"verify: {path} lies in {folder}, which the entrant sees; move it elsewhere")
        with tempfile.NamedTemporaryFile() as empty:
            command = [*self._command(Path(empty.name)), sys.executable, "-c", "import numpy"]
            done = subprocess.run(command, env={}, capture_output=True, text=True, check=False)  # noqa: S603 - below
        if done.returncode != 0:
            told = _printable(done.stderr.strip().splitlines()[-1:] or ["no reason given"])
            raise BenchmarkError(
                f"verify: bubblewrap can't isolate here: {told}; it needs user namespaces, which a container or "
                "the system may forbid"
            )

    def actions(self, data: Transitions, probes: Floats, *, seed: int, steps: int) -> Floats:
        """Have the entrant train on data and act at probes.

        Args:
            data: The transitions.
            probes: (n, N_s + 2).
            seed: For the training.
            steps: For the training.

        Returns:
            (n, N_a) in [0, 1].

        Raises:
            BenchmarkError: It failed, took too long, or did not answer with such actions.
        """
        arrays = {name: getattr(data, name) for name in data.__dataclass_fields__}
        with tempfile.TemporaryDirectory(prefix="smeoffline-") as folder:
            given = Path(folder) / "input.npz"
            archive.write(given, {**arrays, PROBES: probes})
            command = [*self._command(given), sys.executable, "-s", "-P", "-m", "smeoffline.bench.leaderboard.inside"]
            return self._answer(
                [*command, self.entrant.name, str(seed), str(steps)], (len(probes), data.actions.shape[1])
            )

    def _answer(self, command: Sequence[str], shape: tuple[int, int]) -> Floats:
        """What the child writes, if it is an array of that shape with actions in it."""
        limit = archive.MAX_HEADER + 4 * shape[0] * shape[1]
        with _running(command, self.timeout) as child:
            answer = child.read(limit + 1)
            code, late, log = child.end()
        if late:
            raise BenchmarkError(f"entrant {self.entrant.name!r}: expected actions within {self.timeout:g} s, got none")
        if code != 0:
            raise BenchmarkError(f"entrant {self.entrant.name!r}: failed in the sandbox: {_printable(log)}")
        try:
            actions = archive.read_array(io.BytesIO(answer), shape)
        except (archive.ArrayError, *archive.DAMAGED) as fault:
            raise BenchmarkError(f"entrant {self.entrant.name!r}: its answer is no array of actions: {fault}") from None
        if not np.isfinite(actions).all() or actions.min() < 0 or actions.max() > 1:
            raise BenchmarkError(f"entrant {self.entrant.name!r}: expected finite actions in [0, 1], got others")
        return actions

    def _shown(self) -> list[Path]:
        """Folders and files of this machine that the child sees, read-only."""
        python = [Path(sys.prefix), Path(sys.base_prefix)]
        return [*map(Path, SYSTEM), *map(Path, SYSTEM_FILES), *python, _package(), self.entrant.path]

    def _command(self, given: Path) -> list[str]:
        """bubblewrap with everything that makes the sandbox; the child's own command follows."""
        # By its full path: the environment that it gets has none.
        command = [
            shutil.which(PROGRAM) or PROGRAM,
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--cap-drop",
            "ALL",
        ]
        command += ["--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
        command += ["--proc", "/proc", "--dev", "/dev", "--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp"]  # noqa: S108
        for place in SYSTEM:
            path = Path(place)
            if path.is_symlink():
                command += ["--symlink", str(path.readlink()), place]
            elif path.is_dir():
                command += ["--ro-bind", place, place]
        for place in SYSTEM_FILES:
            command += ["--ro-bind-try", place, place]
        for prefix in dict.fromkeys((sys.base_prefix, sys.prefix)):
            command += ["--ro-bind", prefix, prefix]
        command += ["--ro-bind", str(_package()), f"{CODE}/{_package().name}"]
        command += ["--ro-bind", str(self.entrant.path), f"{ENTRANT}/{self.entrant.path.name}"]
        command += ["--ro-bind", str(given), INPUT, "--remount-ro", "/", "--chdir", "/"]
        for name, value in ENVIRONMENT.items():
            command += ["--setenv", name, value]
        return [*command, "--"]


def _package() -> Path:
    """Where this package lies."""
    return Path(__file__).parents[2]


@dataclass(frozen=True)
class _Child:
    """A running child.

    Attributes:
        read: Takes so many bytes from its stdout, or all that there are.
        end: Its exit code, whether its time was over, and the last lines of its stderr.
    """

    read: Callable[[int], bytes]
    end: Callable[[], tuple[int, bool, list[str]]]


@contextlib.contextmanager
def _running(command: Sequence[str], timeout: float) -> Iterator[_Child]:
    """The child, which does not outlive this context, nor its time; it is told nothing but its command."""
    log: collections.deque[str] = collections.deque(maxlen=MAX_LOG_LINES)
    late = threading.Event()
    pipe = subprocess.PIPE
    # The program is bubblewrap, the arguments are a list, and its environment is empty.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env={}) as process:  # noqa: S603
        stdout, stderr = process.stdout, process.stderr
        if stdout is None or stderr is None:
            raise TypeError("a process started with pipes has them")

        def stop() -> None:
            late.set()
            process.kill()

        def drain() -> None:
            while line := stderr.readline(MAX_LOG_LINE):
                log.append(line.decode(errors="replace"))

        def end() -> tuple[int, bool, list[str]]:
            stdout.close()  # who writes more than it may, ends by that
            code = process.wait()
            listener.join()
            return code, late.is_set(), list(log)

        clock = threading.Timer(timeout, stop)
        listener = threading.Thread(target=drain, daemon=True)
        clock.start()
        listener.start()
        try:
            yield _Child(stdout.read, end)
        finally:
            clock.cancel()
            process.kill()


def _printable(lines: Sequence[str]) -> str:
    """The last line of a stranger's log that says something, without control characters."""
    told = next((line for line in reversed(lines) if line.strip()), "it told no reason")
    return "".join(character if character.isprintable() else " " for character in told).strip()[:300]
