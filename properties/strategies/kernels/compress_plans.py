"""Cases of the compress and write plans."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from kvproof.kernels.compress_plans.spec import compress_rows, write_rows
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty, poison, register_property
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A few sequences, of some nothing new. A configuration changes nothing: the classes are the same in all."""
    ratio, overlap = draw(st.sampled_from([(CSA_RATIO, True), (HCA_RATIO, False), (1, False), (3, True)]))
    width = pooled(ratio, overlap)
    drafts = draw(seldom_low(0, 7)) if draw(rarely()) else 0
    extend: list[int] = []
    context: list[int] = []
    for _ in range(draw(seldom_low(0, 4))):
        long = draw(rarely())
        new = draw(st.sampled_from([width - 1, width, width + 1, 2 * width + 1]) if long else seldom_low(0, 8))
        before = draw(st.one_of(st.integers(0, 2 * width + 1), st.sampled_from([ratio - 1, width, 2**20])))
        extend.append(new)
        context.append(new + before)
    counts = (
        len(compress_rows(extend, context, ratio, overlap)),
        len(write_rows(extend, context, ratio, overlap, drafts)),
    )
    spare = [draw(seldom_low(0, 3)) if draw(mostly()) else 0 for _ in counts]
    seed = draw(st.integers(0, 2**16))
    names = ("compress_plan", "write_plan")
    seeds = {name: 2 * seed + n for n, name in enumerate(names)}
    sizes = {name: (count + more, 4) for name, count, more in zip(names, counts, spare, strict=True)}
    found = {
        "completes": counts[0] > 0,
        "padding": any(spare),
        "fewer kept than new": counts[1] < sum(extend),
        "nothing new of one": 0 in extend and any(extend),
        "several sequences": len(extend) > 1,
        "resumed": any(c > e > 0 for e, c in zip(extend, context, strict=True)),
        "drafts": drafts > 0,
        "overlap": overlap,
    }
    return Case(
        values={
            "extend_lens": contiguous("int32", extend),
            "context_lens": contiguous("int32", context),
            **{n: contiguous("int32", poison(seeds[n], "int32", s[0] * 4), s) for n, s in sizes.items()},
            "ratio": ratio,
            "overlap": overlap,
            "draft_tokens": drafts,
        },
        poison=seeds,
        events=frozenset(name for name, happened in found.items() if happened),
    )


def explain(a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """Which plan row it is."""
    lengths = f"new tokens {a.extend_lens.tolist()}, lengths {a.context_lens.tolist()}"
    return f"row {at['i']} of {access.buffer} ({lengths})"


register_property(
    KernelProperty(
        kernel="compress_plans",
        words="the plans list each new token that completes a group or may be pooled later, and -1 behind them",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "completes": 30,
                "padding": 30,
                "fewer kept than new": 10,
                "nothing new of one": 3,
                "several sequences": 20,
                "resumed": 20,
                "drafts": 5,
                "overlap": 20,
            },
        ),
        explain=explain,
    )
)
