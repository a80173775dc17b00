"""Fused compression over whole sequences: chunks, drafts taken back, and the specification by plain loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.harness.devices.interpret import InterpretDevice
from kvproof.kernels.compress_plans.spec import compress_rows, write_rows
from kvproof.kernels.fused_compress.kernel import fused_compress_attn
from kvproof.kernels.fused_compress.spec import entries
from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import bind, contiguous, settle
from kvproof.models.floats import to_bf16
from kvproof.models.packed_row import WIDTH

DEVICE = InterpretDevice()
KERNEL = all_kernels()["fused_compress"]
Rows = npt.NDArray[np.float32]


@dataclass
class Request:
    """One request of one compress class, fed forward by forward through the kernels.

    Attributes:
        drafts: drafts a step; the ring has so many positions more, and the write plan keeps so many more rows.
        kept_drafts: what the write plan is told instead, where that is the fault.
    """

    ratio: int
    overlap: bool
    tokens: int
    drafts: int = 0
    kept_drafts: int | None = None
    packed: bool = False
    pool: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        width = self.ratio * (2 if self.overlap else 1)
        self.dim = WIDTH * (2 if self.overlap else 1)
        self.ring = width + self.drafts
        rng = np.random.default_rng(5)
        self.kv, self.score = (rng.standard_normal((self.tokens, self.dim), np.float32) for _ in range(2))
        self.ape = rng.standard_normal((self.ratio, self.dim), np.float32)
        # What a slot's last owner left: never to be pooled.
        self.states = [np.full((2, self.ring, self.dim), np.nan, np.float32) for _ in range(2)]
        angle = rng.uniform(-3, 3, (self.tokens, 32))
        self.cos, self.sin = to_bf16(np.cos(angle)), to_bf16(np.sin(angle))
        blocks = self.tokens // self.ratio // 2 + 1
        self.table = rng.permutation(blocks)
        rows = blocks * 3
        self.pool = {
            "pool": contiguous("uint8" if self.packed else "bf16", np.zeros((rows, WIDTH))),
            "pool_rope": contiguous("bf16", np.zeros((rows, 64))) if self.packed else None,
        }

    def arguments(self, first: int, rows: Rows, scores: Rows) -> dict[str, Any]:
        """One forward's compression: tokens from position ``first`` on."""
        plan = compress_rows([len(rows)], [first + len(rows)], self.ratio, self.overlap)
        return {
            "kv": contiguous("fp32", rows, rows.shape),
            "score": contiguous("fp32", scores, rows.shape),
            "ape": contiguous("fp32", self.ape, self.ape.shape),
            "kv_state": contiguous("fp32", self.states[0], self.states[0].shape),
            "score_state": contiguous("fp32", self.states[1], self.states[1].shape),
            "compress_plan": contiguous("int32", np.array(plan).reshape(-1, 4), (len(plan), 4)),
            "state_slot_mapping": contiguous("int32", [1]),
            "rms_weight": contiguous("fp32", np.linspace(0.5, 1.5, WIDTH)),
            "cos": contiguous("bf16", self.cos, self.cos.shape),
            "sin": contiguous("bf16", self.sin, self.sin.shape),
            "block_tables": contiguous("int32", self.table, (1, len(self.table))),
            **self.pool,
            "envelope_rows": 3,
            "block_rows": 2,
            "blocks": len(self.table),
            "ratio": self.ratio,
            "overlap": self.overlap,
            "rms_eps": 1e-6,
            "variant": "ocp",
        }

    def forward(self, first: int, rows: Rows, scores: Rows) -> None:
        """Compress what these tokens complete, then keep them in the ring."""
        after = DEVICE.run(KERNEL, self.arguments(first, rows, scores))
        self.pool = {name: after.get(name) for name in self.pool}
        kept = self.drafts if self.kept_drafts is None else self.kept_drafts
        plan = write_rows([len(rows)], [first + len(rows)], self.ratio, self.overlap, kept)
        for ragged, _, pos, _ in plan:
            self.states[0][1, pos % self.ring] = rows[ragged]
            self.states[1][1, pos % self.ring] = scores[ragged] + self.ape[pos % self.ratio]

    def feed(self, *chunks: int) -> Request:
        """All tokens, in chunks of these sizes; what is left over is one more."""
        first = 0
        for size in (*chunks, self.tokens - sum(chunks)):
            if size:
                self.forward(first, self.kv[first : first + size], self.score[first : first + size])
            first += size
        return self

    def bits(self) -> list[Any]:
        """The pool as it is."""
        return [value.array.copy() for value in self.pool.values() if value is not None]


def same(one: Request, other: Request) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.bits(), other.bits(), strict=True))


