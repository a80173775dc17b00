"""Builds the ``kvproof`` command and turns what goes wrong into one line and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.registry import all_commands
from kvproof.models.errors import LayoutError
from kvproof.reports.errors import ReportError

WRONG_USE = 2
INTERRUPTED = 130
"""As shells report a process that an interrupt ended; nothing that was stopped half-way counts as passed."""

GROUP_HELP = {
    "history": "Stored runs: listed, exported, imported, pruned.",
    "ir": "Compiled kernels: checked, run and compared, on a machine without a GPU.",
}
"""Help of the commands that have subcommands ("ir check" is one of ``ir``)."""

DEBUG_VARIABLE = "KVPROOF_DEBUG"

# typer brings a click of its own from some release on; either way BadParameter descends from its base error.
_ClickError: type[Exception] = next(b for b in typer.BadParameter.__mro__ if b.__name__ == "ClickException")


def _print_version(wanted: bool) -> None:
    if wanted:
        import kvproof

        typer.echo(f"kvproof {kvproof.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Prove and fuzz the code that decides where every DeepSeek-V4 KV row lives.

    Exit status: 0 everything checked passed, 1 something failed, 2 wrong use or bad input, 3 nothing failed
    but something stayed undecided (UNKNOWN) or is outside what is modelled (UNSUPPORTED).

    \b
    Examples:
      kvproof verify                     prove and fuzz every real configuration
      kvproof layout v4-flash            where its rows, state fields and bytes go
      kvproof doctor                     devices, versions and solvers, and what is missing
    """


def build_app() -> typer.Typer:
    """The typer application with every registered subcommand."""
    # Plain help: rich help costs start-up time, and breaks the examples' lines.
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(_root)
    groups: dict[str, typer.Typer] = {}
    for name, function in all_commands().items():
        group, _, last = name.rpartition(" ")
        if group and group not in groups:
            groups[group] = typer.Typer(rich_markup_mode=None, help=GROUP_HELP.get(group))
            app.add_typer(groups[group], name=group)
        groups.get(group, app).command(last)(function)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: command line without the program; by default that of the process.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    command: Any = typer.main.get_command(build_app())
    try:
        outcome = command.main(given or ["--help"], prog_name="kvproof", standalone_mode=False)
    except _ClickError as error:
        return _refuse(_message(error))
    except (UsageError, LayoutError, ReportError) as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, typer.Abort):
        print("kvproof: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (a pager, head) went away. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return outcome if isinstance(outcome, int) else 0


def _message(error: Any) -> str:
    context = getattr(error, "ctx", None)
    where = getattr(context, "command_path", "kvproof")
    return f"{' '.join(error.format_message().split())} (see '{where} --help')"


def _refuse(message: str) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        raise  # noqa: PLE0704  (called while the error is handled)
    print(f"kvproof: error: {message}", file=sys.stderr)
    return WRONG_USE


def run() -> NoReturn:
    """Entry point of the ``kvproof`` script."""
    sys.exit(main())
