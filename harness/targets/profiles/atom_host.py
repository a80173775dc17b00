"""Host modules of ROCm/ATOM: adapters from plain data to plain data.

What they are held to is :mod:`kvproof.harness.run.host_modules`. Modules that need an engine are not here: the
scheduler's manager of blocks, and the offload connector with its store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvproof.harness.targets.host import geometry_facts
from kvproof.harness.targets.loading import Library

ATTENTIONS = "atom.model_ops.attentions"
CODEC = "atom.kv_transfer.offload.hybrid.dsv4.codec"


def _geometry(library: Library, given: Mapping[str, Any]) -> dict[str, Any]:
    made = library.resolve(library.profile.types["UnifiedPoolGeometry"])
    return geometry_facts(made(**given["geometry"]), given["samples"])


def _copy_plan(library: Library, given: Mapping[str, Any]) -> list[list[int]]:
    plan = library.resolve(f"{ATTENTIONS}.paged_state_copy:plan_segmented_copy")(
        given["source"], given["target"], given["bytes"]
    )
    names = ("src_seg", "src_off", "dst_seg", "dst_off", "length")
    return [[int(getattr(plan, name)[n]) for name in names] for n in range(len(plan.length))]


def _blocks(library: Library, given: Mapping[str, Any]) -> list[Any]:
    """Pop and free, with blocks indexed under hashes in between, as the engine's manager does."""
    pool = library.resolve("atom.model_engine.block_pool:BlockPool")(given["blocks"])
    held: list[int] = []
    answers: list[Any] = []
    for step in given["steps"]:
        done = None
        if step[0] == "pop" and pool.has_free(1):
            done = pool.pop()
            pool.allocate(done)
            held.append(done)
        elif step[0] == "free" and held:
            block = held[step[1] % len(held)]
            held.remove(block)
            pool.free(block)
        elif step[0] == "publish" and held:
            pool.publish(held[step[1] % len(held)], step[2], [step[2]])
        elif step[0] == "lookup":
            pool.lookup(step[1])
        answers.append([done, pool.num_free, pool.num_used])
    return answers


def _state_pool(library: Library, given: Mapping[str, Any]) -> list[Any]:
    """Pop, release, grow and shrink; a group that shrinking moves stays with its owner."""
    pool = library.resolve("atom.model_engine.state_pool:StateGroupPool")(given["groups"])
    held: list[int] = []
    answers: list[Any] = []
    for step in given["steps"]:
        done: Any = None
        if step[0] == "pop" and pool.has_free():
            done = pool.pop()
            held.append(done)
        elif step[0] == "release" and held:
            pool.release(held.pop(step[1] % len(held)))
        elif step[0] == "extend":
            pool.extend(step[1])
        elif step[0] == "retire":
            gone = pool.retire_top()
            done = None if gone is None else [gone.retired, gone.relocated_to]
            if gone is not None and gone.relocated_to >= 0:
                held = [gone.relocated_to if group == gone.retired else group for group in held]
        answers.append([done, pool.num_free(), pool.num_groups])
    return answers


def _state_arena(library: Library, given: Mapping[str, Any]) -> dict[str, Any]:
    """Planes and rows of the fields, and the byte address of each layer and slot of each view."""
    import torch  # noqa: PLC0415

    arena = f"{ATTENTIONS}.state_arena"
    types = {"fp32": torch.float32, "bf16": torch.bfloat16}
    made = library.resolve(f"{arena}:StateField")
    fields = [
        made(f["name"], f["layers"], tuple(f["shape"]), types[f["dtype"]], f["fill"], align=f["align"])
        for f in given["fields"]
    ]
    groups, rows = library.resolve(f"{arena}:plan_field_planes")(fields, given["row_bytes"])
    answer: dict[str, Any] = {"rows": rows, "fields": {}}
    for plane, group in enumerate(groups):
        if not group:
            continue
        size = given["slots"] * given["stride"] + given["before"]
        buffer = torch.zeros(size, dtype=torch.uint8)[given["before"] :]
        view = library.resolve(f"{arena}:StateArena")(group, given["slots"], "cpu", buffer, given["stride"])
        for field in group:
            tensor = view.view(field.name)
            addresses = [
                [tensor[layer, slot].storage_offset() * tensor.element_size() for slot in range(given["slots"])]
                for layer in range(field.layers)
            ]
            filled = bool((tensor == field.fill).all()) and tensor.numel() > 0
            answer["fields"][field.name] = {"plane": plane, "addresses": addresses, "filled": filled}
    return answer


