"""Index builders and row moves on a GPU: offsets past 2**31 elements, and graphs replayed with other batches."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.kernels.decode_indices.kernel import write_v4_paged_decode_indices
from kvproof.kernels.row_scatter.kernel import swa_scatter_rows
from kvproof.kernels.slot_copy.kernel import copy_spans
from kvproof.kernels.state_update.kernel import update_compressor_states
from kvproof.kernels.window_gather.kernel import dspark_paged_window_gather
from kvproof.models.row_space import UnifiedPoolGeometry, WindowParams

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
ROW = 4_194_304
"""The first row whose offset, at 512 elements a row, is 2**31."""


def i32(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def test_rows_past_two_gigaelements_are_scattered_and_gathered() -> None:
    pool = torch.zeros(ROW + 2, 512, dtype=torch.uint8, device="cuda")
    kv = torch.arange(1024, device="cuda").remainder(251).to(torch.uint8).reshape(2, 512)
    swa_scatter_rows(kv, i32(ROW, ROW + 1), i32(0, 0), pool)
    assert torch.equal(pool[ROW:], kv)
    assert not pool[:ROW].any()
    window = WindowParams(ring_start=ROW, slot_rows=2, ring_slots=2, ring_stride=2, run_rows=2)
    found = dspark_paged_window_gather(pool, i32(0), i32(1), 2, window)
    assert torch.equal(found[0], kv)


def test_states_past_two_gigaelements_are_updated() -> None:
    stride, ring, dim = 2**30, 2, 4
    for slot in (1, 2):
        states = [torch.zeros(2 * stride + ring * dim, device="cuda") for _ in range(2)]
        views = [torch.as_strided(s, (3, ring, dim), (stride, dim, 1)) for s in states]
        row = torch.ones(1, dim, device="cuda")
        plan = i32(0, 0, 1, 0).reshape(1, 4)
        update_compressor_states(
            row,
            row,
            torch.zeros(1, dim, device="cuda"),
            *views,
            write_plan=plan,
            state_slot_mapping=i32(slot),
            ratio=1,
            overlap=False,
        )
        for state, view in zip(states, views, strict=True):
            assert torch.equal(view[slot, 1], row[0])
            assert int(state.count_nonzero()) == dim


def test_bytes_past_two_gigabytes_are_copied() -> None:
    source = torch.zeros(2**31 + 64, dtype=torch.uint8, device="cuda")
    source[-32:] = 7
    target = torch.zeros_like(source)
    granules = source.shape[0] // 16
    spans = torch.tensor([[granules - 2, granules - 4, 2]], dtype=torch.int64, device="cuda")
    copy_spans(source, target, spans)
    assert int(target.count_nonzero()) == 32
    assert (target[-64:-32] == 7).all()


def test_a_captured_index_build_serves_other_batches() -> None:
    geometry = UnifiedPoolGeometry([0, 4, 128], 2, 4, ring_slots=8, block_size=256)
    tokens, win = 6, 6
    batch: dict[str, Any] = {
        "state_slot_per_seq": i32(*(geometry.physical_slot(g) for g in range(4))),
        "batch_id_per_token": i32(0, 0, 1, 2, 3, 3),
        "positions": i32(3, 4, 0, 20, 8, 9),
    }
    buffers: dict[str, Any] = {}
    for name in ("swa", "csa", "hca"):
        buffers[f"{name}_indptr"] = i32(*(win * t for t in range(tokens + 1)))
        buffers[f"{name}_indices"] = torch.full((win * tokens,), -7, dtype=torch.int32, device="cuda")
    buffers["dest_rows"] = {r: torch.full((tokens,), -7, dtype=torch.int32, device="cuda") for r in (0, 4, 128)}

    def launch() -> None:
        write_v4_paged_decode_indices(**batch, **buffers, T=tokens, win=win, geometry=geometry)

    def outputs() -> list[Any]:
        return [buffers[f"{n}_indices"] for n in ("swa", "csa", "hca")] + list(buffers["dest_rows"].values())

    launch()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    # Fewer tokens, in other slots, with ids and positions of the former batch behind them.
    batch["state_slot_per_seq"].copy_(batch["state_slot_per_seq"].flip(0))
    batch["batch_id_per_token"].copy_(i32(2, 2, 2, -1, -1, -1))
    batch["positions"].copy_(i32(40, 41, 42, 20, 8, 9))
    for value in outputs():
        value.fill_(-7)
    graph.replay()
    replayed = [value.clone() for value in outputs()]
    for value in outputs():
        value.fill_(-7)
    launch()
    assert all(torch.equal(a, b) for a, b in zip(replayed, outputs(), strict=True))
    # Padded tokens keep what was there.
    assert (buffers["swa_indices"][win * 3 :] == -7).all()
    assert (buffers["dest_rows"][0][:3] >= 0).all()
    assert (buffers["dest_rows"][0][3:] == -7).all()
