"""A finding: one fault, with the smallest input that shows it and what is needed to see it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FINDING_SCHEMA = 1
"""Version of the JSON form. Raised when a reader of the former one would misread it."""


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space: equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Finding:
    """One fault.

    Attributes:
        engine: what found it, and what replays it: "kernel" (a launch compared with its contract), "layout" (a
            statement on a concrete layout), "proof" (a solver's counterexample, replayed on the layout), "joint"
            (a whole forward), "target" (a launch of a target's function, in a worker).
        property_name: name of the property or statement.
        words: the property in words.
        subject: configuration or kernel that it was found on.
        case: the shrunk input as JSON values; whatever the engine needs to run it again.
        message: what went wrong, as rows and positions.
        expected, got: the two sides of the disagreement, as text.
        target, device: whose kernel and where it ran; device is empty for layouts.
        seed: seed of the run that met it.
        commit: commit of kvproof, empty outside a checkout.
        environment: versions and hardware by name.
    """

    engine: str
    property_name: str
    words: str
    subject: str
    case: Mapping[str, Any]
    message: str
    expected: str = ""
    got: str = ""
    target: str = "builtin"
    device: str = ""
    seed: int | None = None
    commit: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def id(self) -> str:
        """Twelve hex digits of a hash over what was found; the same fault on the same input has the same id."""
        key = [self.engine, self.property_name, self.subject, self.target, self.case]
        return hashlib.sha256(canonical_json(key).encode()).hexdigest()[:12]
