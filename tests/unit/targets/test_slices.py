"""The layout-free slice contracts hold a writer that is right, and see each way of filling slices wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from kvproof.harness.devices.base import Availability
from kvproof.harness.run.trial import Trial, find_causes
from kvproof.harness.targets.contracts import all_contracts, all_properties
from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue

CASES = 40


@dataclass
class Writer:
    """A device whose kernels are a Python function over plain lists.

    Attributes:
        write: called with the arguments and ``put(buffer, cell, row)``.
    """

    write: Callable[..., None]
    name: str = "writer"

    def probe(self) -> Availability:
        return Availability(True, "plain Python")

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        assert kernel.contract
        after = {name: value.copy() for name, value in values.items() if isinstance(value, TensorValue)}
        plain = {name: value.array if isinstance(value, TensorValue) else value for name, value in values.items()}
        self.write(plain, lambda buffer, cell, row: after[buffer].array.__setitem__(cell, row))
        return after


def failures(contract: str, write: Callable[..., None]) -> list[str]:
    trial = Trial(all_contracts()[contract], Writer(write), all_properties()[contract], None, None, tolerated=True)
    hunt = find_causes(trial, budget_seconds=600, seed=0, case_target=CASES, most_causes=1, shrink_seconds=0.5)
    assert hunt.failures or trial.ran == CASES
    return [failure.failed.message for failure in hunt.failures]


def decode(a: Any, put: Any, *, skipped: int = 0, padded: bool = False) -> None:
    for t, sequence in enumerate(a["sequences"]):
        if sequence < 0 and not padded:
            continue
        count = min(int(a["positions"][t]) + 1, a["win"])
        for name in ("swa", "csa", "hca"):
            for i in range(skipped if name == "hca" else 0, count):
                put(f"{name}_indices", a[f"{name}_indptr"][t + 1] - count + i, i)


def csa(a: Any, put: Any, *, at_tail: bool = False) -> None:
    for t, sequence in enumerate(a["sequences"]):
        if sequence < 0:
            continue
        start, end = a["csa_indptr"][t], a["csa_indptr"][t + 1]
        window = min(int(a["positions"][t]) + 1, a["win"])
        for k in range(end - start - window):
            put("csa_indices", start + k + (window if at_tail else 0), a["window_rows"] + k)


def prefill(a: Any, put: Any, *, csa_at_head: bool = False, causal: bool = True, shifted: int = 0) -> None:
    # From the last token back, since what one spills into the next slice the next one would mend.
    for t, sequence in reversed(list(enumerate(a["sequences"]))):
        pos, start = int(a["positions"][t]), int(a["chunk_start"][sequence])
        low = max(pos - a["win"] + 1, 0)
        for i, p in enumerate(range(max(low, start), pos + 1)):
            put("extend_indices", a["extend_indptr"][t] + i, a["first_row"][sequence] + p - start + shifted)
        before = max(start - low, 0)
        for i in range(before):
            put("prefix_swa_indices", a["prefix_swa_indptr"][t] + i, i)
            put("prefix_hca_indices", a["prefix_hca_indptr"][t] + i, i)
            base = a["prefix_csa_indptr"][t] if csa_at_head else a["prefix_csa_indptr"][t + 1] - before
            put("prefix_csa_indices", base + i, i)
        committed = int(a["committed"][sequence])
        for k in range(min((pos + 1) // 128, committed) if causal else committed):
            put("prefix_hca_indices", a["prefix_hca_indptr"][t] + before + k, a["window_rows"] + k)


@pytest.mark.parametrize(
    ("contract", "write"), [("decode_slices", decode), ("csa_slices", csa), ("prefill_slices", prefill)]
)
def test_a_writer_that_fills_its_parts_agrees(contract: str, write: Callable[..., None]) -> None:
    assert failures(contract, write) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("contract", "write", "words"),
    [
        ("decode_slices", lambda a, put: decode(a, put, skipped=1), "hca_indices element"),
        ("decode_slices", lambda a, put: decode(a, put, padded=True), "indices element"),
        ("csa_slices", lambda a, put: csa(a, put, at_tail=True), "csa_indices element"),
        ("prefill_slices", lambda a, put: prefill(a, put, csa_at_head=True), "prefix_csa_indices element"),
        ("prefill_slices", lambda a, put: prefill(a, put, causal=False), "prefix_hca_indices element"),
        ("prefill_slices", lambda a, put: prefill(a, put, shifted=1), "extend_indices element 0"),
    ],
)
def test_each_way_of_filling_them_wrongly_is_found(contract: str, write: Callable[..., None], words: str) -> None:
    (message,) = failures(contract, write)
    assert words in message
