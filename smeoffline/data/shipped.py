"""TOML files that are named by a path, or by the name under which they come with the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from smeoffline.errors import SpecError, nearest

MAX_BYTES = 2**20


def shipped_folder() -> Path:
    """The folder of shipped recipes, suites and cards: in the wheel, or `datasets/` of a checkout."""
    packaged = Path(str(resources.files("smeoffline"))) / "_datasets"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "datasets"


def shipped_names(folder: Path) -> list[str]:
    """Names of the files in a folder of shipped ones, sorted."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def text_of(kind: str, source: str | Path, folder: Path) -> str:
    """The text of a file, or of a shipped one.

    Args:
        kind: What it is called in messages: `recipe` or `suite`.
        source: A path, or the name of one in `folder`.
        folder: Where the shipped ones are.

    Raises:
        SpecError: Neither exists (with the nearest name), or the file can't be read as text.
    """
    path = Path(source)
    where = f"{kind} {str(source)!r}"
    try:
        if path.suffix != ".toml" and not path.exists():
            names = shipped_names(folder)
            if str(source) not in names:
                raise SpecError(
                    f"{where}: no such file or shipped {kind} ({', '.join(names)}){nearest(str(source), names)}"
                )
            path = folder / f"{source}.toml"
        if path.exists() and not path.is_file():
            raise SpecError(f"{where}: expected a file, got a folder or device")
        if path.stat().st_size > MAX_BYTES:
            raise SpecError(f"{where}: larger than {MAX_BYTES} bytes; is it a {kind}?")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = getattr(fault, "strerror", None) or "not UTF-8 text"
        raise SpecError(f"{where}: cannot be read: {reason}") from None
