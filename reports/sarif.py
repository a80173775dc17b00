"""SARIF: what code review tools show beside the line that a result is about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"FAIL": "error", "UNKNOWN": "warning", "UNSUPPORTED": "note"}


@dataclass(frozen=True)
class SarifResult:
    """One result.

    Attributes:
        rule: what was checked ("in bounds").
        status: FAIL, UNKNOWN or UNSUPPORTED.
        message: in words.
        places: (file relative to the checkout, line), the place itself first, then its callers.
    """

    rule: str
    status: str
    message: str
    places: tuple[tuple[str, int], ...]


def sarif_text(results: Sequence[SarifResult], version: str) -> str:
    """A SARIF 2.1.0 log of the results.

    Args:
        results: in any order.
        version: version of kvproof.
    """
    rules = list(dict.fromkeys(result.rule for result in results))
    driver = {
        "name": "kvproof",
        "version": version,
        "rules": [{"id": rule, "shortDescription": {"text": rule}} for rule in rules],
    }
    entries = [_entry(result, rules) for result in results]
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": entries}]}
    return json.dumps(log, indent=2) + "\n"


def _entry(result: SarifResult, rules: Sequence[str]) -> dict[str, Any]:
    locations = [_location(file, line) for file, line in result.places]
    entry: dict[str, Any] = {
        "ruleId": result.rule,
        "ruleIndex": rules.index(result.rule),
        "level": LEVELS.get(result.status, "none"),
        "message": {"text": result.message},
        "locations": locations[:1],
    }
    if locations[1:]:
        entry["relatedLocations"] = locations[1:]
    return entry


def _location(file: str, line: int) -> dict[str, Any]:
    # Lines count from 1; a place without one is the file's first.
    region = {"startLine": max(line, 1)}
    return {"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}
