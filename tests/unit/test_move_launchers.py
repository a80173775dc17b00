"""Launchers that build indices and move rows refuse what is outside their contracts, and take its neighbour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.harness.devices.registry import find_device
from kvproof.kernels.compress_plans.kernel import make_compress_plans
from kvproof.kernels.compress_plans.spec import compress_rows, write_rows
from kvproof.kernels.csa_translate.kernel import csa_translate_pack
from kvproof.kernels.decode_indices.kernel import write_v4_paged_decode_indices
from kvproof.kernels.hca_head.spec import hca_compress_paged_offsets
from kvproof.kernels.launch import launching_on
from kvproof.kernels.prefill_indices.kernel import write_v4_paged_prefill_indices
from kvproof.kernels.registry import all_kernels
from kvproof.kernels.row_scatter.kernel import swa_scatter_rows
from kvproof.kernels.slot_copy.kernel import copy_spans
from kvproof.kernels.slot_copy.spec import slot_spans
from kvproof.kernels.state_update.kernel import update_compressor_states
from kvproof.kernels.window_gather.kernel import dspark_paged_window_gather
from kvproof.kernels.window_write.kernel import swa_write
from kvproof.models.contract import TensorValue, bind, broken_clauses, contiguous
from kvproof.models.errors import LayoutError
from kvproof.models.row_space import UnifiedPoolGeometry

GEOMETRY = UnifiedPoolGeometry([4, 128], 2, 2, ring_slots=4, block_size=256)
BOTH_WITHOUT_DENSE = ("csa", "hca")


def i32(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def launches(call: Any, **arguments: Any) -> int:
    """How many kernels a call launches; none of them runs."""
    seen: list[Any] = []
    with launching_on(lambda kernel, grid, *_args, **_meta: seen.append((kernel, grid))):
        call(**arguments)
    return len(seen)


def scatter(**changed: Any) -> dict[str, Any]:
    given = {
        "kv": torch.zeros(2, 8, dtype=torch.bfloat16),
        "dest_rows": i32(0, 1),
        "batch_id_per_token": i32(0, 0),
        "pool": torch.zeros(4, 8, dtype=torch.bfloat16),
    }
    return given | changed


def test_a_scatter_within_its_contract_launches_once() -> None:
    assert launches(swa_scatter_rows, **scatter()) == 1
    planes = {"kv": None, "pool": torch.zeros(4, 8, dtype=torch.uint8)}
    packed = torch.zeros(2, 1, 8, dtype=torch.uint8)
    rope, pool_rope = torch.zeros(2, 1, 4, dtype=torch.bfloat16), torch.zeros(4, 4, dtype=torch.bfloat16)
    both = scatter(**planes, k_packed=packed, k_rope=rope, pool_rope=pool_rope)
    assert launches(swa_scatter_rows, **both) == 1


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"dest_rows": i32(0)}, ValueError, "dest_rows must have at least 2 elements, got 1"),
        ({"batch_id_per_token": torch.zeros(2)}, TypeError, "batch_id_per_token must be int32"),
        ({"pool": torch.zeros(4, 9, dtype=torch.bfloat16)}, ValueError, r"pool must have shape \[rows, 8\]"),
        ({"pool": torch.zeros(4, 8)}, TypeError, "pool must be bfloat16"),
        ({"pool": torch.zeros(1, 8, dtype=torch.bfloat16).expand(4, 8)}, ValueError, "overlap"),
        ({"kv": None}, ValueError, "kv must be given"),
        ({"k_rope": torch.zeros(2, 4)}, ValueError, "must be given together"),
    ],
)
def test_a_scatter_outside_its_contract_is_refused(changed: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        launches(swa_scatter_rows, **scatter(**changed))


def decode(**changed: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "state_slot_per_seq": i32(0),
        "batch_id_per_token": i32(0),
        "positions": i32(0),
        "dest_rows": {ratio: i32(-1) for ratio in (0, 4, 128)},
        "T": 1,
        "win": 4,
        "geometry": GEOMETRY,
    }
    for name in ("swa", "csa", "hca"):
        given |= {f"{name}_indptr": i32(0, 1), f"{name}_indices": i32(-1)}
    return given | changed


def test_decode_indices_of_absent_classes_launch_nothing() -> None:
    assert launches(write_v4_paged_decode_indices, **decode()) == 1
    assert launches(write_v4_paged_decode_indices, **decode(T=0)) == 0
    off = {f"{name}_{part}": None for name in BOTH_WITHOUT_DENSE for part in ("indptr", "indices")}
    # Only the dense buffers are left, and the pool has no dense layer.
    assert launches(write_v4_paged_decode_indices, **decode(**off)) == 0


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"win": 5}, ValueError, "win must be an integer from 1 to 4, got 5"),
        ({"csa_indices": None}, ValueError, "csa_indptr and csa_indices must be given together"),
        ({"dest_rows": {4: i32(-1)}}, ValueError, "dest_rows must have a buffer for ratio 128"),
        ({"T": 2}, ValueError, "batch_id_per_token must have at least 2 elements, got 1"),
        ({"positions": torch.zeros(1)}, TypeError, "positions must be int32 or int64"),
        ({"geometry": None}, TypeError, "geometry must be a UnifiedPoolGeometry"),
    ],
)
def test_decode_indices_outside_the_contract_are_refused(
    changed: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        launches(write_v4_paged_decode_indices, **decode(**changed))


def prefill(**changed: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "positions": i32(0),
        "bid_per_token": i32(0),
        "chunk_start_per_seq": i32(0),
        "cu_seqlens_q_per_seq": i32(0),
        "state_slot_per_seq": i32(0),
        "n_committed_hca_per_seq": i32(0),
        "block_tables": i32(0).reshape(1, 1),
        "T": 1,
        "win": 4,
        "geometry": GEOMETRY,
        "hca_rows_per_block": 2,
    }
    for name in ("extend", "prefix_swa", "prefix_csa", "prefix_hca"):
        given |= {f"{name}_indptr": i32(0, 1), f"{name}_indices": i32(-1)}
    return given | changed


def test_prefill_refuses_another_number_of_groups_a_block() -> None:
    assert launches(write_v4_paged_prefill_indices, **prefill()) == 1
    with pytest.raises(ValueError, match="hca_rows_per_block must be 2 for a block of 256 tokens, got 1"):
        launches(write_v4_paged_prefill_indices, **prefill(hca_rows_per_block=1))
    with pytest.raises(ValueError, match="hca_ratio must be 128, got 64"):
        launches(write_v4_paged_prefill_indices, **prefill(hca_ratio=64))


def translate(**changed: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "topk_local": i32(0).reshape(1, 1),
        "block_tables": i32(0).reshape(1, 1),
        "positions": i32(3),
        "kv_indptr_csa": i32(0, 1),
        "batch_id_per_token": i32(0),
        "skip_prefix_len_per_token": i32(0),
        "kv_indices_csa": i32(-1),
        "envelope_rows": 64,
        "csa_block_capacity": 64,
    }
    return given | changed


def test_translate_needs_the_window_s_length_from_somewhere() -> None:
    assert launches(csa_translate_pack, **translate()) == 1
    assert launches(csa_translate_pack, **translate(window_size=4, skip_prefix_len_per_token=None)) == 1
    with pytest.raises(ValueError, match="skip_prefix_len_per_token must be given if window_size is 0"):
        launches(csa_translate_pack, **translate(skip_prefix_len_per_token=None))
    with pytest.raises(ValueError, match="envelope_rows must be an integer from 64"):
        launches(csa_translate_pack, **translate(envelope_rows=63))


def test_a_window_wider_than_the_ring_is_not_gathered() -> None:
    window = GEOMETRY.window_params(4)
    given = {"pool": torch.zeros(9, 8), "state_slot_per_seq": i32(0), "anchor_pos": i32(5), "window": window}
    assert launches(dspark_paged_window_gather, draft_window=4, **given) == 1
    with pytest.raises(ValueError, match="draft_window must be an integer from 0 to 4, got 5"):
        launches(dspark_paged_window_gather, draft_window=5, **given)


def test_two_planes_are_written_from_one_launch() -> None:
    given = {
        "kv": None,
        "positions": i32(0),
        "cu_seqlens_q": i32(0, 1),
        "state_slot_per_seq": i32(0),
        "pool": torch.zeros(9, 8, dtype=torch.uint8),
        "window": GEOMETRY.window_params(4),
        "write_per_batch": 1,
        "k_packed": torch.zeros(1, 8, dtype=torch.uint8),
        "k_rope": torch.zeros(1, 4, dtype=torch.bfloat16),
        "pool_rope": torch.zeros(9, 4, dtype=torch.bfloat16),
    }
    assert launches(swa_write, **given) == 1
    with pytest.raises(ValueError, match=r"pool_rope must have shape \[9, 4\]"):
        launches(swa_write, **(given | {"pool_rope": torch.zeros(8, 4, dtype=torch.bfloat16)}))


def test_a_state_ring_shorter_than_an_entry_is_refused() -> None:
    def given(ring: int) -> dict[str, Any]:
        states = {name: torch.zeros(1, ring, 4) for name in ("kv_state", "score_state")}
        plan = torch.zeros(1, 4, dtype=torch.int32)
        rows = {"kv": torch.zeros(1, 4), "score": torch.zeros(1, 4), "ape": torch.zeros(4, 4)}
        return {**rows, **states, "write_plan": plan, "state_slot_mapping": i32(0), "ratio": 4, "overlap": True}

    assert launches(update_compressor_states, **given(8)) == 1
    with pytest.raises(ValueError, match="rings of 7 positions; ratio 4 with overlap True pools 8"):
        launches(update_compressor_states, **given(7))


# ---- host functions -----------------------------------------------------


@pytest.mark.parametrize(("ratio", "overlap"), [(4, True), (128, False)])
def test_plans_equal_the_token_by_token_form(ratio: int, overlap: bool) -> None:
    extend, context = [3, 0, 200, 1], [7, 5, 456, 128]
    plan = make_compress_plans(extend, context, [(ratio, overlap)])[ratio]
    compress, write = (f(extend, context, ratio, overlap) for f in (compress_rows, write_rows))
    assert [tuple(row) for row in plan.compress_plan.tolist()] == compress
    assert [tuple(row) for row in plan.write_plan.tolist()] == write
    assert plan.cu_compress.tolist() == [sum(row[1] < b for row in compress) for b in range(5)]


def test_a_captured_plan_has_the_same_length_for_every_batch() -> None:
    lengths = set()
    for extend, context in (([4, 4], [8, 9]), ([4], [6]), ([], [])):
        plan = make_compress_plans(extend, context, [(4, True)], graph_bs=2, max_q_len=4)[4]
        lengths.add((len(plan.compress_plan), len(plan.write_plan)))
        assert (plan.compress_plan[plan.num_compress :] == -1).all()
        assert (plan.write_plan[plan.num_write :] == -1).all()
    assert lengths == {(2, 8)}


@pytest.mark.parametrize(
    ("extend", "context", "message"),
    [([2], [1], r"extend_lens\[0\] is 2; allowed: 0 to context_lens\[0\] \(1\)"), ([1], [1, 2], "one shape")],
)
def test_lengths_that_do_not_fit_are_refused(extend: Any, context: Any, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        make_compress_plans(extend, context, [(4, True)])


def test_a_plan_buffer_too_small_is_refused() -> None:
    def buffers(rows: int) -> Any:
        return {4: {"compress": np.empty((rows, 4), np.int32), "write": np.empty((rows, 4), np.int32)}}

    assert make_compress_plans([4], [4], [(4, True)], plan_buffers=buffers(4))[4].num_write == 4
    with pytest.raises(LayoutError, match=r"plan_buffers\[4\]\['write'\] has 3 rows"):
        make_compress_plans([4], [4], [(4, True)], plan_buffers=buffers(3))


def test_hca_rows_on_the_host() -> None:
    table = [[5, 3], [2, -1]]
    found = hca_compress_paged_offsets([0, 1, 2, 3, 2, 4, -1], [0, 0, 0, 0, 1, 0, 0], table, 100, 2)
    assert found.tolist() == [500, 501, 300, 301, -1, -1, -1]
    with pytest.raises(LayoutError, match="indices are int32"):
        hca_compress_paged_offsets([0], [0], [[2**31 - 1]], 2, 2)


def test_a_slot_goes_to_its_image_and_back() -> None:
    size = GEOMETRY.slot_bytes(8)
    plane = np.random.default_rng(0).integers(0, 256, GEOMETRY.plane_bytes(8)).astype(np.uint8)
    slots = [GEOMETRY.physical_slot(1), GEOMETRY.physical_slot(0)]
    kernel, device = all_kernels()["slot_copy"], find_device("interpret")

    def copy(source: Any, target: Any, restore: bool) -> Any:
        spans = slot_spans(GEOMETRY, 8, slots, [0, 1], restore=restore, granule=8)
        values = {"source": contiguous("uint8", source), "target": contiguous("uint8", target)}
        return device.run(kernel, {**values, "spans": contiguous("int64", spans), "granule": 8})["target"].array

    image = copy(plane, np.zeros(2 * size, np.uint8), restore=False)
    for number, slot in enumerate(slots):
        start, stop = (row * 8 for row in GEOMETRY.slot_span(slot))
        assert (image[number * size : (number + 1) * size] == plane[start:stop]).all()
    blank = plane.copy()
    for slot in slots:
        start, stop = (row * 8 for row in GEOMETRY.slot_span(slot))
        blank[start:stop] = 0
    assert (copy(image, blank, restore=True) == plane).all()
    with pytest.raises(LayoutError, match="granule 7 does not divide"):
        slot_spans(GEOMETRY, 8, slots, [0, 1], granule=7)


def test_a_target_where_another_span_is_read_breaks_the_contract() -> None:
    """Only in one buffer: two buffers have no byte in common."""
    contract = all_kernels()["slot_copy"].contract
    storage = np.zeros(16, np.uint8)
    whole = TensorValue("uint8", storage, (16,), (1,))
    other = contiguous("uint8", storage.copy())
    for target, broken in ((whole, ["no target a source"]), (other, [])):
        spans = contiguous("int64", [[0, 8, 4], [8, 12, 4]])
        arguments = bind(contract, {"source": whole, "target": target, "spans": spans, "granule": 1})
        assert [clause.name for clause, _ in broken_clauses(contract, arguments)] == broken


def test_spans_of_another_type_are_refused() -> None:
    buffer = torch.zeros(16, dtype=torch.uint8)
    assert (
        launches(copy_spans, source=buffer, target=buffer.clone(), spans=torch.zeros(1, 3, dtype=torch.int64)) == 1
    )
    with pytest.raises(TypeError, match="spans must be int64"):
        launches(copy_spans, source=buffer, target=buffer, spans=torch.zeros(1, 3, dtype=torch.int32))
