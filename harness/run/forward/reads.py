"""What attention reads of each token, and what it must find."""

from __future__ import annotations

from collections.abc import Sequence

from kvproof.harness.run.forward.batch import Batch, selected
from kvproof.harness.run.forward.world import World
from kvproof.harness.run.forward.writers import NAMES, Indices
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO
from kvproof.properties.joint.stamps import Stamp


def attend(world: World, batch: Batch, indices: Indices, own_rows: dict[int, list[Stamp]]) -> None:
    """Read every live token's slices in every class, and check what was found.

    Args:
        own_rows: by class the rows of this forward, which a prefill token reads through "extend".
    """
    for ratio in world.ratios:
        cells = indices.cells(NAMES[ratio])
        slices = indices.bounds[NAMES[ratio]]
        extend = indices.cells("extend") if "extend" in indices.bounds else []
        for t in batch.live():
            # A negative index is skipped by readers.
            found = [world.stamp_at(ratio, row) for row in cells[slices[t] : slices[t + 1]] if row >= 0]
            if "extend" in indices.bounds:
                mine = extend[indices.bounds["extend"][t] : indices.bounds["extend"][t + 1]]
                found += [own_rows[ratio][row] if row < len(own_rows[ratio]) else None for row in mine if row >= 0]
            _check(world, batch, ratio, t, found)
            key = (batch.request(t), batch.positions[t], ratio)
            world.reads.setdefault(key, []).append(plain(found))


def plain(found: Sequence[Stamp | None]) -> list[str]:
    """What was read, without the forward that wrote it: two schedules that must read alike number theirs apart."""
    kept = [f"{s.kind} {s.place} of request {s.request}, layer {s.layer}" if s else "no row" for s in found]
    return sorted(kept)


def expected(world: World, batch: Batch, ratio: int, t: int) -> list[Stamp]:
    """What a token must read: its window, and the complete groups that are its to see."""
    request, pos = batch.request(t), batch.positions[t]
    low = max(pos - world.schedule.win + 1, 0)
    wanted = [world.window_stamp(ratio, request, p) for p in range(low, pos + 1)]
    if ratio == HCA_RATIO:
        entries = range((pos + 1) // HCA_RATIO)
    else:
        entries = selected(world, request, pos) if ratio == CSA_RATIO else []
    return wanted + [world.entry_stamp(ratio, request, entry) for entry in entries]


def _check(world: World, batch: Batch, ratio: int, t: int, found: Sequence[Stamp | None]) -> None:
    wanted = expected(world, batch, ratio, t)
    missing = list(wanted)
    extra: list[Stamp | None] = []
    for stamp in found:
        if stamp in missing:
            missing.remove(stamp)
        else:
            extra.append(stamp)
    world.checks.require(
        "content",
        not missing and not extra,
        f"{NAMES[ratio]} reads of {batch.who(t)}",
        "; ".join(map(str, missing)) or "no more rows",
        "; ".join("no stamped row" if stamp is None else str(stamp) for stamp in extra) or "nothing there",
    )
