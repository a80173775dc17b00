"""The index buffers of one forward: every writer on buffers of its own, so that what each wrote is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kvproof.harness.run.forward.batch import Batch, before_chunk, bounds, head_length, in_window, selected
from kvproof.harness.run.forward.launches import POISON, index_buffer, written
from kvproof.harness.run.forward.world import World
from kvproof.models.contract import TensorValue
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO

NAMES = {DENSE_RATIO: "swa", CSA_RATIO: "csa", HCA_RATIO: "hca"}


@dataclass
class Indices:
    """Slices of the classes (and of the forward's own rows, under "extend"), as all writers left them.

    Attributes:
        bounds: bounds of each buffer's slices.
        written: for each buffer and writer, what it left.
    """

    bounds: Mapping[str, list[int]]
    written: dict[str, dict[str, TensorValue]] = field(default_factory=dict[str, dict[str, TensorValue]])

    def take(self, writer: str, buffers: Mapping[str, TensorValue]) -> None:
        """Note what one writer left in each buffer."""
        for name, value in buffers.items():
            self.written.setdefault(name, {})[writer] = value

    def cells(self, name: str) -> list[int]:
        """A buffer with the writes of all, as if they had run on one."""
        whole = np.full(self.bounds[name][-1], POISON, np.int64)
        for value in self.written.get(name, {}).values():
            whole = np.where(value.array != POISON, value.array, whole)
        return [int(cell) for cell in whole]


def build(world: World, batch: Batch) -> tuple[Indices, dict[int, list[int]]]:
    """Run the writers of a forward.

    Returns:
        (the index buffers, the row of each token's own KV by class; empty for prefill).
    """
    if batch.forward.kind == "prefill":
        return _prefill(world, batch), {}
    return _decode(world, batch)


def _decode(world: World, batch: Batch) -> tuple[Indices, dict[int, list[int]]]:
    lengths = {
        NAMES[ratio]: [
            in_window(world, batch.positions[t]) + head_length(world, batch, ratio, t) if sequence >= 0 else 0
            for t, sequence in enumerate(batch.sequence)
        ]
        for ratio in world.ratios
    }
    indices = Indices({name: bounds(found) for name, found in lengths.items()})
    classes = {
        f"{name}_{key}": value
        for name in NAMES.values()
        for key, value in (
            ("indptr", indices.bounds.get(name)),
            ("indices", index_buffer(indices.bounds[name][-1]) if name in indices.bounds else None),
        )
    }
    done = world.launches.run(
        "decode_indices",
        state_slot_per_seq=batch.slots,
        batch_id_per_token=batch.sequence,
        positions=batch.positions,
        **classes,
        **{f"dest_rows_{n}": index_buffer(batch.size) if n in indices.bounds else None for n in NAMES.values()},
        T=batch.size,
        win=world.schedule.win,
        geometry=world.schedule.geometry,
    )
    indices.take("decode_indices", {name: done[f"{name}_indices"] for name in indices.bounds})
    own = {ratio: _own_rows(batch, done[f"dest_rows_{NAMES[ratio]}"].array.tolist()) for ratio in world.ratios}
    if HCA_RATIO in world.ratios:
        head = world.launches.run(
            "hca_head",
            block_tables=batch.table,
            n_committed_hca_per_seq=_committed(batch),
            batch_id_per_token=batch.sequence,
            positions=batch.positions,
            hca_indptr=indices.bounds["hca"],
            hca_indices=index_buffer(indices.bounds["hca"][-1]),
            T=batch.size,
            win=world.schedule.win,
            geometry=world.schedule.geometry,
        )
        indices.take("hca_head", {"hca": head["hca_indices"]})
    _translate(world, batch, indices, None)
    return indices, own


def _own_rows(batch: Batch, rows: list[int]) -> list[int]:
    """Each token's row as the buffer has it: padded tokens keep one of an earlier batch, maybe someone's now."""
    return [row if batch.sequence[t] >= 0 else rows[0] for t, row in enumerate(rows)]


def _prefill(world: World, batch: Batch) -> Indices:
    before = [
        before_chunk(world, batch.positions[t], batch.starts[sequence]) if sequence >= 0 else 0
        for t, sequence in enumerate(batch.sequence)
    ]
    lengths = {
        NAMES[ratio]: [
            before[t] + head_length(world, batch, ratio, t) if sequence >= 0 else 0
            for t, sequence in enumerate(batch.sequence)
        ]
        for ratio in world.ratios
    }
    lengths["extend"] = [
        in_window(world, batch.positions[t]) - before[t] if sequence >= 0 else 0
        for t, sequence in enumerate(batch.sequence)
    ]
    indices = Indices({name: bounds(found) for name, found in lengths.items()})
    classes = {
        f"prefix_{name}_{key}": value
        for name in NAMES.values()
        for key, value in (
            ("indptr", indices.bounds.get(name)),
            ("indices", index_buffer(indices.bounds[name][-1]) if name in indices.bounds else None),
        )
    }
    geometry = world.schedule.geometry
    done = world.launches.run(
        "prefill_indices",
        positions=batch.positions,
        bid_per_token=batch.sequence,
        chunk_start_per_seq=batch.starts,
        cu_seqlens_q_per_seq=batch.first[:-1],
        state_slot_per_seq=batch.slots,
        n_committed_hca_per_seq=_committed(batch),
        block_tables=batch.table,
        extend_indptr=indices.bounds["extend"],
        extend_indices=index_buffer(indices.bounds["extend"][-1]),
        **classes,
        T=batch.size,
        win=world.schedule.win,
        geometry=geometry,
        hca_ratio=HCA_RATIO,
        hca_rows_per_block=max(geometry.block_size // HCA_RATIO, 1),
    )
    indices.take(
        "prefill_indices",
        {
            name: done["extend_indices" if name == "extend" else f"prefix_{name}_indices"]
            for name in indices.bounds
        },
    )
    _translate(world, batch, indices, before)
    return indices


def _committed(batch: Batch) -> list[int]:
    """HCA groups of each sequence after this forward."""
    return [(start + part.new) // HCA_RATIO for start, part in zip(batch.starts, batch.forward.parts, strict=True)]


def _translate(world: World, batch: Batch, indices: Indices, before: list[int] | None) -> None:
    """The selected entries; ``before`` is the length of each window part, or None in decode."""
    if CSA_RATIO not in world.ratios:
        return
    topk = world.schedule.topk
    chosen = np.full((batch.size, topk), 2**31 - 1, np.int32)  # what an indexer leaves behind its results
    for t in batch.live():
        entries = selected(world, batch.request(t), batch.positions[t])
        chosen[t, : len(entries)] = entries
    done = world.launches.run(
        "csa_translate",
        topk_local=chosen,
        block_tables=batch.table,
        positions=batch.positions,
        kv_indptr_csa=indices.bounds["csa"],
        batch_id_per_token=batch.sequence,
        skip_prefix_len_per_token=before,
        kv_indices_csa=index_buffer(indices.bounds["csa"][-1]),
        envelope_rows=world.schedule.geometry.envelope_rows,
        csa_block_capacity=world.schedule.geometry.block_size // CSA_RATIO,
        window_size=0 if before is not None else world.schedule.win,
    )
    indices.take("csa_translate", {"csa": done["kv_indices_csa"]})


def check_coverage(world: World, batch: Batch, indices: Indices) -> None:
    """Each cell of each live token's slices is written exactly once, and nothing else is."""
    for name, slices in indices.bounds.items():
        writers = indices.written.get(name, {})
        found = {writer: written(value) for writer, value in writers.items()}
        times = sum((cells.astype(int) for cells, _ in found.values()), np.zeros(slices[-1], int))
        for writer, (_, beside) in found.items():
            world.checks.require(
                "coverage", not beside, f"{writer} wrote outside the {name} buffer", "no such write", "one"
            )
        for t in batch.live():
            for cell in range(slices[t], slices[t + 1]):
                by = [writer for writer, (cells, _) in found.items() if cells[cell]]
                world.checks.require(
                    "coverage",
                    times[cell] == 1,
                    f"cell {cell - slices[t]} of the {slices[t + 1] - slices[t]} {name} cells of {batch.who(t)}",
                    "one write",
                    " and ".join(by) or "none",
                )
