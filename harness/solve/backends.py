"""The solvers there are, by name, each opened at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol

from kvproof.harness.solve.cvc5_backend import Cvc5Backend
from kvproof.harness.solve.isl_backend import IslBackend
from kvproof.harness.solve.query import Answer, Budget
from kvproof.harness.solve.smtlib import Script
from kvproof.harness.solve.z3_backend import Z3Backend


class Backend(Protocol):
    """A solver that reads SMT-LIB text.

    Attributes:
        name: short name ("z3").
        version: version of the solver that answers.
    """

    @property
    def name(self) -> str: ...

    version: str

    def solve(self, script: Script, budget: Budget) -> Answer:
        """Answer one query within the budget. Never raises for a query that the solver cannot decide."""
        ...


_OPEN: Mapping[str, Callable[[], Backend]] = {"z3": Z3Backend, "cvc5": Cvc5Backend, "isl": IslBackend}

SOLVERS = ("z3", "cvc5")
"""Names of the solvers that every proof is given to, in order of preference."""


KNOWN = tuple(_OPEN)
"""Names of all solvers; isl applies to linear questions only."""


class SolverAbsentError(RuntimeError):
    """A solver is not installed: what depends on it is NOT_RUN."""


@cache
def backend(name: str) -> Backend:
    """A solver by name.

    Raises:
        ValueError: no such solver.
        SolverAbsentError: its package is not installed.
    """
    if name not in _OPEN:
        raise ValueError(f"solver is {name!r}; allowed: {', '.join(KNOWN)}")
    try:
        return _OPEN[name]()
    except ImportError as error:
        package = {"z3": "z3-solver", "isl": "islpy"}.get(name, name)
        raise SolverAbsentError(f"solver {name} is not installed ({error}); pip install {package}") from error


def installed() -> Mapping[str, str]:
    """Version of each of :data:`SOLVERS` that can be opened here."""
    versions: dict[str, str] = {}
    for name in SOLVERS:
        try:
            versions[name] = backend(name).version
        except SolverAbsentError:
            continue
    return versions
