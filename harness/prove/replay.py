"""A solver's model on the concrete specification: the same statement, the same models/, plain ints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kvproof.harness.check.choosers import ClaimFailed, JsonValue, ReplayChooser, Vacuous, check_case, json_value
from kvproof.harness.prove.explore import Path
from kvproof.harness.prove.subject import Subject
from kvproof.harness.prove.systems import described_subject
from kvproof.harness.solve.term import Value
from kvproof.models.errors import LayoutError
from kvproof.properties.statement import Statement, all_statements
from kvproof.reports.finding import Finding
from kvproof.reports.verdict import Status, Verdict


class Replayed(StrEnum):
    """What became of values on the concrete specification."""

    HOLDS = "holds"
    FAILS = "fails"
    OUTSIDE = "outside the statement"


@dataclass(frozen=True)
class Replay:
    """Outcome of a replay, with the failure's own words."""

    outcome: Replayed
    message: str = ""


def case_of(subject: Subject, path: Path, model: Mapping[str, Value]) -> dict[str, Any]:
    """A model as a case: sizes and choices as JSON values. What the query leaves free is 0."""
    values = {name: int(model.get(name, 0)) for name in path.names}
    return {
        "sizes": {name: values[name] for name in subject.sizes},
        "choices": {
            **{name: json_value(option) for name, option in path.picks.items()},
            **{name: value for name, value in values.items() if name not in subject.sizes},
        },
    }


def replay_case(subject: Subject, statement: Statement, case: Mapping[str, Any], slip: int = 0) -> Replay:
    """Run a statement on concrete values.

    Args:
        subject: what it speaks of.
        statement: the statement.
        case: "sizes" and "choices", as :func:`case_of` makes them.
        slip: 1 for the twin.
    """
    sizes: Mapping[str, int] = case["sizes"]
    choices: Mapping[str, JsonValue] = case["choices"]
    try:
        system = subject.build(sizes)
    except LayoutError as error:
        return Replay(Replayed.OUTSIDE, f"the layout is refused: {error}")
    try:
        check_case(statement.body, system, ReplayChooser(given=choices), slip)
    except Vacuous as error:
        return Replay(Replayed.OUTSIDE, str(error))
    except ClaimFailed as error:
        return Replay(Replayed.FAILS, str(error))
    return Replay(Replayed.HOLDS)


def replay_finding(finding: Finding) -> Verdict:
    """Run a proof's counterexample again: FAIL if the statement still fails there."""
    statements = all_statements()
    if finding.property_name not in statements:
        return Verdict(Status.UNKNOWN, f"there is no statement {finding.property_name!r} any more")
    try:
        statement = statements[finding.property_name]
        subject = described_subject(finding.case, statement.system)
        replay = replay_case(subject, statement, finding.case, finding.case.get("slip", 0))
    except (ValueError, TypeError, KeyError) as error:
        return Verdict(Status.UNKNOWN, f"the case does not fit the present statement: {error}")
    if replay.outcome is Replayed.FAILS:
        return Verdict(Status.FAIL, replay.message)
    if replay.outcome is Replayed.OUTSIDE:
        return Verdict(Status.UNKNOWN, f"the case is outside the present statement: {replay.message}")
    return Verdict(Status.PASS, bounds=("this case",))