@pytest.mark.parametrize("split", range(1, 17))
def test_a_chunk_may_be_split_anywhere(split: int) -> None:
    """CSA: every split of 17 tokens, inside groups and between, gives the bits of the whole."""
    assert same(Request(4, True, 17).feed(split), Request(4, True, 17).feed())


@pytest.mark.parametrize("chunks", [(1,) * 9, (3, 1, 4, 1), (8, 8), (7, 2)], ids=str)
def test_a_prefill_may_come_in_any_chunks(chunks: Sequence[int]) -> None:
    assert same(Request(4, True, 20, packed=True).feed(*chunks), Request(4, True, 20, packed=True).feed())


@pytest.mark.parametrize("chunks", [(200,), (127, 1, 1, 130), (128, 128)], ids=str)
def test_hca_groups_of_128_in_chunks(chunks: Sequence[int]) -> None:
    assert same(Request(128, False, 260).feed(*chunks), Request(128, False, 260).feed())


def test_each_entry_is_in_its_row_and_nothing_else_is() -> None:
    request = Request(4, True, 17).feed()
    written = {int(request.table[e // 2]) * 3 + e % 2 for e in range(17 // 4)}
    assert set(np.flatnonzero(request.bits()[0].any(axis=1)).tolist()) == written


# F19: a verify step of more tokens than a group, of which only some are accepted, then a compression.


def verified(ratio: int, accepted: int, drafts: int, kept: int | None = None) -> tuple[Request, Request]:
    """(a request that verified ``drafts`` drafts and took back all but ``accepted``, one that never had them)."""
    first = 8
    straight = Request(ratio, True, 20, drafts).feed(first, 1 + accepted, 1)
    rolled = Request(ratio, True, 20, drafts, kept)
    rolled.forward(0, rolled.kv[:first], rolled.score[:first])
    step = slice(first, first + 1 + drafts)
    wrong = rolled.kv[step].copy(), rolled.score[step].copy()
    for draft in wrong:
        draft[1 + accepted :] = 9.0  # drafts that will be rejected
    rolled.forward(first, *wrong)
    at = first + 1 + accepted
    for size in (1, rolled.tokens - at - 1):
        rolled.forward(at, rolled.kv[at : at + size], rolled.score[at : at + size])
        at += size
    return rolled, straight


@pytest.mark.parametrize("ratio", [2, 4])
@pytest.mark.parametrize("accepted", range(8))
def test_drafts_that_are_taken_back_leave_no_trace(ratio: int, accepted: int) -> None:
    assert same(*verified(ratio, accepted, drafts=7))


def test_a_write_plan_that_keeps_too_few_rows_is_seen() -> None:
    """A plan that keeps the last K rows, as if no draft were taken back: K = 4 and a step of 5 tokens show it."""
    failing = [
        (drafts, accepted)
        for drafts in range(1, 6)
        for accepted in range(drafts + 1)
        if not same(*verified(2, accepted, drafts, kept=0))
    ]
    assert min(failing) == (4, 0)


# ---- the specification --------------------------------------------------


def one_entry(request: Request, pos: int) -> list[float]:
    """An entry in plain floats, from the request's own tokens."""
    k = request.ratio * (2 if request.overlap else 1)
    pooled: list[float] = []
    for column in range(WIDTH):
        terms: list[tuple[float, float]] = []
        for p in range(max(0, pos - k + 1), pos + 1):
            at = column + (WIDTH if request.overlap and p > pos - request.ratio else 0)
            score = float(request.score[p, at] + request.ape[p % request.ratio, at])
            terms.append((math.exp(score), float(request.kv[p, at])))
        pooled.append(math.fsum(w * v for w, v in terms) / math.fsum(w for w, _ in terms))
    size = math.sqrt(math.fsum(x * x for x in pooled) / WIDTH + 1e-6)
    weights = np.linspace(0.5, 1.5, WIDTH).astype(np.float32).tolist()
    normed = [x / size * w for x, w in zip(pooled, weights, strict=True)]
    start = pos - pos % request.ratio
    cos, sin = (
        torch.from_numpy(t[start].view(np.int16)).view(torch.bfloat16).double().tolist()
        for t in (request.cos, request.sin)
    )
    for pair in range(32):
        x, y = normed[448 + 2 * pair], normed[449 + 2 * pair]
        normed[448 + 2 * pair] = x * cos[pair] - y * sin[pair]
        normed[449 + 2 * pair] = y * cos[pair] + x * sin[pair]
    return normed


@pytest.mark.parametrize(("ratio", "overlap"), [(4, True), (4, False), (16, False)])
def test_the_specification_agrees_with_plain_loops(ratio: int, overlap: bool) -> None:
    request = Request(ratio, overlap, 2 * ratio)
    case = request.arguments(0, request.kv, request.score)
    found = entries(bind(KERNEL.contract, case), np.array([0, 1]))
    for row, pos in enumerate((ratio - 1, 2 * ratio - 1)):
        assert found.exact[row] == pytest.approx(one_entry(request, pos), rel=1e-9, abs=1e-12)
    # fp32 arithmetic alone: the bound is far below a bf16 step.
    assert (found.error < 2.0**-10 * (1 + np.abs(found.exact))).all()


def test_a_packed_row_must_be_well_formed() -> None:
    request = Request(4, True, 8, packed=True)
    case = request.arguments(0, request.kv, request.score)
    after = DEVICE.run(KERNEL, case)
    arguments = bind(KERNEL.contract, case)

    def accepted(change: Any) -> bool:
        got: dict[str, Any] = {name: value.copy() for name, value in after.items()}
        change(got["pool"].array)
        expected = {"pool": case["pool"].copy(), "pool_rope": case["pool_rope"].copy()}
        settle(KERNEL.contract, arguments, expected, got)
        return np.array_equal(expected["pool"].array, got["pool"].array)

    row = int(request.table[0]) * 3

    def second_scale_differs(pool: Any) -> None:
        pool[row, 449] += 1

    def padding_is_not_zero(pool: Any) -> None:
        pool[row, 511] = 1

    def another_scale_and_codes_to_match(pool: Any) -> None:
        pool[row, 448:450] += 1
        pool[row, :64] -= 8

    assert accepted(np.ndarray.copy)
    assert not accepted(second_scale_differs)
    assert not accepted(padding_is_not_zero)
    assert not accepted(another_scale_and_codes_to_match)


# ---- the launcher -------------------------------------------------------


def good() -> dict[str, Any]:
    bf16 = torch.bfloat16
    return {
        "kv": torch.zeros(3, 1024),
        "score": torch.zeros(3, 1024),
        "ape": torch.zeros(4, 1024),
        "kv_state": torch.zeros(2, 9, 1024),
        "score_state": torch.zeros(2, 9, 1024),
        "compress_plan": torch.zeros(0, 4, dtype=torch.int32),
        "state_slot_mapping": torch.zeros(2, dtype=torch.int32),
        "rms_weight": torch.zeros(512),
        "cos": torch.zeros(16, 32, dtype=bf16),
        "sin": torch.zeros(16, 32, dtype=bf16),
        "block_tables": torch.zeros(2, 4, dtype=torch.int32),
        "pool": torch.zeros(8, 512, dtype=bf16),
        "envelope_rows": 4,
        "block_rows": 2,
        "blocks": 2,
        "ratio": 4,
        "overlap": True,
        "rms_eps": 1e-6,
    }


def test_the_launcher_takes_what_it_should() -> None:
    fused_compress_attn(**good())
    view = torch.zeros(2, 12, 1024)[:, :9]
    fused_compress_attn(**{**good(), "kv_state": view, "kv": torch.zeros(3, 2048)[:, :1024]})


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("kv", torch.zeros(3, 512), ValueError, "kv must have shape"),
        ("kv", torch.zeros(3, 1024, dtype=torch.int32), TypeError, "kv must be float32"),
        ("kv_state", torch.zeros(2, 7, 1024), ValueError, "score_state must have shape"),
        ("ratio", 3, ValueError, "ratio must be a power of two, got 3"),
        ("ratio", 0, ValueError, "ratio must be an integer from 1"),
        ("compress_plan", torch.zeros(1, 3, dtype=torch.int32), ValueError, "compress_plan must have shape"),
        ("block_rows", 5, ValueError, "block_rows must be an integer from 1 to 4"),
        ("cos", torch.zeros(32, 16, dtype=torch.bfloat16).T, ValueError, "cos and sin must have"),
        ("pool", torch.zeros(8, 512), TypeError, "pool must be bfloat16"),
        ("pool", torch.zeros(1, 512, dtype=torch.bfloat16).expand(8, 512), ValueError, "overlap"),
        ("pool_rope", torch.zeros(8, 64, dtype=torch.bfloat16), TypeError, "pool must be uint8"),
        ("variant", "e5m2", ValueError, "variant must be one of"),
    ],
)
def test_the_launcher_refuses(name: str, value: Any, error: type[Exception], message: str) -> None:
    arguments: Mapping[str, Any] = {**good(), name: value}
    with pytest.raises(error, match=message):
        fused_compress_attn(**arguments)


def test_a_ring_shorter_than_an_entry_is_refused() -> None:
    short = {name: torch.zeros(2, 7, 1024) for name in ("kv_state", "score_state")}
    with pytest.raises(ValueError, match="at least 8 ring positions"):
        fused_compress_attn(**{**good(), **short})