def _checkpoint_codec(library: Library, given: Mapping[str, Any]) -> dict[str, Any]:
    """A payload there and back, and whether damaged frames are refused."""
    header_type, encode, decode = (
        library.resolve(f"{CODEC}:{name}")
        for name in ("DSV4CheckpointHeader", "encode_checkpoint", "decode_checkpoint")
    )
    payload, fingerprint = bytes(given["payload"]), bytes(given["fingerprint"])
    header = header_type(given["tokens"], given["hash"], None, None, fingerprint, given["ranks"], given["rank"])
    known = {
        "expected_boundary_tokens": given["tokens"],
        "expected_boundary_block_hash": given["hash"],
        "expected_payload_bytes": len(payload),
    }

    def read(blob: bytes, **others: Any) -> str:
        try:
            found = decode(blob, fingerprint, given["ranks"], given["rank"], **{**known, **others})
        except ValueError:
            return "refused"
        return "same" if found[1] == payload else "other"

    blob = bytes(encode(header, payload))
    damaged: dict[str, str] = {}
    for at in given["damaged"]:
        place = at % len(blob)
        damaged[str(place)] = read(blob[:place] + bytes([blob[place] ^ 1 << at % 8]) + blob[place + 1 :])
    return {
        "bytes": len(blob) - len(payload),
        "whole": read(blob),
        "damaged": damaged,
        "short": read(blob[:-1]),
        "long": read(blob + b"\0"),
        "other boundary": read(blob, expected_boundary_tokens=given["tokens"] + 1),
        "other prefix": read(blob, expected_boundary_block_hash=given["hash"] ^ 1),
    }


def _page_codec(library: Library, given: Mapping[str, Any]) -> dict[str, Any]:
    """Where the codec of pages and slots finds them, and the plans of its copies. Its copies need a GPU."""
    region = library.resolve("atom.kv_transfer.disaggregation.types:KVTransferRegion")

    def regions(kind: str, *, reverse: bool) -> list[Any]:
        return [
            region(base_addr=base, total_bytes=total, unit_bytes=unit, reverse_indexed=reverse)
            for base, total, unit in given[kind]
        ]

    codec = library.resolve(f"{CODEC}:DSV4PageSlotCodec")(
        regions("pages", reverse=False),
        regions("slots", reverse=True),
        num_blocks=given["blocks"],
        num_slots=given["groups"],
        device="cpu",
        slot_region_roles=[f"region {n}" for n in range(len(given["slots"]))],
    )
    plans = (
        codec.page_plan(given["ids"], buffer_offset=given["offset"]),
        codec.slot_plan(given["group"], buffer_offset=given["offset"]),
    )
    return {
        "pages": [[r.unit_addr(n) for n in range(given["blocks"])] for r in codec.page_regions],
        "slots": [[r.unit_addr(n) for n in range(given["groups"])] for r in codec.slot_regions],
        "plans": [[int(plan.payload_bytes), int(plan.required_buffer_bytes)] for plan in plans],
    }


HOST = {
    "geometry": _geometry,
    "copy plan": _copy_plan,
    "block pool": _blocks,
    "state pool": _state_pool,
    "state arena": _state_arena,
    "checkpoint codec": _checkpoint_codec,
    "page codec": _page_codec,
}
"""By name of the contract."""
