"""Cases of prefill attention."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from kvproof.kernels.attention_decode.spec import slice_of
from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.packed_row import FORMATS
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.attention import head_events, listings, planes, queries
from kvproof.properties.strategies.cases import Case, KernelProperty, register_property
from kvproof.properties.strategies.draws import seldom_low


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """A few tokens over a small plane and a few new rows."""
    tokens = draw(seldom_low(0, 2))
    rows, new = draw(seldom_low(1, 8)), draw(seldom_low(1, 8))
    seed = draw(st.integers(0, 2**16))
    packed = draw(st.booleans()) if subject is None else subject.kv == "fp8"
    variant = draw(st.sampled_from(sorted(FORMATS, reverse=True)))
    sources = draw(st.sampled_from(["both", "both", "both", "pool", "new"]))
    old = draw(listings(tokens, rows, 16 * seed, empty=sources == "new"))
    plane, rope, spoiled = draw(planes(old.listed, 16 * seed + 1, variant, packed=packed))
    own = draw(listings(tokens, new, 16 * seed + 8, empty=sources == "pool"))
    kv, _, spoiled_new = draw(planes(own.listed, 16 * seed + 9, variant, packed=False))
    asked = draw(queries(tokens, 16 * seed + 4))
    events = {
        "packed": packed,
        "one plane": not packed,
        "NaN in a listed row": spoiled or spoiled_new,
        "rows that none lists": tokens > 0 and not (old.listed.all() and own.listed.all()),
        "split": asked["splits"] > 1 and tokens > 0,
        "several tokens": tokens > 1,
        "dead entry": "dead entry" in old.events | own.events,
        "both sources": bool(old.listed.any() and own.listed.any()),
        "only the pool": bool(old.listed.any() and not own.listed.any()),
        "only new rows": bool(own.listed.any() and not old.listed.any()),
        "several tiles": "several tiles" in old.events | own.events,
    }
    return Case(
        values={
            **asked,
            "unified_kv": plane,
            "unified_kv_rope": rope,
            "kv_indices": contiguous("int32", old.entries),
            "kv_indptr": contiguous("int32", old.bounds),
            "kv": kv,
            "extend_indices": contiguous("int32", own.entries),
            "extend_indptr": contiguous("int32", own.bounds),
            "variant": variant,
        },
        poison={"out": 16 * seed + 5},
        events=head_events(
            asked["q"].shape[1], packed=packed, listed=bool(old.listed.any() or own.listed.any())
        ).union(name for name, happened in events.items() if happened),
    )


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which token, and how many entries it has in each source."""
    t = at["t"]
    old = slice_of(a.kv_indptr, t, a.total)
    new = slice_of(a.extend_indptr, t, a.extend_total)
    sizes = [max(int(stop) - int(first), 0) for first, stop in (old, new)]
    return f"token {t} over {sizes[0]} entries of the pool and {sizes[1]} new rows"


register_property(
    KernelProperty(
        kernel="attention_prefill",
        words="each result is within its bound of float64 attention over both sources; nothing else changed",
        cases=cases,
        needs=Needs(
            cases=60,
            events={
                "packed": 6,
                "one plane": 6,
                "dead entry": 8,
                "several tiles": 6,
                "split": 8,
                "several tokens": 8,
                "both sources": 8,
                "only the pool": 3,
                "only new rows": 3,
                "NaN in a listed row": 2,
                "rows that none lists": 6,
                "many heads": 4,
                "many heads, packed": 2,
                "second block of heads": 1,
            },
        ),
        explain=explain,
    )
)
