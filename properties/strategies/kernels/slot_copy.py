"""Cases of the slot copy."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from kvproof.kernels.launch import cdiv
from kvproof.kernels.shapes import SPAN_TILE_BYTES, shaped_for, span_sharers
from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty, poison, register_property
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low, shapes_for
from kvproof.properties.strategies.tokens import taken

FAR = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**62).map(lambda back: 2**63 - 1 - back))
"""A number of a stale descriptor."""

MANY_SPANS = (1056, 4096)
"""Spans of which each is shared by two programs, and is copied by one."""

LONG = 2 * SPAN_TILE_BYTES + 1
"""Bytes of a cut of a long case, which has a span of several tiles."""

CHUNK = 4
"""Granules that the target is cut into; each copied span takes one cut or a part of it, so that they are apart."""


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A few spans between two buffers."""
    granule = draw(st.sampled_from([1, 16, 3, 8]))
    chunks, count = draw(seldom_low(1, 5)), draw(seldom_low(0, 4))
    seed = draw(st.integers(0, 2**16))
    long, shape = draw(rarely()), draw(shapes_for(*MANY_SPANS))
    cut = cdiv(LONG, granule) if long else CHUNK
    # Bytes behind the last whole granule belong to no span.
    rest = draw(seldom_low(0, granule - 1)) if granule > 1 and draw(mostly()) else 0
    size = chunks * cut * granule + rest
    events = {f"granule {granule}"}
    spans: list[list[int]] = []
    for target in taken(draw, range(chunks), count):
        length = draw(st.integers(cut - 3 if long else 0, cut))
        start = draw(st.integers(0, chunks * cut - length))
        spans.append([start, target * cut + draw(st.integers(0, cut - length)), length])
    events |= {"several spans"} if len(spans) > 1 else set()
    starts = [span[0] for span in spans]
    events |= {"sources in no order"} if starts != sorted(starts) else set()
    events |= {"empty span"} if any(span[2] == 0 for span in spans) else set()
    if spans and draw(mostly()):
        at, column = draw(st.sampled_from(range(len(spans)))), draw(st.sampled_from([0, 1, 2]))
        limit = chunks * cut
        spans[at][column] = draw(st.one_of(st.just(-1), st.just(limit + 1), st.integers(limit, limit + 9), FAR))
        # A length of one more than fits leaves the buffer by one granule.
        if column == 2 and draw(mostly()):
            spans[at][2] = limit - max(spans[at][0], spans[at][1]) + 1
        if not _copied(spans[at], limit):
            events.add("stale span")
        else:
            spans[at][2] = 0
    with shaped_for(shape):
        sharers = span_sharers(count, size)
    longest = max((s[2] * granule for s in spans if _copied(s, chunks * cut)), default=0)
    events |= {"several programs a span"} if sharers > 1 and longest > SPAN_TILE_BYTES else set()
    events |= {"several tiles a program"} if sharers * SPAN_TILE_BYTES < longest else set()
    source = contiguous("uint8", poison(2 * seed, "uint8", size))
    target = contiguous("uint8", poison(2 * seed + 1, "uint8", size))
    seeds = {"source": 2 * seed, "target": 2 * seed + 1}
    return Case(
        values={
            "source": source,
            "target": target,
            "spans": contiguous("int64", spans, (len(spans), 3)),
            "granule": granule,
        },
        poison=seeds,
        events=frozenset(events),
        shaped_for=shape,
    )


def _copied(span: list[int], limit: int) -> bool:
    return span[2] >= 0 and all(start >= 0 and start + span[2] <= limit for start in span[:2])


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which byte of which span it is."""
    source, target, length = (int(a.spans[at["i"], column]) for column in range(3))
    return f"byte {at['k']} of span {at['i']} (from {source} to {target}, {length} granules of {a.granule} bytes)"


register_property(
    KernelProperty(
        kernel="slot_copy",
        words="each span that lies in both buffers is copied, and nothing else changed",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "several spans": 20,
                "several programs a span": 2,
                "several tiles a program": 2,
                "sources in no order": 20,
                "stale span": 20,
                "empty span": 5,
                "granule 16": 5,
                "granule 1": 5,
            },
        ),
        explain=explain,
    )
)
