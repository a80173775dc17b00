"""The options that several subcommands share, and how their values are read.

Values arrive as text and are read here, so that a wrong one gets the same kind of message in every release of
typer: the option, the value, and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from kvproof.harness.cli.errors import UsageError

T = TypeVar("T")

Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|PATH",
        help="A real configuration by name, or a Hugging Face config.json (or its folder). May be given more than "
        "once. Default: every real configuration, fp8 and bf16.",
    ),
]
Kv = Annotated[
    str | None,
    typer.Option("--kv", metavar="fp8|bf16", help="KV dtype, which sets the planes. Default: fp8."),
]
Draft = Annotated[
    str | None,
    typer.Option(
        "--draft",
        metavar="mtp|dspark",
        help="Kind of the draft layers. Default: the configuration's own, else mtp if draft tokens are given.",
    ),
]
DraftTokens = Annotated[
    str | None, typer.Option("--draft-tokens", metavar="K", help="Draft tokens a step, a launch option.")
]
BlockSize = Annotated[
    str | None, typer.Option("--block-size", metavar="N", help="Tokens of a block. Default: 256.")
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Where kernels run: auto (every device that is here), interpret, ir, cuda or hip.",
    ),
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget", metavar="TIME", help="Time for all fuzzing together: 60s, 2m, 1h; a bare number is seconds."
    ),
]
Seed = Annotated[
    str, typer.Option("--seed", metavar="N", help="Seed of everything drawn. The same seed draws the same cases.")
]
JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Also write the run's record to FILE as JSON.")
]
JunitFile = Annotated[
    str | None, typer.Option("--junit", metavar="FILE", help="Also write the results to FILE as JUnit XML.")
]

DEFAULT_BUDGET = "60s"
DEFAULT_SEED = "0"
DEFAULT_DEVICE = "auto"

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 7 * 24 * 3600.0
_MAX_SEED = 2**63 - 1


def parse_budget(text: str, option: str = "--budget") -> float:
    """Seconds of "60s", "2m", "1.5h" or "90".

    Raises:
        UsageError: another form, nothing at all, or more than a week.
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST:
        raise UsageError(
            f"{option} is {text!r}; allowed: a time above 0 and up to 168h, in seconds ('60s' or '60'), minutes "
            "('2m') or hours ('1h')"
        )
    return seconds


def parse_integer(text: str, option: str, low: int, high: int) -> int:
    """An integer from ``low`` to ``high``, written in decimal digits.

    Raises:
        UsageError: another form, or outside the range.
    """
    value = int(text) if re.fullmatch(r"[+-]?[0-9]{1,20}", text) else None
    if value is None or not low <= value <= high:
        raise UsageError(f"{option} is {text!r}; allowed: an integer from {low} to {high}")
    return value


def parse_seed(text: str) -> int:
    """A seed: an integer from 0 to 2**63 - 1."""
    return parse_integer(text, "--seed", 0, _MAX_SEED)


def optional(parse: Callable[[str], T], text: str | None) -> T | None:
    """The value of an option, or None where it was not given."""
    return None if text is None else parse(text)


def parse_output(text: str, option: str) -> Path:
    """A file to be written, refused now rather than after minutes of work if it cannot be.

    Raises:
        UsageError: a folder, or a file in a folder that does not exist.
    """
    path = Path(text)
    if not text or path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{option} is {text!r}; allowed: a file in a folder that exists")
    return path
