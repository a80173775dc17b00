"""Whether a check finds a planted fault: by proof, and by drawing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kvproof.harness.check.choosers import ClaimFailed, DrawChooser, check_case
from kvproof.harness.mutate.layouts import MutantLayouts
from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.replay import Replayed, replay_case
from kvproof.harness.prove.statement_proof import StatementProof, prove_statement
from kvproof.harness.run.exploration import Shrinking, explore
from kvproof.harness.solve.backends import backend
from kvproof.models.errors import LayoutError
from kvproof.properties.statement import Statement
from kvproof.properties.strategies.geometry import geometries, geometry_json


@dataclass(frozen=True)
class Drawn:
    """A drawn case in which a statement fails on a faulty layout.

    Attributes:
        system: arguments of the layout.
        values: chosen values.
        message: what failed.
        cases: cases drawn until the first failure.
    """

    system: dict[str, Any]
    values: dict[str, Any]
    message: str
    cases: int


@dataclass
class PlainDrawChooser(DrawChooser):
    """Draws each value for itself. On small layouts that is enough, and what is found shrinks all the way."""

    def _integer(self, name: str, low: int, high: int, few: int) -> int:  # noqa: ARG002
        return self.draw(st.integers(low, few))


def prove_mutant(mutant: MutantLayouts, statement: Statement, config: str, solver: str = "z3") -> StatementProof:
    """Try to prove a statement of a real configuration with the faulty layout."""
    return prove_statement(mutant.subject(config, statement.system), statement, Solvers([backend(solver)]))


def counterexample_fails(mutant: MutantLayouts, statement: Statement, config: str, proof: StatementProof) -> bool:
    """Whether each finding of a failed proof fails on the concrete faulty layout; False if there is none."""
    subject = mutant.subject(config, statement.system)
    replays = [replay_case(subject, statement, finding.case) for finding in proof.findings]
    return bool(replays) and all(replay.outcome is Replayed.FAILS for replay in replays)


def draw_mutant(
    mutant: MutantLayouts,
    statement: Statement,
    *,
    systems: st.SearchStrategy[dict[str, Any]] | None = None,
    seed: int = 0,
    case_target: int = 10_000,
    seconds: float = 60.0,
) -> Drawn | None:
    """Draw systems and values until a statement fails on the faulty layout, and shrink; None if it never does.

    Args:
        mutant: the faulty layout.
        statement: the statement.
        systems: arguments of layouts; by default of any.
        seed, case_target, seconds: of the run. Shrinking comes on top.
    """
    drawn_systems = geometries().map(geometry_json) if systems is None else systems

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        arguments = data.draw(drawn_systems)
        try:
            system = mutant.geometry(**arguments)
        except LayoutError:
            return ()
        chooser = PlainDrawChooser(draw=data.draw)
        try:
            check_case(statement.body, system, chooser)
        except ClaimFailed as failure:
            raise shrinking.failed((arguments, failure.values, str(failure))) from failure
        return chooser.events

    found = explore(trial, budget_seconds=seconds, seed=seed, case_target=case_target)
    return None if found.failure is None else Drawn(*found.failure, cases=found.cases)
