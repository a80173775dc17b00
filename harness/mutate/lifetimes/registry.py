"""The list of lifecycle faults, and how one is entered in it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvproof.harness.simulate.engine import Engine
from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.schedule import World
from kvproof.models.pool import ElasticPool, PrefixCache


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        field: which fault of the field it is an instance of; empty for those of this list alone.
        what: in words.
        world: pools with it.
    """

    field: str
    what: str
    world: World


_faults: dict[str, Fault] = {}


def plant(name: str, what: str, *, field: str = "", settings: Settings | None = None) -> Callable[[type], type]:
    """Enter a class with a fault: an engine, an executor, a pool or a prefix cache."""

    def add(cls: type) -> type:
        options: dict[str, Any] = {}
        if issubclass(cls, Engine):
            options["engine"] = cls
        else:
            part = next(
                key
                for key, base in (("executor", Executor), ("pool", ElasticPool), ("cache", PrefixCache))
                if issubclass(cls, base)
            )
            options["parts"] = {part: cls}
        if settings is not None:
            options["settings"] = settings
        _faults[name] = Fault(field, what, World(**options))
        return cls

    return add


def all_faults() -> Mapping[str, Fault]:
    """Every fault by name."""
    for module in ("executor_faults", "host_faults"):
        importlib.import_module(f"{__package__}.{module}")
    return _faults
