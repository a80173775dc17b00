"""Drawn cases made into ones that a caller passes: what is stale or out of range becomes an id in range.

Cases of a kernel are drawn to attack it, so few of them hold nothing that a caller should not pass. A run *as
called* would otherwise leave out nearly all that it draws. Each repair takes the event of what it repairs from the
case; that nothing of it is left is checked on the values, by the entry's ``callers``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.kernels.index_spec import whole_blocks
from kvproof.kernels.prefill_indices.contract import BUFFERS
from kvproof.models.contract import TensorValue, contiguous
from kvproof.models.packed_row import NOPE
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO
from kvproof.properties.strategies.cases import Case, poison
from kvproof.properties.strategies.kernels.prefill_indices import RATIO_OF, Chunks, needed
from kvproof.properties.strategies.tokens import Tokens

Repair = Callable[[Case], Case]
Values = Mapping[str, Any]
Ids = npt.NDArray[Any]


def tame(*repairs: Repair) -> Repair:
    """All of the repairs, in order."""

    def fit(case: Case) -> Case:
        for repair in repairs:
            case = repair(case)
        return case

    return fit


def with_ids(case: Case, name: str, ids: Ids, event: str) -> Case:
    """The case with other elements in an index tensor, and without an event."""
    value: TensorValue = case.values[name]
    changed = TensorValue(value.dtype, value.storage.copy(), value.shape, value.strides, value.offset)
    changed.array[...] = ids
    return replace(case, values={**case.values, name: changed}, events=case.events - {event})


def padded(name: str, sequences: str) -> Repair:
    """Ids of no sequence become -1, by which a caller says so.

    Args:
        name: ids of tokens.
        sequences: tensor with a place for each sequence.
    """

    def fit(case: Case) -> Case:
        ids = case.values[name].array
        inside = (ids >= 0) & (ids < case.values[sequences].shape[0])
        return with_ids(case, name, np.where(inside, ids, -1), "padded token")

    return fit


def slots_of_the_plane(name: str = "state_slot_per_seq") -> Repair:
    """Slots that the plane has not become some that it has."""

    def fit(case: Case) -> Case:
        low, stop = slot_range(case.values)
        ids = case.values[name].array
        return with_ids(case, name, low + (ids.astype(np.int64) - low) % (stop - low), "stale slot")

    return fit


def slot_range(values: Values) -> tuple[int, int]:
    """Physical slots of the geometry: (first, stop)."""
    geometry = values["geometry"]
    return int(geometry.slot_origin), int(geometry.slot_positions)


def blocks_of_the_plane(case: Case) -> Case:
    """Block ids that the plane has not become some that it has."""
    stop, ids = block_stop(case.values), case.values["block_tables"].array
    if stop <= 0:
        return case
    inside = (ids >= 0) & (ids < stop)
    return with_ids(case, "block_tables", np.where(inside, ids, ids.astype(np.int64) % stop), "no block")


def block_stop(values: Values) -> int:
    """How many blocks there are; as far as a launch knows."""
    if "geometry" in values:
        return int(whole_blocks(values["geometry"]))
    return (2**31 - values["csa_block_capacity"]) // values["envelope_rows"]


def only_served(buffers: Mapping[int, tuple[str, ...]]) -> Repair:
    """No buffers for a class that the geometry lacks.

    Args:
        buffers: by class, the arguments that go.
    """

    def fit(case: Case) -> Case:
        given = dict(case.values)
        for ratio, names in buffers.items():
            if ratio not in given["geometry"].ratios:
                given |= dict.fromkeys(names)
        return replace(case, values=given, events=case.events - {"absent class"})

    return fit


def packed_by_a_packer(name: str) -> Repair:
    """Packed rows hold no scale byte of 255, which no packer writes."""

    def fit(case: Case) -> Case:
        value: TensorValue = case.values[name]
        if value.dtype != "uint8" or value.shape[1] < NOPE + 14:
            return case
        changed = TensorValue(value.dtype, value.storage.copy(), value.shape, value.strides, value.offset)
        changed.array[:, NOPE : NOPE + 14] = np.minimum(changed.array[:, NOPE : NOPE + 14], 254)
        seeds = {tensor: seed for tensor, seed in case.poison.items() if tensor != name}
        return replace(case, values={**case.values, name: changed}, poison=seeds)

    return fit


def selected_entries(case: Case) -> Case:
    """Entries of a CSA selection that are not complete become complete ones, where a token has any."""
    entries = case.values["topk_local"].array.copy()
    stop = complete_entries(case.values)
    for t in range(entries.shape[0]):
        if stop[t] > 0:
            wrong = (entries[t] < 0) | (entries[t] >= stop[t])
            entries[t] = np.where(wrong, entries[t] % stop[t], entries[t])
    return with_ids(case, "topk_local", entries, "garbage entry")


def complete_entries(values: Values) -> Ids:
    """How many entries of each token are complete and within its block table."""
    count, table = values["topk_local"].shape[0], values["block_tables"]
    closed = np.maximum(values["positions"].array[:count].astype(np.int64) + 1, 0) // CSA_RATIO
    return np.minimum(closed, table.shape[1] * values["csa_block_capacity"])


def only_complete_entries(values: Values) -> bool:
    """Whether the entries at the head of each token's slice are complete ones."""
    ids, bounds = values["batch_id_per_token"].array, values["kv_indptr_csa"].array
    window, given = values["window_size"], values["skip_prefix_len_per_token"]
    entries, stop = values["topk_local"].array, complete_entries(values)
    for t in range(entries.shape[0]):
        if ids[t] < 0:
            continue
        pos = int(values["positions"].array[t])
        skip = min(max(pos + 1, 0), window) if window else int(given.array[t])
        head = entries[t, : max(int(bounds[t + 1] - bounds[t]) - skip, 0)]
        if ((head < 0) | (head >= stop[t])).any():
            return False
    return True


