"""What a simulation raises."""

from __future__ import annotations

from typing import Any


class Broken(AssertionError):  # noqa: N818  (reads as what happened)
    """Something does not hold.

    Attributes:
        check: which check: "window", "entries", "state", "draft window", "ownership", "leak", "liveness" ...
        message: what went wrong.
        facts: pool, plane, row, wanted, got, writer and step, where they are known.
    """

    def __init__(self, check: str, message: str, **facts: Any) -> None:
        self.check, self.message, self.facts = check, message, facts
        super().__init__(f"{check}: {message}")
