"""The package's own layout types: the fields are the ABI's, the classes are not kvproof's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Window:
    """Where the window rows of one class lie in a slot."""

    ring_start: int
    slot_rows: int
    ring_slots: int
    ring_stride: int
    run_rows: int
