"""What ROCm/ATOM's functions do not take, what their callers guarantee, and which rows they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvproof.harness.targets.profile import Narrowing
from kvproof.harness.targets.profiles.common import rows, within
from kvproof.harness.targets.profiles.tame import slot_range

PLANES = rows(
    {"k_packed": ("uint8", 512), "k_rope": ("bf16", 64), "pool": ("uint8", 512), "pool_rope": ("bf16", 64)}
)
NO_GAPS = rows({"kv": (None, None), "pool": (None, None)})
NO_DRAFTS = Narrowing(
    "draft tokens (its plan keeps the last K rows whatever is drafted, enough while a step is not wider than K)",
    lambda a: a["draft_tokens"] == 0,
)

BOTH_CLASSES = Narrowing(
    "a pool without CSA or HCA layers, or a forward without their buffers (refused by an assertion)",
    lambda a: (
        {4, 128} <= set(a["geometry"].ratios)
        and all(a[f"prefix_{name}_indices"] is not None for name in ("csa", "hca"))
    ),
)
TABLE_COVERS = Narrowing(
    "more groups than a sequence's block table holds",
    lambda a: bool(
        (
            a["n_committed_hca_per_seq"].array.astype("int64") * 128
            <= a["block_tables"].shape[1] * a["geometry"].block_size
        ).all()
    ),
)
PACKED_BY_US = Narrowing(
    "bytes that no packer writes (NaN codes, scales of 255)",
    lambda a: bool(
        ((a["packed"].array[:, :448] & 0x7F) != 0x7F).all() and (a["packed"].array[:, 448:462] < 255).all()
    ),
)


SLOTS_OF_THE_PLANE = Narrowing(
    "slots that the plane has not",
    lambda a: bool(
        (
            (a["state_slot_per_seq"].array >= slot_range(a)[0])
            & (a["state_slot_per_seq"].array < slot_range(a)[1])
        ).all()
    ),
)


POSITIONS_OF_32_BITS = Narrowing(
    "positions past 32 bits", lambda a: bool((a["positions"].array[: a["T"]] < 2**31).all())
)


ANCHORS = within("anchor_pos", lambda _a: 2**31, low=-(2**31))
LIVE_POSITIONS = Narrowing(
    "live tokens at negative positions",
    lambda a: bool(((a["positions"].array[: len(_ids(a))] >= 0) | (_ids(a) < 0)).all()),
)


def _ids(a: Mapping[str, Any]) -> Any:
    return a["batch_id_per_token"].array[: a["T"] if "T" in a else a["topk_local"].shape[0]]


def holding(*pairs: tuple[str, str]) -> Narrowing:
    """Buffers of indices hold the slices that are laid out in them."""

    def takes(a: Mapping[str, Any]) -> bool:
        tokens = a["T"] if "T" in a else a["topk_local" if "topk_local" in a else "q"].shape[0]
        return all(
            a[bounds] is None or int(a[bounds].array[tokens]) <= a[cells].shape[0] for bounds, cells in pairs
        )

    return Narrowing("a buffer that ends before its slices do", takes)


def _room_for_groups(a: Mapping[str, Any]) -> bool:
    ids, positions = _ids(a), a["positions"].array[: a["T"]].astype("int64")
    bounds, committed = a["hca_indptr"].array.astype("int64"), a["n_committed_hca_per_seq"].array.astype("int64")
    live = (ids >= 0) & (positions >= 0)
    seen = (positions[live] + 1).clip(0)
    needed = seen.clip(None, a["win"]) + (seen // 128).clip(None, committed[ids[live]])
    return bool(((bounds[1:] - bounds[:-1])[: a["T"]][live] >= needed).all())


ROOM_FOR_GROUPS = Narrowing("a slice too short for its token's window and groups", _room_for_groups)


def sequences(a: Mapping[str, Any]) -> int:
    """Sequences that a slot is known of."""
    return a["state_slot_per_seq"].shape[0]


def chunks(a: Mapping[str, Any]) -> int:
    """Sequences of a prefill."""
    return a["chunk_start_per_seq"].shape[0]


def first_slot(a: Mapping[str, Any]) -> int:
    """The first slot whose ring lies in the pool's view: the slots behind the blocks do not begin with 0."""
    window = a["window"]
    return max(-(window.ring_start // window.slot_rows), 0)


def slots(a: Mapping[str, Any]) -> int:
    """Slots whose whole ring the pool's view holds."""
    window = a["window"]
    return (
        max((a["pool"].shape[0] - window.ring_start - window.ring_offset(window.ring_slots - 1) - 1), -1)
        // (window.slot_rows)
        + 1
    )
