"""Host modules of a target: what they compute, as plain data, to be compared with models/ field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

CLASS_FIELDS = ("layers", "block_rows", "ring_stride", "ring_slots", "envelope_offset", "entry_offset")
PLANE_FIELDS = ("envelope_rows", "entry_rows", "slot_rows", "plane_rows", "arena_rows", "num_blocks", "num_slots")
WINDOW_FIELDS = ("ring_start", "slot_rows", "ring_slots", "ring_stride", "run_rows")


def geometry_facts(  # noqa: PLR0912  (a list of questions)
    geometry: Any, samples: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Everything that a geometry says of its layout, by name; an error's type where it refuses.

    The same function reads kvproof's geometry and a target's, since both have the production interface.

    Args:
        geometry: a ``UnifiedPoolGeometry``, of whoever.
        samples: "blocks", "rows", "slots", "ring positions" and "bytes" to ask with.
    """
    facts: dict[str, Any] = {}

    def note(name: str, ask: Callable[[], Any]) -> None:
        try:
            facts[name] = _plain(ask())
        except AttributeError:
            facts[name] = "not offered"
        except (ValueError, KeyError, IndexError, AssertionError):
            facts[name] = "refused"

    for name in PLANE_FIELDS:
        note(name, lambda name=name: getattr(geometry, name))
    for ratio in sorted({r for r in geometry.ratios if r >= 0}):
        for name in CLASS_FIELDS:
            note(f"class {ratio}: {name}", lambda r=ratio, n=name: getattr(geometry.classes[r], n))
        for name in ("num_layers", "envelope_rows", "entry_rows"):
            note(f"class {ratio}: {name}", lambda r=ratio, n=name: getattr(geometry.classes[r], n))
        for name in WINDOW_FIELDS:
            note(f"class {ratio}: window {name}", lambda r=ratio, n=name: getattr(geometry.window_params(r), n))
        for pos in samples["ring positions"]:
            note(f"class {ratio}: offset of ring {pos}", lambda r=ratio, p=pos: geometry.classes[r].ring_offset(p))
    for layer in range(len(geometry.ratios)):
        note(f"layer {layer}: base row", lambda i=layer: geometry.layer_base_row(i))
        note(f"layer {layer}: view rows", lambda i=layer: geometry.layer_view_rows(i))
        for slot in samples["slots"]:
            for pos in samples["ring positions"]:
                note(
                    f"layer {layer}: window row of slot {slot}, ring {pos}",
                    lambda i=layer, s=slot, p=pos: geometry.window_index(i, s, p),
                )
        for block in samples["blocks"]:
            for row in samples["rows"]:
                note(
                    f"layer {layer}: row {row} of block {block}",
                    lambda i=layer, b=block, r=row: geometry.compress_index(i, b, r),
                )
    for slot in samples["slots"]:
        note(f"physical slot of group {slot}", lambda s=slot: geometry.physical_slot(s))
        note(f"span of slot {slot}", lambda s=slot: geometry.slot_span(s))
        note(f"arena of slot {slot}", lambda s=slot: geometry.arena_span(s))
    for size in samples["bytes"]:
        note(f"plane bytes of {size}", lambda n=size: geometry.plane_bytes(n))
        note(f"block bytes of {size}", lambda n=size: geometry.block_bytes(n))
        note(f"slot bytes of {size}", lambda n=size: geometry.slot_bytes(n))
    return facts


def _plain(value: Any) -> Any:
    """As JSON would give it back."""
    return [_plain(item) for item in value] if isinstance(value, (list, tuple, range)) else int(value)
