"""``kvproof.toml``: what fails a night or a pull request, and from which size on a difference counts."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kvproof.harness.cli.errors import UsageError

FILE = "kvproof.toml"
STATES = ("FAIL", "UNKNOWN", "UNSUPPORTED", "NOT_RUN", "SLOWER", "AMBIGUOUS")


@dataclass(frozen=True)
class Policy:
    """The tables ``[bench]`` and ``[nightly]`` of the file.

    Attributes:
        relevance: smallest difference of a GPU's time that counts, as a share.
        cpu_relevance: the same of a CPU's time.
        count_relevance: the same of what is counted.
        alpha, family: as in ``Limits``.
        last: commits whose steps count tonight.
        fail_on: what fails the night or the gate.
        request_steps: of a night's simulation.
        longest: seconds that the long tests may take.
        alike: seconds in which CPU series are compared with themselves, so that the gate knows their noise.
    """

    relevance: float = 0.01
    cpu_relevance: float = 0.05
    count_relevance: float = 0.01
    alpha: float = 0.001
    family: float = 0.01
    last: int = 10
    fail_on: tuple[str, ...] = ("FAIL", "SLOWER")
    request_steps: int = 1_000_000
    longest: int = 4 * 3600
    alike: int = 600


_TABLES = {
    "bench": ("relevance", "cpu_relevance", "count_relevance", "alpha", "family"),
    "nightly": ("last", "fail_on", "request_steps", "longest", "alike"),
}


def read_policy(path: Path | None = None) -> Policy:
    """The policy of the file in the working directory; the defaults without one.

    Raises:
        UsageError: something in it that no policy has, or a value out of range.
    """
    path = path or Path(FILE)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Policy()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    given: dict[str, Any] = {}
    for table, values in data.items():
        if table not in _TABLES or not isinstance(values, dict):
            raise UsageError(f"{path}: table {table!r}; allowed: {', '.join(_TABLES)}")
        for name, value in values.items():
            if name not in _TABLES[table]:
                raise UsageError(f"{path}: {table}.{name}; allowed: {', '.join(_TABLES[table])}")
            given[name] = _checked(f"{path}: {table}.{name}", name, value)
    return Policy(**given)


def _checked(where: str, name: str, value: Any) -> Any:
    if name == "fail_on":
        if not isinstance(value, list) or not all(item in STATES for item in value):
            raise UsageError(f"{where} is {value!r}; allowed: a list of {', '.join(STATES)}")
        return tuple(value)
    if name in {"last", "request_steps", "longest", "alike"}:
        if type(value) is not int or value < 1:
            raise UsageError(f"{where} is {value!r}; allowed: an integer from 1 on")
        return value
    if type(value) not in (int, float) or not 0 < value < 1:
        raise UsageError(f"{where} is {value!r}; allowed: a number between 0 and 1")
    return float(value)


POLICY_KEYS = tuple(item.name for item in fields(Policy))
