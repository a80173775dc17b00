"""Production-size inputs of the plans."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.contract import contiguous
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO


def cases() -> Mapping[str, BenchCase]:
    """By name: decode batches with four query tokens, and a prefill of 8192 tokens."""
    found = {f"csa-b{b}-q4": partial(_case, CSA_RATIO, True, b, 4) for b in (1, 64, 512)}
    found["csa-t8192"] = partial(_case, CSA_RATIO, True, 1, 8192)
    found["hca-t8192"] = partial(_case, HCA_RATIO, False, 1, 8192)
    return Cases(found)


def _case(ratio: int, overlap: bool, sequences: int, queries: int) -> BenchCase:
    context = 4096 + np.arange(sequences) + queries
    compress = int((context // ratio - (context - queries) // ratio).sum())
    write = sequences * min(queries, pooled(ratio, overlap))
    return BenchCase(
        values={
            "extend_lens": contiguous("int32", np.full(sequences, queries)),
            "context_lens": contiguous("int32", context),
            "compress_plan": contiguous("int32", np.zeros((compress, 4))),
            "write_plan": contiguous("int32", np.zeros((write, 4))),
            "ratio": ratio,
            "overlap": overlap,
            "draft_tokens": 0,
        },
        bytes_moved=8 * sequences + 16 * (compress + write),
    )
