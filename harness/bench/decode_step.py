"""The KV side of one decode step: every launch that places rows, of all layers of a model, over one pool.

Index build once a forward; then, layer by layer, the window rows of the new tokens, the rows of the entries that
they complete, and on CSA layers the translation of the entries that the layer's indexer selected. All of it is
captured into one graph in production, and timed so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.kernels.benchmark import pattern
from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import TensorValue, contiguous
from kvproof.models.deepseek_v4 import HEAD_DIM, ModelConfig
from kvproof.models.index import cdiv
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO

NAMES = {CSA_RATIO: "csa", HCA_RATIO: "hca"}
STAGGER = 17
"""Positions by which each sequence is ahead of the one before."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StepLaunch:
    """One launch of a step.

    Attributes:
        layer: layer that it serves; None of the index build.
        kernel: name of the kernel.
        values: its contract's arguments. What several launches share is the same tensor.
    """

    layer: int | None
    kernel: str
    values: Mapping[str, Any]


class DecodeStep:
    """The launches of one step in bf16.

    Args:
        config: the model; of one plane.
        sequences, queries: sequences of the batch, and new tokens of each.
        context: tokens of the first sequence before this step.
        seed: of the order of slots and blocks, and of what the indexers select.

    Raises:
        ValueError: a model with other planes.
    """

    def __init__(self, config: ModelConfig, sequences: int, queries: int, context: int, seed: int = 0) -> None:
        if [plane.row_bytes for plane in config.planes] != [2 * HEAD_DIM]:
            raise ValueError(f"config is {config.name!r}; allowed: one with a single plane of bf16 rows")
        self.config = config
        self.draw = np.random.default_rng(seed)
        self.tokens = sequences * queries
        self.sequence: Ints = np.repeat(np.arange(sequences), queries)
        start = context + STAGGER * np.arange(sequences)
        self.positions: Ints = (start[:, None] + np.arange(queries)).reshape(-1)
        columns = int(cdiv(int(self.positions.max()) + 1, config.block_size))
        self.geometry = config.geometry(num_blocks=sequences * columns, num_slots=sequences)
        self.tables: Ints = self.draw.permutation(sequences * columns).reshape(sequences, columns)
        self.slots: Ints = self.geometry.physical_slot(0) - self.draw.permutation(sequences)
        rows = int(self.geometry.plane_rows)
        self.pool = contiguous("bf16", np.zeros(rows * HEAD_DIM, np.uint16), (rows, HEAD_DIM))
        self.kv = contiguous("bf16", pattern("bf16", self.tokens * HEAD_DIM), (self.tokens, HEAD_DIM))
        self.shared = {
            "batch_id_per_token": contiguous("int32", self.sequence),
            "positions": contiguous("int64", self.positions),
            "state_slot_per_seq": contiguous("int32", self.slots),
            "cu_seqlens_q": contiguous("int32", np.arange(sequences + 1) * queries),
            "block_tables": contiguous("int32", self.tables),
        }
        self.heads: dict[int, Ints] = {
            CSA_RATIO: np.full(self.tokens, config.index_topk),
            HCA_RATIO: ((context + STAGGER * self.sequence + queries) // HCA_RATIO),
        }
        self.lists: dict[str, TensorValue] = {}
        for ratio, name in NAMES.items():
            ends = np.cumsum(self.heads[ratio] + config.sliding_window)
            self.lists[f"{name}_indptr"] = contiguous("int32", np.concatenate([[0], ends]))
            self.lists[f"{name}_indices"] = contiguous("int32", np.full(int(ends[-1]), -1))
            self.lists[f"dest_rows_{name}"] = contiguous("int32", np.full(self.tokens, -1))
        self.launches = [*self._index_build(), *(one for layer in self.layers for one in self._layer(layer))]

    @property
    def layers(self) -> range:
        """Trunk layers."""
        return range(len(self.config.trunk_ratios))

    def view(self, layer: int) -> TensorValue:
        """The pool from a layer's base row on."""
        base = int(self.geometry.layer_base_row(layer))
        rows = int(self.geometry.plane_rows) - base
        return TensorValue("bf16", self.pool.storage, (rows, HEAD_DIM), (HEAD_DIM, 1), base * HEAD_DIM)

    def _index_build(self) -> list[StepLaunch]:
        absent = dict.fromkeys(("swa_indptr", "swa_indices", "dest_rows_swa"))
        known = {"T": self.tokens, "win": self.config.sliding_window, "geometry": self.geometry}
        common = {name: self.shared[name] for name in ("batch_id_per_token", "positions")}
        slots = {"state_slot_per_seq": self.shared["state_slot_per_seq"]}
        build = StepLaunch(None, "decode_indices", {**common, **slots, **known, **absent, **self.lists})
        committed = self.heads[HCA_RATIO][:: self.tokens // len(self.slots)]
        head = {
            "block_tables": self.shared["block_tables"],
            "n_committed_hca_per_seq": contiguous("int32", committed),
            "hca_indptr": self.lists["hca_indptr"],
            "hca_indices": self.lists["hca_indices"],
        }
        return [build, StepLaunch(None, "hca_head", {**common, **known, **head})]

    def _layer(self, layer: int) -> list[StepLaunch]:
        ratio, pool = self.config.ratios[layer], self.view(layer)
        assert ratio != DENSE_RATIO, "a dense layer keeps no entries"
        names = ("positions", "cu_seqlens_q", "state_slot_per_seq")
        write = {
            "kv": self.kv,
            **{name: self.shared[name] for name in names},
            "pool": pool,
            "window": self.geometry.window_params(ratio),
            "write_per_batch": self.tokens // len(self.slots),
        }
        rows, live = self.entries(ratio)
        scatter = {
            "kv": self.kv,
            "dest_rows": contiguous("int32", rows),
            "batch_id_per_token": contiguous("int32", np.where(live, self.sequence, -1)),
            "pool": pool,
        }
        found = [StepLaunch(layer, "window_write", write), StepLaunch(layer, "row_scatter", scatter)]
        return [*found, self._translate(layer)] if ratio == CSA_RATIO else found

    def entries(self, ratio: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """(row of the entry that each token belongs to, whether the token completes it)."""
        entry, capacity = self.positions // ratio, self.config.block_size // ratio
        block = self.tables[self.sequence, entry // capacity]
        rows = block * int(self.geometry.envelope_rows) + entry % capacity
        return rows, (self.positions + 1) % ratio == 0

    def _translate(self, layer: int) -> StepLaunch:
        topk = self.config.index_topk
        chosen = self.draw.integers(0, (self.positions // CSA_RATIO)[:, None], (self.tokens, topk))
        names = ("block_tables", "positions", "batch_id_per_token")
        values = {
            "topk_local": contiguous("int32", chosen),
            **{name: self.shared[name] for name in names},
            "kv_indptr_csa": self.lists["csa_indptr"],
            "skip_prefix_len_per_token": None,
            "kv_indices_csa": self.lists["csa_indices"],
            "envelope_rows": self.geometry.envelope_rows,
            "csa_block_capacity": self.config.block_size // CSA_RATIO,
            "window_size": self.config.sliding_window,
        }
        return StepLaunch(layer, "csa_translate", values)

    @property
    def bytes_moved(self) -> int:
        """Bytes that the rows and lists alone take, read and written once."""
        row, found = 2 * HEAD_DIM * 2, 0
        for ratio in (self.config.ratios[layer] for layer in self.layers):
            found += (self.tokens + int(self.entries(ratio)[1].sum())) * row
            found += self.tokens * self.config.index_topk * (4 + 4) if ratio == CSA_RATIO else 0
        return found + sum(value.storage.nbytes for value in self.lists.values())


def bound(launches: Sequence[StepLaunch], device: str) -> tuple[list[Callable[[], object]], Callable[[], Any]]:
    """(each launch as a call on a torch device, what returns every tensor as it is now).

    Tensors that launches share are one tensor there, the pool's views among them. Names of the tensors are
    "<number of the launch>.<argument>".
    """
    from kvproof.harness.devices.torch_values import TorchArguments  # noqa: PLC0415  (needs torch)

    named = {f"{i}.{name}": value for i, one in enumerate(launches) for name, value in one.values.items()}
    placed = TorchArguments(named, device)
    calls: list[Callable[[], object]] = []
    for i, one in enumerate(launches):
        launcher = all_kernels()[one.kernel].load()
        given = {name: placed.arguments[f"{i}.{name}"] for name in one.values}
        calls.append(lambda launcher=launcher, given=given: launcher(**given))
    return calls, placed.results
