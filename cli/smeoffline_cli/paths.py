"""Files and folders on the command line, looked at before any work: one that can't be right is a usage error."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import click


class Existing(click.Path):
    """What a command reads: it must be there.

    Args:
        kind: What it must be.
        advice: What to do where it is not there, as `name a run's folder`.
        words: That may stand in its place.
    """

    def __init__(self, kind: Literal["file", "folder", "either"], advice: str, words: Collection[str] = ()) -> None:
        super().__init__(readable=False)  # the library tells more about what it can't read
        self.kind, self.advice, self.words = kind, advice, words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as it was typed."""
        if value not in self.words:
            if not os.path.exists(value):  # noqa: PTH110 - False for a name that no file can have; Path raises
                from smeoffline.errors import nearest  # not at the top: `--help` does without the library

                noun = "file or folder" if self.kind == "either" else self.kind
                near = nearest(str(value), self.words)
                _refuse(value, f"there is no such {noun}; {self.advice}{near}", param, ctx)
            if self.kind != "either" and Path(value).is_dir() != (self.kind == "folder"):
                got = "file" if self.kind == "folder" else "folder"
                _refuse(value, f"expected a {self.kind}, got a {got}; {self.advice}", param, ctx)
        return super().convert(value, param, ctx)


class NewFile(click.Path):
    """A file that a command writes: its folder must be there.

    Args:
        path_type: What the command gets.
        endings: That its name may have; none for any.
    """

    def __init__(self, path_type: type[str] | type[Path] = str, endings: Sequence[str] = ()) -> None:
        super().__init__(readable=False, path_type=path_type)
        self.endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, as the type that was asked for."""
        path = Path(value)
        if value == "" or path.is_dir():
            _refuse(value, f"expected a file, got {'a folder' if value else 'nothing'}; name a file", param, ctx)
        if self.endings and path.suffix not in self.endings:
            _refuse(value, f"expected a name that ends in {' or '.join(self.endings)}", param, ctx)
        _check_no_file(path.parent, value, param, ctx)
        if not path.parent.is_dir():
            _refuse(value, f"there is no folder {str(path.parent)!r}; make it first", param, ctx)
        return super().convert(value, param, ctx)


def check_new(path: str | Path, *, overwrite: bool) -> None:
    """Refuse to write over a file, unless that was asked for; called first, before any work.

    Raises:
        click.ClickException: The file exists.
    """
    if os.path.lexists(path) and not overwrite:
        raise click.ClickException(f"{path}: exists; choose another name, or pass --overwrite to replace it")


class Folder(click.Path):
    """A folder that a command makes, or adds to: no file may be in its place."""

    def __init__(self, path_type: type[str] | type[Path] = str) -> None:
        super().__init__(readable=False, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, as the type that was asked for."""
        _check_no_file(Path(value), value, param, ctx)
        return super().convert(value, param, ctx)


class Shipped(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4, and older ones can't say so
    """A file, or the name of one that comes with the package; it must be there and hold text.

    Args:
        kind: What it is called in messages.
        folder: Where the shipped ones are, below the library's folder of them.
    """

    name = "text"

    def __init__(self, kind: Literal["recipe", "suite"], folder: str = "") -> None:
        self.kind, self.folder = kind, folder

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """What was typed; its content is for the library to judge."""
        del param
        from smeoffline.data.shipped import shipped_folder, text_of  # not at the top: `--help` does without
        from smeoffline.errors import SpecError

        try:
            text_of(self.kind, value, shipped_folder() / self.folder)
        except SpecError as error:
            raise click.UsageError(str(error), ctx) from error
        return value


RECIPE = Shipped("recipe")
SUITE = Shipped("suite", "suites")
RUN = Existing("folder", "name a run's folder, as `sme-offline train` prints it")
POLICY = Existing("file", "name an ONNX file, such as a run's policy.onnx")


def _check_no_file(folder: Path, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> None:
    """Refuse a path whose folder can't be there, nor be made, since a file is in the place of it or of one above.

    Raises:
        click.UsageError: Names the file.
    """
    place = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), Path())
    if not place.is_dir():
        _refuse(value, f"expected a folder, got a file in its place: {place}; choose another", param, ctx)


def _refuse(value: Any, told: str, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
    """Refuse a path under the name of its option or argument.

    Raises:
        click.UsageError: Always.
    """
    name = "path"
    if param is not None:
        name = max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
    raise click.UsageError(f"{name.strip('[].')} {str(value)!r}: {told}", ctx)
