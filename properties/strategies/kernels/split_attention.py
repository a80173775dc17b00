"""Cases of the split attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import INT32_MAX
from kvproof.models.scratch import CHUNKS, HEAD_DIM, ScratchPlan, dims, launch_tag
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty, poison, register_property
from kvproof.properties.strategies.draws import mostly, rarely, seldom_first, seldom_low


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A few tokens of one rank: v4-pro with few compressed keys, or v4.1-flash; keys around a chunk's end."""
    flash = draw(rarely())
    family, tp = ("v4.1-flash", 4) if flash else ("v4-pro", 8)
    topk = 512 if flash else draw(seldom_first([1, 63, 64, 65, 127, 128, 129, 192]))
    chunk = draw(st.sampled_from([0, *CHUNKS]))
    tokens = draw(seldom_low(1, 3))
    plan = ScratchPlan(dims(family, tp, topk), tokens, chunk or None)
    rows = draw(seldom_low(1, 6))
    seed = draw(st.integers(0, 2**16))
    lengths, events = draw(slice_lengths(plan, tokens))
    indptr = np.cumsum([draw(seldom_low(0, 2)), *lengths])
    indices = np.random.default_rng(seed).integers(0, rows, int(indptr[-1]))
    if draw(rarely()) and indices.size:
        at = draw(st.integers(0, indices.size - 1))
        indices[at] = draw(st.sampled_from([-1, rows, INT32_MAX, -(2**31)]))
        events.add("no such row")
    if chunk == 64 or plan.chunk == 64:
        events.add("chunks of 64")
    number = draw(st.integers(0, 2**40))
    scratch, stale = draw(scratches(plan, seed, number))
    events |= stale
    values: dict[str, Any] = {
        "q": contiguous("bf16", floats(seed, (tokens, plan.dims.heads, HEAD_DIM))),
        "kv": contiguous("bf16", floats(seed + 1, (rows, HEAD_DIM))),
        "kv_indices": contiguous("int32", indices),
        "kv_indptr": contiguous("int32", indptr),
        "attn_sink": contiguous("fp32", sinks(draw, plan.dims.heads)),
        "scratch": scratch,
        "out": contiguous("fp32", np.full((tokens, plan.dims.heads * HEAD_DIM), np.nan, np.float32)),
        "status": contiguous("int32", [0]),
        "scale": HEAD_DIM**-0.5,
        "family": family,
        "tp": tp,
        "topk": topk,
        "chunk": chunk,
        "launch_number": number,
        "concurrent": draw(st.booleans()),
    }
    events.add("stages in flight at once" if values["concurrent"] else "stage after stage")
    events |= {"several tokens"} if tokens > 1 else set()
    return Case(values, {}, frozenset(events))


@st.composite
def slice_lengths(draw: st.DrawFn, plan: ScratchPlan, tokens: int) -> tuple[list[int], set[str]]:
    """Keys of each token: around the end of a chunk, none, all, or more than the plan has chunks for."""
    keys, chunk = plan.dims.keys, plan.chunk
    lengths: list[int] = []
    events: set[str] = set()
    for _ in range(tokens):
        length = draw(seldom_first([0, 1, chunk - 1, chunk, chunk + 1, keys - 1, keys, keys + 3]))
        events |= {"no keys"} if length == 0 else set()
        events |= {"too many keys"} if length > keys else set()
        events |= {"several chunks"} if length > chunk else set()
        lengths.append(length)
    return lengths, events


@st.composite
def scratches(draw: st.DrawFn, plan: ScratchPlan, seed: int, number: int) -> tuple[TensorValue, set[str]]:
    """Scratch full of poison; often with flags that an earlier launch left, in front of that poison."""
    guard = 64
    storage = poison(seed, "uint8", plan.total_bytes + 2 * guard)
    value = TensorValue("uint8", storage, (plan.total_bytes,), (1,), guard)
    if not number or not draw(mostly()):
        return value, set()
    word = (launch_tag(number - 1) << 32) | 1
    for name in ("srdy", "crdy"):
        offset, nbytes = plan.layout[name]
        value.array[offset : offset + nbytes].view(np.int64)[...] = word
    return value, {"stale flags"}


def floats(seed: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint16]:
    """bf16 bits of normal numbers."""
    wide = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return (wide.view(np.uint32) >> 16).astype(np.uint16)


def sinks(draw: st.DrawFn, heads: int) -> npt.NDArray[np.float32]:
    """A logit a head: none, small, or so large that it takes all the weight."""
    return np.full(heads, draw(st.sampled_from([0.0, -np.inf, 1.5, 30.0])), np.float32)


def explain(a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """Which token it is."""
    if access.buffer != "out":
        return access.words
    t = at["t"]
    return f"token {t}, which attends to {int(a.kv_indptr[t + 1] - a.kv_indptr[t])} keys"


register_property(
    KernelProperty(
        kernel="split_attention",
        words="each output is the attention over the listed rows; of scratch only the stages' regions change",
        cases=cases,
        needs=Needs(
            cases=20,
            events={
                "several tokens": 4,
                "several chunks": 4,
                "no keys": 1,
                "too many keys": 1,
                "no such row": 1,
                "chunks of 64": 4,
                "stale flags": 4,
                "stages in flight at once": 4,
            },
        ),
        explain=explain,
        system="scratch",
    )
)
