"""How a subcommand registers itself: ``@command("name")`` on a typer function in a module of commands/.

A command's module is imported whenever ``kvproof`` starts, so it imports engines, torch and solvers inside its
function only.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_commands: dict[str, Callable[..., Any]] = {}


def command(name: str) -> Callable[[F], F]:
    """Register the decorated function as ``kvproof NAME``. Its docstring is its help, example last.

    A name of two words ("ir check") is a subcommand of the first.
    """

    def add(function: F) -> F:
        if name in _commands:
            raise ValueError(f"command {name!r} is registered twice")
        _commands[name] = function
        return function

    return add


def all_commands() -> Mapping[str, Callable[..., Any]]:
    """Every subcommand by name, after importing each module of commands/ once."""
    package = importlib.import_module("kvproof.harness.cli.commands")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_commands.items()))
