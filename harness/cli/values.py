"""How the values of options are read: a wrong one is refused with the option, the value, and what is allowed.

The command line and the pytest plugin share this, so it imports nothing that takes time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kvproof.harness.cli.errors import UsageError

T = TypeVar("T")

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


def parse_seed(text: str, option: str = "--seed") -> int:
    """A seed: an integer from 0 to 2**63 - 1."""
    return parse_integer(text, option, 0, _MAX_SEED)


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
