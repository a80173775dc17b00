"""What host modules of a request's state promise: pools of groups, arenas of fields, codecs of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kvproof.models.deepseek_v4 import Plane, StateField, place_fields

# ---- a pool of state groups ---------------------------------------------------------------


@st.composite
def state_pool_cases(draw: st.DrawFn) -> dict[str, Any]:
    """Steps of a pool that also grows and shrinks at its top."""
    steps = st.one_of(
        st.just(["pop"]),
        st.tuples(st.just("release"), st.integers(0, 9)).map(list),
        st.tuples(st.just("extend"), st.integers(1, 2)).map(list),
        st.just(["retire"]),
    )
    return {"groups": draw(st.integers(1, 5)), "steps": draw(st.lists(steps, max_size=20))}


def state_pool_wrong(given: Mapping[str, Any], answer: list[Any]) -> str:
    """No group has two owners, none is lost, and shrinking moves an owner to a group that was free."""
    held: list[int] = []
    groups = given["groups"]
    for step, (done, free, count) in zip(given["steps"], answer, strict=True):
        fault = ""
        if step[0] == "pop" and (done is not None or len(held) < groups):
            if done is None:
                fault = f"no group although {groups - len(held)} of {groups} are free"
            elif done in held or not 0 <= done < groups:
                fault = f"group {done} is handed out while {held} are held, of {groups}"
            else:
                held.append(done)
        elif step[0] == "release" and held:
            held.pop(step[1] % len(held))
        elif step[0] == "extend":
            groups += step[1]
        elif step[0] == "retire" and done is not None:
            fault = _retired(done, held, groups)
            groups -= 1
            held = [done[1] if group == done[0] else group for group in held]
        if fault:
            return fault
        if (free, count) != (groups - len(held), groups):
            return f"after {step}: {free} free of {count}; held are {held} of {groups}"
    return ""


def _retired(done: list[int], held: list[int], groups: int) -> str:
    top, target = done
    if top != groups - 1:
        return f"group {top} is given up; the top is {groups - 1}"
    if (target >= 0) != (top in held):
        return f"group {top}, {'held' if top in held else 'free'}, is moved to {target}"
    if target >= 0 and (target in held or target >= top):
        return f"group {top} is moved to {target} while {held} are held"
    return ""


# ---- an arena of fields -------------------------------------------------------------------


@st.composite
def state_arena_cases(draw: st.DrawFn) -> dict[str, Any]:
    """Fields over one or two planes, and slots somewhere in a buffer.

    A field has a multiple of 256 bytes, as every real one has: what others are rounded to is nowhere said.
    """
    fields = [
        {
            "name": f"field {n}",
            "layers": draw(st.integers(1, 3)),
            "shape": [draw(st.integers(1, 5)), 128 * draw(st.integers(1, 3))],
            "dtype": draw(st.sampled_from(["fp32", "bf16"])),
            "fill": draw(st.sampled_from([0.0, 1.0])),
            "align": draw(st.sampled_from([0, 0, 512, 1024])),
        }
        for n in range(draw(st.integers(1, 4)))
    ]
    rows = draw(st.sampled_from([[1024], [512, 128], [640]]))
    stride = 1024 * (sum(_bytes(f) + 1024 for f in fields) // 1024 + draw(st.integers(1, 2)))
    before = 1024 * draw(st.integers(0, 2))
    slots = draw(st.integers(1, 3))
    return {"fields": fields, "row_bytes": rows, "slots": slots, "stride": stride, "before": before}


def _bytes(field: Mapping[str, Any]) -> int:
    return field["layers"] * field["shape"][0] * field["shape"][1] * {"fp32": 4, "bf16": 2}[field["dtype"]]


def state_arena_wrong(given: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """Planes, rows and addresses are those of models/, and every field begins filled."""
    fields = tuple(
        StateField(f["name"], (f["layers"], *f["shape"]), f["dtype"], f["fill"], max(f["align"], 256))
        for f in given["fields"]
    )
    layout = place_fields(fields, [Plane(str(n), size) for n, size in enumerate(given["row_bytes"])])
    if answer["rows"] != layout.arena_rows:
        return f"arena rows: expected {layout.arena_rows}, got {answer['rows']}"
    for item in layout.placed:
        name, found = item.field.name, answer["fields"].get(item.field.name)
        if found is None or found["plane"] != item.plane:
            return f"{name}: expected plane {item.plane}, got {found and found['plane']}"
        layer_bytes = item.field.nbytes // item.field.shape[0]
        expected = [
            [
                given["before"] + slot * given["stride"] + item.offset + layer * layer_bytes
                for slot in range(given["slots"])
            ]
            for layer in range(item.field.shape[0])
        ]
        if found["addresses"] != expected:
            return f"{name}: expected bytes {expected} by layer and slot, got {found['addresses']}"
        if not found["filled"]:
            return f"{name} does not hold {item.field.fill} at first"
    return ""


# ---- codecs ---------------------------------------------------------------------------------


@st.composite
def checkpoint_cases(draw: st.DrawFn) -> dict[str, Any]:
    """A payload and its identity, and bytes of the frame that are damaged."""
    ranks = draw(st.integers(1, 8))
    return {
        "payload": list(draw(st.binary(min_size=1, max_size=200))),
        "fingerprint": list(draw(st.binary(min_size=16, max_size=16))),
        "tokens": draw(st.integers(1, 2**40)),
        "hash": draw(st.integers(0, 2**64 - 1)),
        "ranks": ranks,
        "rank": draw(st.integers(0, ranks - 1)),
        "damaged": draw(st.lists(st.integers(0, 9999), min_size=1, max_size=6)),
    }


def checkpoint_wrong(_given: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """What goes in comes back; whatever is damaged, short, long or of another prefix is refused."""
    if answer["whole"] != "same":
        return f"a whole frame: expected the same payload, got {answer['whole']}"
    wrong = {
        f"byte {at} damaged" if at.isdigit() else at: said
        for at, said in {
            **answer["damaged"],
            **{n: answer[n] for n in ("short", "long", "other boundary")},
        }.items()
    } | {"other prefix": answer["other prefix"]}
    taken = [name for name, said in wrong.items() if said != "refused"]
    return f"taken although wrong: {', '.join(taken)}" if taken else ""


@st.composite
def page_codec_cases(draw: st.DrawFn) -> dict[str, Any]:
    """Regions of pages, numbered from their start, and of slots, from their end."""
    blocks, groups = draw(st.integers(1, 6)), draw(st.integers(1, 5))

    def regions(count: int) -> list[list[int]]:
        found: list[list[int]] = []
        for number in range(draw(st.integers(1, 3))):
            unit = 16 * draw(st.integers(1, 9))
            found.append([4096 * (number + 1), count * unit + draw(st.integers(0, 64)), unit])
        return found

    ids = draw(st.lists(st.integers(0, blocks - 1), unique=True, max_size=blocks))
    return {
        "pages": regions(blocks),
        "slots": regions(groups),
        "blocks": blocks,
        "groups": groups,
        "ids": ids,
        "group": draw(st.integers(0, groups - 1)),
        "offset": 16 * draw(st.integers(0, 4)),
    }


def page_codec_wrong(given: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """Page n lies n units behind its region's start, slot n ends n units before its region's end."""
    pages = [[base + n * unit for n in range(given["blocks"])] for base, _, unit in given["pages"]]
    slots = [
        [base + total - (n + 1) * unit for n in range(given["groups"])] for base, total, unit in given["slots"]
    ]
    sizes = (
        len(given["ids"]) * sum(unit for _, _, unit in given["pages"]),
        sum(unit for _, _, unit in given["slots"]),
    )
    plans = [[size, given["offset"] + size] for size in sizes]
    for name, expected in (("pages", pages), ("slots", slots), ("plans", plans)):
        if answer[name] != expected:
            return f"{name}: expected {expected}, got {answer[name]}"
    return ""
