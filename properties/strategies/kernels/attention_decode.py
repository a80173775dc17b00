"""Cases of decode attention."""

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
    """A few tokens over a small plane; bf16 or packed as the configuration says, or either."""
    tokens = draw(seldom_low(0, 2))
    rows = draw(seldom_low(1, 12))
    seed = draw(st.integers(0, 2**16))
    packed = draw(st.booleans()) if subject is None else subject.kv == "fp8"
    variant = draw(st.sampled_from(sorted(FORMATS, reverse=True)))
    found = draw(listings(tokens, rows, 8 * seed))
    plane, rope, spoiled = draw(planes(found.listed, 8 * seed + 1, variant, packed=packed))
    asked = draw(queries(tokens, 8 * seed + 4))
    heads = asked["q"].shape[1]
    events = {
        "packed": packed,
        "one plane": not packed,
        "NaN in a listed row": spoiled,
        "rows that none lists": tokens > 0 and not found.listed.all(),
        "split": asked["splits"] > 1 and tokens > 0,
        "several tokens": tokens > 1,
        "head block not full": heads % 16 != 0,
    }
    return Case(
        values={
            **asked,
            "unified_kv": plane,
            "unified_kv_rope": rope,
            "kv_indices": contiguous("int32", found.entries),
            "kv_indptr": contiguous("int32", found.bounds),
            "variant": variant,
        },
        poison={"out": 8 * seed + 5},
        events=found.events
        | head_events(heads, packed=packed, listed=bool(found.listed.any()))
        | {name for name, happened in events.items() if happened},
    )


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which token, and what it lists."""
    t = at["t"]
    first, stop = (int(bound) for bound in slice_of(a.kv_indptr, t, a.total))
    shown = ", ".join(str(int(e)) for e in a.kv_indices[first : min(stop, first + 4)])
    more = ", .." if stop - first > 4 else ""
    return f"token {t} over {max(stop - first, 0)} entries ({shown}{more})"


register_property(
    KernelProperty(
        kernel="attention_decode",
        words="each result is within its bound of float64 attention over the rows listed; nothing else changed",
        cases=cases,
        needs=Needs(
            cases=60,
            events={
                "packed": 6,
                "one plane": 6,
                "dead entry": 8,
                "empty slice": 4,
                "several tiles": 6,
                "split": 8,
                "several tokens": 6,
                "NaN in a listed row": 2,
                "rows that none lists": 10,
                "short buffer": 2,
                "head block not full": 8,
                "many heads": 4,
                "many heads, packed": 2,
                "second block of heads": 1,
            },
        ),
        explain=explain,
    )
)
