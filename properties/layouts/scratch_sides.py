"""The publishing and the consuming side of a region: each from its own tasks, both to the same bytes."""

from __future__ import annotations

from kvproof.models.index import INT32_MAX, Condition, IndexValue, within
from kvproof.models.scratch import GROUP, HEAD_DIM, HEAD_TILE, HEADS_PER_FLAG, Dims, ScratchPlan
from kvproof.properties.layouts.scratch_layout import choose_plan, region_names
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "scratch/element inside",
    "Every element that a side forms lies in its region.",
    system="scratch",
    needs=Needs(100, {"last element": 2}),
    twin="elements one byte longer",
)
def element_inside(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose)
    name = choose.pick("region", region_names(dims))
    region, (offset, nbytes) = plan.regions[name], plan.layout[name]
    coordinates = [choose.integer(f"{axis} index", 0, size - 1, few=2) for axis, size in region.extents]
    element = region.element(*coordinates)
    choose.event("last element", element == region.elements - 1)
    choose.lemma("an element of the region", within(element, 0, region.elements))
    start = plan.offset(name, *coordinates)
    return (start >= offset) & (start + region.element_bytes + slip <= offset + nbytes)


@statement(
    "scratch/elements apart",
    "Two elements of a region are one only if every coordinate agrees.",
    system="scratch",
    needs=Needs(100, {"neighbours": 2}),
    twin="the last coordinate may be one past its extent",
)
def elements_apart(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = ScratchPlan(dims, choose.integer("tokens", 1, dims.family.max_tokens, few=4))
    name = choose.pick("region", tuple(n for n, r in plan.regions.items() if len(r.extents) > 1))
    # Any count of chunks, not only those that some top-k gives.
    chunks = choose.integer("chunks", 1, INT32_MAX, few=3) if name in {"part", "pstat", "srdy"} else 1
    axes = tuple((axis, chunks if axis == "chunk" else size) for axis, size in plan.regions[name].extents)
    a = [choose.integer(f"{axis} a", 0, size - 1, few=2) for axis, size in axes]
    b = [choose.integer(f"{axis} b", 0, size - 1, few=2) for axis, size in axes[:-1]]
    axis, size = axes[-1]
    b.append(choose.integer(f"{axis} b", 0, size - 1 + slip, few=2))
    one, other = _number(a, axes), _number(b, axes)
    choose.event("neighbours", one - other == 1)
    # From the slowest dimension on: equal numbers mean equal leading coordinates.
    same: Condition = True
    for depth in range(1, len(axes)):
        lead_a, lead_b = _number(a[:depth], axes[:depth]), _number(b[:depth], axes[:depth])
        next_a, next_b = _number(a[: depth + 1], axes[: depth + 1]), _number(b[: depth + 1], axes[: depth + 1])
        if not slip:
            name, size = axes[depth]
            choose.lemma(
                f"{name}: a later lead is a row later", (lead_a <= lead_b) | (lead_a * size >= (lead_b + 1) * size)
            )
            choose.lemma(f"{name}: and the other way", (lead_b <= lead_a) | (lead_b * size >= (lead_a + 1) * size))
            choose.lemma(f"{name} decides nothing before it", (next_a != next_b) | (lead_a == lead_b))
    for x, y in zip(a, b, strict=True):
        same = same & (x == y)
    return (one != other) | same


def _number(coordinates: list[IndexValue], extents: tuple[tuple[str, IndexValue], ...]) -> IndexValue:
    number: IndexValue = 0
    for index, (_, size) in zip(coordinates, extents, strict=True):
        number = number * size + index
    return number


def _partial(plan: ScratchPlan, choose: Chooser, slip: int) -> tuple[IndexValue, IndexValue]:
    """A split task's partial by (task, head tile), and the combine step's by (token, chunk, head)."""
    d = plan.dims
    token = choose.integer("token", 0, plan.tokens - 1, few=2)
    chunk = choose.integer("chunk number", 0, plan.chunks - 1, few=2)
    tile = choose.integer("head tile", 0, d.head_tiles - 1)
    lane = choose.integer("head in tile", 0, HEAD_TILE - 1, few=1)
    dim = choose.integer("dim", 0, HEAD_DIM - 1, few=1)
    task = token * (plan.chunks + slip) + chunk
    publish = ((task * d.head_tiles + tile) * HEAD_TILE + lane) * HEAD_DIM + dim
    return publish, plan.regions["part"].element(token, chunk, tile * HEAD_TILE + lane, dim)


def _statistic(plan: ScratchPlan, choose: Chooser, slip: int) -> tuple[IndexValue, IndexValue]:
    """The same for a head's (max, sum)."""
    d = plan.dims
    token = choose.integer("token", 0, plan.tokens - 1, few=2)
    chunk = choose.integer("chunk number", 0, plan.chunks - 1, few=2)
    head = choose.integer("head", 0, d.heads - 1, few=2)
    stat = choose.pick("stat", (0, 1))
    task = token * (plan.chunks + slip) + chunk
    return (task * d.heads + head) * 2 + stat, plan.regions["pstat"].element(token, chunk, head, stat)


def _output(plan: ScratchPlan, choose: Chooser, slip: int) -> tuple[IndexValue, IndexValue]:
    """A combined head's elements, and an output group's input row, which is its heads one after the other."""
    d = plan.dims
    token = choose.integer("token", 0, plan.tokens - 1, few=2)
    group = choose.integer("group", 0, d.groups - 1, few=2)
    head = choose.integer("head of group", 0, d.heads // d.groups - 1, few=2)
    dim = choose.integer("dim", 0, HEAD_DIM - 1, few=1)
    width = d.heads // d.groups * HEAD_DIM
    publish = token * (d.q_rows + slip) + (group * (d.heads // d.groups) + head) * HEAD_DIM + dim
    return publish, plan.regions["xo"].element(token, group * width + head * HEAD_DIM + dim)


def _head_flag(plan: ScratchPlan, choose: Chooser, slip: int) -> tuple[IndexValue, IndexValue]:
    """The flag that a head's combine step sets, and the one that its output group waits for."""
    d = plan.dims
    token = choose.integer("token", 0, plan.tokens - 1, few=2)
    group = choose.integer("group", 0, d.groups - 1, few=2)
    head = choose.integer("head of group", 0, d.heads // d.groups - 1, few=2)
    flags = d.heads // HEADS_PER_FLAG
    publish = token * flags + (group * (d.heads // d.groups) + head + slip) // HEADS_PER_FLAG
    return publish, plan.regions["crdy"].element(token, group * flags // d.groups)


def _latent(plan: ScratchPlan, choose: Chooser, slip: int) -> tuple[IndexValue, IndexValue]:
    """A wo_a task's output rows, and the reduction of wo_b over (group, rank row)."""
    d = plan.dims
    token = choose.integer("token", 0, plan.tokens - 1, few=2)
    group = choose.integer("group", 0, d.groups - 1, few=2)
    row = choose.integer("row of group", 0, d.o_rows // d.groups - 1, few=33)
    consumed = group * (d.o_rows // d.groups) + row
    task, in_task = consumed // GROUP, consumed % GROUP
    return token * d.o_rows + (task + slip) * GROUP + in_task, plan.regions["x8b"].element(token, consumed)


SIDES = {
    "part": _partial,
    "pstat": _statistic,
    "xo": _output,
    "crdy": _head_flag,
    "x8b": _latent,
}


@statement(
    "scratch/both sides",
    "The publishing and the consuming side form the same element, each from its own task numbers.",
    system="scratch",
    needs=Needs(100, {"second token": 10}),
    twin="the publisher counts one chunk, row, head or task more",
)
def both_sides(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose)
    name = choose.pick("region", tuple(SIDES))
    publish, consume = SIDES[name](plan, choose, slip)
    choose.event("second token", plan.tokens >= 2)
    return (publish == consume) & within(publish, 0, plan.regions[name].elements)
