"""The launches of a decode step over 61 layers: what they leave in the pool and in the lists."""

from __future__ import annotations

import numpy as np
import pytest

from kvproof.harness.bench.decode_step import DecodeStep, bound
from kvproof.kernels.csa_translate.spec import entry_row
from kvproof.kernels.index_spec import window_index
from kvproof.models.deepseek_v4 import CONFIGS, with_kv
from kvproof.models.row_space import CSA_RATIO

PRO = with_kv(CONFIGS["v4-pro"], "bf16")


def test_every_layer_has_its_launches() -> None:
    step = DecodeStep(PRO, sequences=2, queries=2, context=254)
    by_layer = [[one.kernel for one in step.launches if one.layer == layer] for layer in step.layers]
    assert len(by_layer) == 61
    assert all(kernels[:2] == ["window_write", "row_scatter"] for kernels in by_layer)
    assert [kernels[2:] == ["csa_translate"] for kernels in by_layer] == [r == CSA_RATIO for r in PRO.trunk_ratios]
    assert [one.kernel for one in step.launches if one.layer is None] == ["decode_indices", "hca_head"]


def test_only_a_single_plane_of_bf16_rows_is_taken() -> None:
    with pytest.raises(ValueError, match="single plane"):
        DecodeStep(CONFIGS["v4-pro"], sequences=1, queries=1, context=128)


def test_a_step_writes_each_layers_rows_and_nothing_else() -> None:
    pytest.importorskip("triton")
    from kvproof.harness.ir.launch import Executor
    from kvproof.kernels.launch import launching_on

    step = DecodeStep(PRO, sequences=2, queries=2, context=254)
    calls, results = bound(step.launches, "cpu")
    executor = Executor()
    with launching_on(executor):
        for call in calls:
            call()
    executor.take()
    found = results()
    rows = int(step.geometry.plane_rows)
    pool = found["2.pool"].storage.reshape(rows, -1)
    kv = step.kv.storage.reshape(step.tokens, -1)
    expected = np.zeros_like(pool)
    writers = np.zeros(rows, np.int64)
    for layer in step.layers:
        ratio, base = PRO.ratios[layer], int(step.geometry.layer_base_row(layer))
        own = window_index(step.geometry, ratio, step.slots[step.sequence], step.positions)
        entry, live = step.entries(ratio)
        for at, token in [
            *zip(own, range(step.tokens), strict=True),
            *zip(entry[live], np.nonzero(live)[0], strict=True),
        ]:
            expected[base + at] = kv[token]
            writers[base + at] += 1
    assert writers.max() == 1, "two launches of a step share a row"
    assert writers.sum() == 61 * step.tokens + sum(int(step.entries(PRO.ratios[n])[1].sum()) for n in step.layers)
    np.testing.assert_array_equal(pool, expected)

    last = next(i for i in reversed(range(len(step.launches))) if step.launches[i].kernel == "csa_translate")
    cells = found[f"{last}.kv_indices_csa"].array
    chosen, win = step.launches[last].values["topk_local"].array, PRO.sliding_window
    for token, (sequence, position) in enumerate(zip(step.sequence, step.positions, strict=True)):
        part = cells[token * (PRO.index_topk + win) : (token + 1) * (PRO.index_topk + win)]
        capacity, columns = PRO.block_size // CSA_RATIO, step.tables.shape[1]
        head = [
            entry_row(step.tables, sequence, e, position, step.geometry.envelope_rows, capacity, columns)
            for e in chosen[token]
        ]
        seen = np.arange(position - win + 1, position + 1)
        tail = window_index(step.geometry, CSA_RATIO, step.slots[sequence], seen)
        np.testing.assert_array_equal(part, [*head, *tail])
