"""Index buffers of one forward as the kernels build them, and what is read through them, token by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvproof.harness.run.forward.launches import POISON, index_buffer, written
from kvproof.harness.simulate.batch import Batch, ranges
from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.memory import Memory
from kvproof.harness.simulate.stamps import CONTENT_MASK, PLACE_SHIFT, Keys, words
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO

Launch = Callable[..., Any]
"""Runs a kernel by name; what it returns is every tensor argument after the launch."""

NAMES: Mapping[int, str] = {DENSE_RATIO: "swa", CSA_RATIO: "csa", HCA_RATIO: "hca"}


@dataclass
class Indices:
    """What the writers of a forward left.

    Attributes:
        bounds: by class ("extend" too) the bounds of the tokens' slices.
        cells: by class the buffer, all writers together.
        own: by class the row of each decode token's own KV.
        chosen: (token, entry) that the CSA indexer selects.
    """

    bounds: dict[str, Keys] = field(default_factory=dict[str, Keys])
    cells: dict[str, Keys] = field(default_factory=dict[str, Keys])
    own: dict[int, Keys] = field(default_factory=dict[int, Keys])
    chosen: tuple[Keys, Keys] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def merge(self, writer: str, name: str, value: Any) -> None:
        """Add what one writer left in its own copy of a buffer.

        Raises:
            Broken: it wrote beside the buffer, or a cell that another has written.
        """
        mine, beside = written(value)
        if beside:
            raise Broken("indices", f"{writer} wrote beside the {name} buffer")
        cells = self.cells[name]
        twice = np.flatnonzero(mine & (cells != POISON))
        if twice.size:
            raise Broken(
                "indices", f"{writer} wrote cell {int(twice[0])} of the {name} buffer, which another has too"
            )
        self.cells[name] = np.where(mine, value.array, cells)

    def open(self, name: str, lengths: Keys) -> None:
        """A buffer with slices of these lengths, nothing written yet."""
        self.bounds[name] = np.concatenate([[0], np.cumsum(lengths)])
        self.cells[name] = np.full(int(self.bounds[name][-1]), POISON, np.int64)


def select_entries(executor: Executor, batch: Batch, tokens: Keys, positions: Keys) -> tuple[Keys, Keys, Keys]:
    """(token, entry) of every selected entry in drawn order, and how many each token has."""
    closed = (positions + 1) // CSA_RATIO
    counts = np.minimum(closed, executor.topk)
    rng = np.random.default_rng([batch.step, batch.size])
    chosen = [rng.permutation(int(n))[: int(m)] for n, m in zip(closed, counts, strict=True)]
    entry = np.concatenate([*chosen, np.zeros(0, np.int64)]).astype(np.int64)
    return np.repeat(tokens, counts), entry, counts


def _translate(
    executor: Executor, launch: Launch, batch: Batch, indices: Indices, size: int, skip: Keys | None
) -> None:
    places, staged = executor.places, executor.staged
    topk = np.full((size, executor.topk), 2**31 - 1, np.int64)  # what an indexer leaves behind its results
    token, entry = indices.chosen
    if token.size:
        first = np.searchsorted(token, token, side="left")
        topk[token, np.arange(len(token)) - first] = entry
    done = launch(
        "csa_translate",
        topk_local=topk,
        block_tables=batch.tables,
        positions=_positions(batch, staged, size),
        kv_indptr_csa=indices.bounds["csa"],
        batch_id_per_token=_sequences(batch, staged, size),
        skip_prefix_len_per_token=skip,
        kv_indices_csa=index_buffer(int(indices.bounds["csa"][-1])),
        envelope_rows=places.envelope,
        csa_block_capacity=places.block // CSA_RATIO,
        window_size=0 if skip is not None else places.window,
    )
    indices.merge("csa_translate", "csa", done["kv_indices_csa"])


def _positions(batch: Batch, staged: Any, size: int) -> Keys:
    return staged.position[:size] if batch.kind == "decode" else batch.position


def _sequences(batch: Batch, staged: Any, size: int) -> Keys:
    return staged.sequence[:size] if batch.kind == "decode" else batch.sequence


def build_decode(executor: Executor, launch: Launch, batch: Batch) -> Indices:
    """Run the index builders of a decode forward, padded tokens among its tokens."""
    places, staged = executor.places, executor.staged
    size = staged.live
    sequence, position = staged.sequence[:size], np.maximum(staged.position[:size], 0)
    live = sequence >= 0
    window = np.where(live, np.minimum(position + 1, places.window), 0)
    indices = Indices()
    tokens = np.flatnonzero(live)
    for ratio in places.ratios:
        heads = np.zeros(size, np.int64)
        if ratio == HCA_RATIO:
            heads = np.where(live, (position + 1) // HCA_RATIO, 0)
        elif ratio == CSA_RATIO:
            token, entry, counts = select_entries(executor, batch, tokens, position[tokens])
            indices.chosen = token, entry
            heads[tokens] = counts
        indices.open(NAMES[ratio], window + heads)
    buffers = {
        name: index_buffer(len(indices.cells[name])) if name in indices.cells else None for name in NAMES.values()
    }
    done = launch(
        "decode_indices",
        state_slot_per_seq=batch.slots,
        batch_id_per_token=sequence,
        positions=position,
        **{f"{name}_indptr": indices.bounds.get(name) for name in NAMES.values()},
        **{f"{name}_indices": buffer for name, buffer in buffers.items()},
        **{f"dest_rows_{name}": index_buffer(size) if name in indices.cells else None for name in NAMES.values()},
        T=size,
        win=places.window,
        geometry=places.space,
    )
    for ratio in places.ratios:
        indices.merge("decode_indices", NAMES[ratio], done[f"{NAMES[ratio]}_indices"])
        rows = done[f"dest_rows_{NAMES[ratio]}"].array.astype(np.int64)
        # A padded token's row is what an earlier batch left there, maybe someone's now.
        indices.own[ratio] = np.where(live, rows, rows[tokens[0]])
    if HCA_RATIO in places.ratios:
        head = launch(
            "hca_head",
            block_tables=batch.tables,
            n_committed_hca_per_seq=batch.ends // HCA_RATIO,
            batch_id_per_token=sequence,
            positions=position,
            hca_indptr=indices.bounds["hca"],
            hca_indices=index_buffer(len(indices.cells["hca"])),
            T=size,
            win=places.window,
            geometry=places.space,
        )
        indices.merge("hca_head", "hca", head["hca_indices"])
    if CSA_RATIO in places.ratios:
        _translate(executor, launch, batch, indices, size, None)
    return indices


def build_prefill(executor: Executor, launch: Launch, batch: Batch) -> Indices:
    """Run the index builders of a prefill forward."""
    places, size = executor.places, batch.size
    starts, position = batch.starts[batch.sequence], batch.position
    before = np.maximum(starts - np.maximum(position - places.window + 1, 0), 0)
    indices = Indices()
    for ratio in places.ratios:
        heads = np.zeros(size, np.int64)
        if ratio == HCA_RATIO:
            heads = (position + 1) // HCA_RATIO
        elif ratio == CSA_RATIO:
            token, entry, heads = select_entries(executor, batch, np.arange(size), position)
            indices.chosen = token, entry
        indices.open(NAMES[ratio], before + heads)
    indices.open("extend", np.minimum(position + 1, places.window) - before)
    buffers = {
        name: index_buffer(len(indices.cells[name])) if name in indices.cells else None for name in NAMES.values()
    }
    done = launch(
        "prefill_indices",
        positions=position,
        bid_per_token=batch.sequence,
        chunk_start_per_seq=batch.starts,
        cu_seqlens_q_per_seq=np.cumsum(batch.new) - batch.new,
        state_slot_per_seq=batch.slots,
        n_committed_hca_per_seq=batch.ends // HCA_RATIO,
        block_tables=batch.tables,
        extend_indptr=indices.bounds["extend"],
        extend_indices=index_buffer(len(indices.cells["extend"])),
        **{f"prefix_{name}_indptr": indices.bounds.get(name) for name in NAMES.values()},
        **{f"prefix_{name}_indices": buffer for name, buffer in buffers.items()},
        T=size,
        win=places.window,
        geometry=places.space,
        hca_ratio=HCA_RATIO,
        hca_rows_per_block=max(places.block // HCA_RATIO, 1),
    )
    indices.merge("prefill_indices", "extend", done["extend_indices"])
    for ratio in places.ratios:
        indices.merge("prefill_indices", NAMES[ratio], done[f"prefix_{NAMES[ratio]}_indices"])
    if CSA_RATIO in places.ratios:
        _translate(executor, launch, batch, indices, size, before)
    return indices


def check_reads(executor: Executor, memory: Memory, batch: Batch, indices: Indices) -> None:
    """Read each listed row of each live token in each class, and hold what was found to what it needs.

    Raises:
        Broken: a cell that no writer wrote, a row outside the plane, or rows that are not those needed.
    """
    places = executor.places
    for ratio in places.ratios:
        name = NAMES[ratio]
        cells, token = (
            indices.cells[name],
            np.repeat(np.arange(len(indices.bounds[name]) - 1), np.diff(indices.bounds[name])),
        )
        empty = np.flatnonzero(cells == POISON)
        if empty.size:
            raise Broken("indices", f"no writer wrote cell {int(empty[0])} of the {name} buffer")
        kept = cells >= 0  # readers skip sentinels
        wanted = _wanted(executor, batch, indices, ratio)
        extend = _extend(batch, indices)
        for lane, layer in enumerate(places.layers_of(ratio, places.settings.layers == "all")):
            base = int(places.space.layer_base_row(layer))
            rows = cells[kept] + base
            if rows.size and int(rows.max()) >= places.plane_rows:
                raise Broken("indices", f"the {name} buffer lists row {int(rows.max())}, past the plane")
            tags = places.windows[ratio].tags[lane, 0]
            entry_tags = places.entries[ratio].tags[lane, 0] if ratio in places.entries else 0
            need = np.concatenate([wanted[0][1] + tags, wanted[1][1] + entry_tags])
            owner = np.concatenate([wanted[0][0], wanted[1][0]])
            for plane in places.windows[ratio].planes:
                got = np.concatenate([memory.keys[plane][rows], extend[1] + tags])
                _compare(batch, name, (owner, need), (np.concatenate([token[kept], extend[0]]), got))


def _wanted(
    executor: Executor, batch: Batch, indices: Indices, ratio: int
) -> tuple[tuple[Keys, Keys], tuple[Keys, Keys]]:
    """((token, stamp) of window rows, (token, stamp) of entries) that the tokens need."""
    truth, position = executor.truth, batch.position
    low = np.maximum(position - executor.places.window + 1, 0)
    token, place = ranges(low, position - low + 1)
    window = token, batch.expected(truth, batch.sequence[token], place)
    token, entry = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if ratio == HCA_RATIO:
        token, entry = ranges(np.zeros_like(position), (position + 1) // HCA_RATIO)
    elif ratio == CSA_RATIO:
        token, entry = indices.chosen
    if not ratio:
        return window, (token, entry)
    last = batch.expected(truth, batch.sequence[token], entry * ratio + ratio - 1)
    return window, (token, (last & CONTENT_MASK) | (entry << PLACE_SHIFT))


def _extend(batch: Batch, indices: Indices) -> tuple[Keys, Keys]:
    """(token, stamp) of the rows of this forward that prefill tokens read."""
    if "extend" not in indices.cells:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    cells = indices.cells["extend"]
    token = np.repeat(np.arange(batch.size), np.diff(indices.bounds["extend"]))
    wrong = np.flatnonzero((cells == POISON) | (cells >= batch.size))
    if wrong.size:
        raise Broken("indices", f"cell {int(wrong[0])} of the extend buffer is {int(cells[wrong[0]])}")
    kept = cells >= 0
    return token[kept], batch.stamps[cells[kept]]


def _compare(batch: Batch, name: str, need: tuple[Keys, Keys], found: tuple[Keys, Keys]) -> None:
    wanted = np.stack([a[np.lexsort((need[1], need[0]))] for a in need])
    got = np.stack([a[np.lexsort((found[1], found[0]))] for a in found])
    if wanted.shape == got.shape and (wanted == got).all():
        return
    for token in range(batch.size):
        a, b = wanted[1][wanted[0] == token], got[1][got[0] == token]
        if a.shape != b.shape or (a != b).any():
            lacking = [words(int(key)) for key in np.setdiff1d(a, b)[:3]]
            beside = [words(int(key)) for key in np.setdiff1d(b, a)[:3]]
            check = "window" if lacking and lacking[0].startswith("window") else "entries"
            message = f"{name} reads of token {token}, {batch.words(int(batch.sequence[token]))}: "
            raise Broken(
                check,
                message
                + f"needs {'; '.join(lacking) or 'nothing more'}, found {'; '.join(beside) or 'no such row'}",
                wanted="; ".join(lacking),
                got="; ".join(beside),
            )
    raise Broken("indices", f"the {name} buffer lists rows of padded tokens")
