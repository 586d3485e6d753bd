"""`sme-offline`: the group of commands, each imported only when it is called.

`sme-offline --help` thus loads click and nothing else, and starts in under a tenth of a second.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import platform
from typing import Any, NoReturn

import click

from smeoffline_cli.edge import guarded, interruption, passing_interrupts

# One line for each command, as `--help` lists them; the command `x` is `smeoffline_cli.x.command`.
COMMANDS = {
    "generate": "Write a dataset of noisy behavior on one task.",
    "inspect": "Audit a dataset and describe it.",
    "train": "Train an algorithm on a dataset, with exact resume.",
    "evaluate": "Score a trained policy against the known optimum.",
    "ope": "Estimate policies from a dataset, beside their true values.",
    "benchmark": "Train and evaluate every cell of a suite.",
    "report": "Make tables and figures from the results of a benchmark.",
    "leaderboard": "Submit, score, verify and rank algorithms by their actions.",
    "bundle": "Pack, verify and install datasets as one file.",
    "plot": "Draw a task, behaviors, a dataset or a run.",
    "doctor": "Check the installation, and say what to fix.",
}
# What decides the bytes of a dataset or the steps of a training run.
MATTERS = ("torch", "numpy", "minari", "h5py", "gymnasium", "d3rlpy", "onnxruntime")
# Every variable that the program looks at; a test compares it with the source.
ENVIRONMENT = """\b
Environment:
  MINARI_DATASETS_PATH  Where datasets live.  [default: ~/.minari/datasets]
  OMP_NUM_THREADS       At most so many cores are used.
  NO_COLOR              If set, no colors; there are none outside a terminal anyway.
  _SME_OFFLINE_COMPLETE bash_source, zsh_source or fish_source prints the
                        shell's completion script instead of running."""


class Program(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of a project: generate first."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or tell the nearest one."""
        if cmd_name in COMMANDS:
            command = importlib.import_module(f"smeoffline_cli.{cmd_name}").command
            if not isinstance(command, click.Command):
                raise TypeError(f"smeoffline_cli.{cmd_name}.command is no click command")
            return command
        if ctx.resilient_parsing:  # a shell completes; it can show no error
            return None
        near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
        if near:
            ctx.fail(f"no such command: {cmd_name!r}; did you mean {near[0]!r}?")
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line."""
        with passing_interrupts():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with passing_interrupts():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run, print failures as one line, and exit."""
        kwargs["standalone_mode"] = False
        guarded(lambda: super(Program, self).main(*args, **kwargs))


def _versions(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the versions that a bug report needs, from installed metadata alone."""
    del param
    if not value or ctx.resilient_parsing:
        return
    from smeoffline import __version__  # not at the top: `--help` does without the library

    click.echo(f"sme-offline {__version__}")
    for name in MATTERS:
        click.echo(f"{name} {_version(name)}")
    click.echo(f"python {platform.python_version()} ({platform.system()}, {platform.machine()})")
    ctx.exit()


def _version(distribution: str) -> str:
    """The installed version of a distribution."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=ENVIRONMENT,
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_versions, help="Show versions.")
def program() -> None:
    """Offline-RL datasets whose answer is known, and a benchmark on them that is hard to fool."""


def main() -> NoReturn:
    """The console script's entry point."""
    interruption.listen()
    program.main(prog_name="sme-offline")


if __name__ == "__main__":
    main()
