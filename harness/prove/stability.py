"""Whether proofs are luck: the same obligations with other seeds and other orders of assertions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvproof.harness.prove.certificates import Lock
from kvproof.harness.prove.locked import Pair, Setting, prove_locked
from kvproof.reports.verdict import Status

SPREAD = 20.0
"""An obligation whose resource units differ by more than this factor between seeds is called uneven."""

SMALL = 20_000
"""Resource units below which a spread does not matter."""


@dataclass(frozen=True)
class Instability:
    """A proof that depends on the seed.

    Attributes:
        subject, statement: which.
        words: what differs.
        outcome: the verdict itself differs; otherwise only the work does.
    """

    subject: str
    statement: str
    words: str
    outcome: bool


def reseeded(pairs: Sequence[Pair], setting: Setting, seeds: int) -> Iterator[Instability]:
    """Prove everything once a seed, each time with the assertions in another order.

    Args:
        pairs: subjects with statements.
        setting: how; its seed and order are replaced.
        seeds: how many.
    """
    verdicts: dict[tuple[str, str], dict[int, str]] = {}
    work: dict[tuple[str, str], dict[int, int]] = {}
    for seed in range(1, seeds + 1):
        varied = replace(setting, budget=replace(setting.budget, seed=seed), everything=True, shuffle=seed)
        for proved in prove_locked(pairs, Lock(), varied):
            key = proved.result.subject, proved.result.property_name
            verdicts.setdefault(key, {})[seed] = proved.result.verdict.status.value
            units = sum(sum(c.resources.values()) for c in proved.certificates.values())
            work.setdefault(key, {})[seed] = units
    for (subject, statement), by_seed in verdicts.items():
        if set(by_seed.values()) != {Status.PASS.value}:
            told = ", ".join(f"seed {seed}: {verdict}" for seed, verdict in by_seed.items())
            yield Instability(subject, statement, told, outcome=True)
        units = work[subject, statement]
        least, most = min(units.values()), max(units.values())
        if most > SMALL and most > SPREAD * max(least, 1):
            yield Instability(subject, statement, f"from {least:,} to {most:,} resource units", outcome=False)
