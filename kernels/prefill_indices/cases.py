"""Production-size inputs of the prefill index build: chunks of 8192 tokens behind prefixes of up to 131,072."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.kernels.decode_indices.contract import CLASSES
from kvproof.kernels.prefill_indices.spec import extend_low, prefix_count, visible_groups
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO


def cases() -> Mapping[str, BenchCase]:
    """By name: one request behind a prefix, and sixteen requests of 512 tokens each."""
    found = {f"t8192-prefix{prefix}": partial(_case, 1, 8192, prefix) for prefix in (0, 8192, 65_536, 131_072)}
    found["b16-t512-prefix8192"] = partial(_case, 16, 512, 8192)
    return Cases(found)


def _case(sequences: int, chunk: int, prefix: int) -> BenchCase:
    config = CONFIGS["v4-flash-mtp1"]
    win, tokens = config.sliding_window, sequences * chunk
    columns = -(-(prefix + chunk) // config.block_size)
    geometry = config.geometry(num_blocks=max(sequences * columns, 20_000), num_slots=max(sequences, 64))
    draw = np.random.default_rng(0)
    blocks = draw.permutation(geometry.num_blocks)[: sequences * columns].reshape(sequences, columns)
    positions = np.tile(prefix + np.arange(chunk), sequences)
    committed = (prefix + chunk) // HCA_RATIO
    window = prefix_count(positions, np.int64(prefix), win)
    lengths = {
        "extend": positions - extend_low(positions, np.int64(prefix), win) + 1,
        "prefix_swa": window,
        "prefix_csa": window + np.minimum((positions + 1) // CSA_RATIO, config.index_topk),
        "prefix_hca": window + visible_groups(positions, np.int64(committed)),
    }
    values: dict[str, object] = {
        "positions": contiguous("int64", positions),
        "bid_per_token": contiguous("int32", np.repeat(np.arange(sequences), chunk)),
        "chunk_start_per_seq": contiguous("int32", np.full(sequences, prefix)),
        "cu_seqlens_q_per_seq": contiguous("int32", np.arange(sequences) * chunk),
        "state_slot_per_seq": contiguous("int32", geometry.physical_slot(0) - draw.permutation(sequences)),
        "n_committed_hca_per_seq": contiguous("int32", np.full(sequences, committed)),
        "block_tables": contiguous("int32", blocks),
        "T": tokens,
        "win": win,
        "geometry": geometry,
        "hca_ratio": HCA_RATIO,
        "hca_rows_per_block": config.block_size // HCA_RATIO,
    }
    for name, length in lengths.items():
        bounds = np.concatenate([[0], np.cumsum(length)])
        values[f"{name}_indptr"] = contiguous("int32", bounds)
        values[f"{name}_indices"] = contiguous("int32", np.full(int(bounds[-1]), -1))
    written = int(sum(lengths[name].sum() for name in ("extend", "prefix_swa", "prefix_hca")) + window.sum())
    # Cells, each token's id, position and slice bounds, and the blocks of each sequence.
    per_token = 4 + 8 + 4 * (1 + len(CLASSES))
    return BenchCase(values, bytes_moved=4 * written + tokens * per_token + 4 * sequences * (5 + columns))