def whole_chunks(case: Case) -> Case:
    """A prefill forward without padding; chunks start at their first token, slices hold what tokens read."""
    v, geometry = case.values, case.values["geometry"]
    ids, positions = (v[name].array[: v["T"]] for name in ("bid_per_token", "positions"))
    live = (ids >= 0) & (ids < v["chunk_start_per_seq"].shape[0])
    ids, positions, count = ids[live], positions[live].clip(None, 2**31 - 1), int(live.sum())
    start, row, committed = (
        v[name].array.copy() for name in ("chunk_start_per_seq", "cu_seqlens_q_per_seq", "n_committed_hca_per_seq")
    )
    covered = v["block_tables"].shape[1] * geometry.block_size // HCA_RATIO
    for sequence in range(start.shape[0]):
        mine = np.flatnonzero(ids == sequence)
        if mine.size:
            start[sequence], row[sequence] = positions[mine[0]], mine[0]
            committed[sequence] = min(max(int(positions[mine[-1]]) + 1, 0) // HCA_RATIO, covered)
    tokens = {"bid_per_token": ids, "positions": positions}
    kept = {name: contiguous(v[name].dtype, values) for name, values in tokens.items()}
    case = replace(case, values={**v, **kept, "T": count}, events=case.events - {"padded token"})
    changed = {"chunk_start_per_seq": start, "cu_seqlens_q_per_seq": row, "n_committed_hca_per_seq": committed}
    for name, values in changed.items():
        case = with_ids(case, name, values, "stale chunk")
    batch = Tokens(ids.tolist(), positions.tolist(), v["state_slot_per_seq"].array.tolist(), frozenset())
    chunks = Chunks(start.tolist(), row.tolist(), committed.tolist(), frozenset())
    given, seeds = dict(case.values), dict(case.poison)
    for number, name in enumerate(BUFFERS):
        if name in RATIO_OF and RATIO_OF[name] not in geometry.ratios:
            continue
        lengths = [needed(name, batch, chunks, t, int(v["win"]), covered) for t in range(count)]
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        seed = seeds.get(f"{name}_indices", number)
        given[f"{name}_indptr"] = contiguous("int32", bounds)
        total = int(bounds[-1])
        given[f"{name}_indices"] = TensorValue("int32", poison(seed, "int32", total), (total,), (1,))
        seeds[f"{name}_indices"] = seed
    return replace(case, values=given, poison=seeds, events=case.events - {"short slice"})
