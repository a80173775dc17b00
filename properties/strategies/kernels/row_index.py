"""Cases of the row formulas."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import HEAD_DIM, ModelConfig
from kvproof.models.index import INT32_MAX
from kvproof.models.row_space import ABSENT_RATIO, CLASS_NAMES
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.batches import STALE
from kvproof.properties.strategies.cases import Case, KernelProperty, poison, register_property
from kvproof.properties.strategies.draws import mostly, now_and_then, seldom_low
from kvproof.properties.strategies.geometry import geometries, geometry_json, real_geometries

PROGRAM = 128
"""Elements of a program."""

OUTPUTS = ("window_rows", "compress_rows", "offsets")


def ids(below: int) -> st.SearchStrategy[int]:
    """An id: mostly a valid one, else any 32-bit value."""
    return mostly().flatmap(lambda valid: st.integers(0, max(below - 1, 0)) if valid else STALE)


def repeated(few: list[int], count: int) -> list[int]:
    """``count`` values, of which the last are ``few``: those before repeat them, turned by one place each time."""
    size = len(few)
    turned = [few[(at + at // size) % size] for at in range(count - size)]
    return [*turned, *few]


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """Some rows of one layer of a row space."""
    geometry = draw(geometries() if subject is None else real_geometries(subject))
    layer = draw(st.sampled_from([i for i, r in enumerate(geometry.ratios) if r != ABSENT_RATIO]))
    ratio = geometry.ratios[layer]
    few = draw(seldom_low(1, 6))
    n = few + (PROGRAM if draw(now_and_then()) else 0)
    # A RoPE row, an uneven row and single elements; the ordinary row is what a case shrinks to.
    row_stride = draw(st.sampled_from([HEAD_DIM, 64, 577, 1]))
    limits = {
        "slots": geometry.slot_positions,
        "positions": 4 * geometry.ring_slots,
        "blocks": geometry.num_blocks,
        "block_rows": geometry.class_rows[ratio].block_rows,
        "plane_rows": INT32_MAX,
    }
    columns = {name: repeated([draw(ids(below)) for _ in range(few)], n) for name, below in limits.items()}
    seed = draw(st.integers(0, 2**16))
    seeds = {name: 3 * seed + k for k, name in enumerate(OUTPUTS)}
    sentinel = any(v < 0 for name, values in columns.items() if name != "plane_rows" for v in values)
    wraps = any(v * row_stride > INT32_MAX for v in columns["plane_rows"])
    return Case(
        values={
            **{name: contiguous("int32", values) for name, values in columns.items()},
            **{name: contiguous("int64", poison(s, "int64", n)) for name, s in seeds.items()},
            "window": geometry.window_params(ratio),
            "envelope_rows": geometry.envelope_rows,
            "row_stride": row_stride,
        },
        poison=seeds,
        events=frozenset(
            {CLASS_NAMES[ratio]}
            | ({"sentinel"} if sentinel else set())
            | ({"several programs"} if n > PROGRAM else set())
            | ({"offset past 32 bits"} if wraps else set())
            | (
                {"row past 32 bits"}
                if any(v * geometry.slot_rows > INT32_MAX for v in columns["slots"])
                else set()
            )
        ),
        layout={"geometry": geometry_json(geometry), "layer": layer},
    )


def explain(a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """The arguments of the formula behind one element."""
    i = at["i"]
    if access.buffer == "window_rows":
        return f"element {i} (slot {int(a.slots[i])}, position {int(a.positions[i])})"
    if access.buffer == "compress_rows":
        return f"element {i} (block {int(a.blocks[i])}, row {int(a.block_rows[i])} of it)"
    return f"element {i} (row {int(a.plane_rows[i])}, {a.row_stride} elements a row)"


register_property(
    KernelProperty(
        kernel="row_index",
        words="each device function gives the row that the row space says, in 64 bits",
        cases=cases,
        needs=Needs(
            cases=100,
            events={"sentinel": 10, "offset past 32 bits": 10, "row past 32 bits": 5, "several programs": 4},
        ),
        explain=explain,
    )
)
