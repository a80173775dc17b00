"""The row space against known answers, against counting, and at the edge of what it accepts."""

import json

import pytest

from kvproof.models.deepseek_v4 import CONFIGS, config_from_hf, real_configs, with_kv
from kvproof.models.errors import AbsentClassError, LayoutError
from kvproof.models.row_space import UnifiedPoolGeometry, entry_rows_for

# configuration, KV dtype, E, block bytes, entry rows by ratio, slot rows without arena, arena, slot rows, bytes
KNOWN = [
    ("v4-flash", "fp8", 1384, 885_760, {0: 256, 128: 2560, 4: 2688}, 5504, 20480, 25984, 16_629_760),
    ("v4-flash", "bf16", 1384, 1_417_216, {0: 256, 128: 2560, 4: 2688}, 5504, 11920, 17424, 17_842_176),
    ("v4-flash-dspark", "fp8", 1384, 885_760, {0: 262, 128: 2639, 4: 3971}, 6872, 21422, 28296, 18_109_440),
    ("v4-pro", "fp8", 1982, 1_268_480, {128: 3968, 4: 3840}, 7808, 31744, 39552, 25_313_280),
]


@pytest.mark.parametrize(("name", "kv", "envelope", "block", "entries", "bare", "arena", "slot", "size"), KNOWN)
def test_known_answers(name, kv, envelope, block, entries, bare, arena, slot, size):
    config = with_kv(CONFIGS[name], kv)
    space = config.geometry(7, 3)
    widths = [plane.row_bytes for plane in config.planes]
    assert space.envelope_rows == envelope
    assert sum(space.block_bytes(width) for width in widths) == block
    assert {ratio: cls.entry_rows for ratio, cls in space.classes.items()} == entries
    without = UnifiedPoolGeometry(config.ratios, 0, 0, config.ring_slots, config.block_size)
    assert without.slot_rows == bare
    assert config.state_layout().arena_rows == arena
    assert space.slot_rows == slot
    assert sum(space.slot_bytes(width) for width in widths) == size


def test_the_fixture_with_three_dense_draft_layers():
    ratios = [0, 0, *[4, 128] * 20, 4, 0, 0, 0]
    space = UnifiedPoolGeometry(ratios, 1, 1, ring_slots=131, block_size=256)
    assert {ratio: cls.entry_rows for ratio, cls in space.classes.items()} == {0: 655, 128: 2639, 4: 3971}


def test_every_configuration_has_both_caches_and_a_name_of_its_own():
    configs = real_configs()
    assert len({config.name for config in configs}) == len(configs) == 12
    assert {config.kv for config in configs} == {"fp8", "bf16"}


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("ring", [1, 2, 3, 7])
def test_the_height_is_the_least_that_residues_leave_room_for(layers, stride, ring):
    # A row's residue is its position's, so each residue needs a row per layer and position that has it.
    height = 0
    for residue in range(min(stride, ring)):
        wanted = layers * len(range(residue, ring, stride))
        height = max(height, residue + (wanted - 1) * stride + 1)
    assert entry_rows_for(layers, stride, ring) == height


SMALL = {"ratios": [0, 4, 128, -1], "num_blocks": 2, "num_slots": 3, "ring_slots": 130, "block_size": 128}


def small(**changes):
    return UnifiedPoolGeometry(**{**SMALL, **changes})


def test_addresses_of_a_small_pool_never_meet_and_stay_in_view():
    space = small(arena_rows=3)
    seen = {}
    for layer, ratio in enumerate(space.ratios):
        if ratio == -1:
            continue
        cls = space.classes[ratio]
        indices = [
            (("block", b, r), space.compress_index(layer, b, r)) for b in range(2) for r in range(cls.block_rows)
        ]
        for group in range(3):
            slot = space.physical_slot(group)
            indices += [(("slot", slot, q), space.window_index(layer, slot, q)) for q in range(130)]
        for what, index in indices:
            assert 0 <= index < space.layer_view_rows(layer)
            row = space.absolute_row(layer, index)
            assert row not in seen, (layer, what, seen[row])
            seen[row] = (layer, what)
    arena = [row for group in range(3) for row in range(*space.arena_span(space.physical_slot(group)))]
    assert not seen.keys() & set(arena)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ratios": []}, "ratios is empty"),
        ({"ratios": [0, 7]}, r"unknown V4 compress ratios \[7\]"),
        ({"ratios": [0, True]}, r"ratios\[1\] must be an integer, got True"),
        ({"ratios": [-1]}, "at least one layer must be present"),
        ({"block_size": 64}, "block_size is 64, not a multiple of ratio 128"),
        ({"block_size": 0}, "block_size must be an integer of at least 1, got 0"),
        ({"block_size": 128.0}, "block_size must be an integer of at least 1, got 128.0"),
        ({"num_blocks": -1}, "num_blocks must be an integer of at least 0, got -1"),
        ({"num_slots": -1}, "num_slots must be an integer of at least 0, got -1"),
        ({"ring_slots": 0}, "ring_slots must be an integer of at least 1, got 0"),
        ({"arena_rows": -1}, "arena_rows must be an integer of at least 0, got -1"),
        ({"slot_align_rows": 0}, "slot_align_rows must be an integer of at least 1, got 0"),
        ({"plane_rows": 100}, "plane_rows is 100, which cannot hold 2 blocks"),
        ({"slot_positions": 3}, "slot_positions is 3, fewer than the 4 slots"),
        (
            {"ratios": [128, 4], "num_blocks": 0, "ring_slots": 1, "block_size": 256},
            "below row 2 where the layer's",
        ),
    ],
)
def test_a_layout_that_would_mis_map_is_refused(changes, words):
    assert small()
    with pytest.raises(LayoutError, match=words):
        small(**changes)


def test_formulas_refuse_what_lies_outside():
    space = small()
    refused = [
        (lambda: space.physical_slot(3), "group 3 outside 0..3"),
        (lambda: space.slot_span(space.slot_positions), "slot 4 outside 0..4"),
        (lambda: space.block_span(2), "block 2 outside 0..2"),
        (lambda: space.window_index(0, 0, 130), "ring position 130 outside 0..130"),
        (lambda: space.window_index(0, -1, 0), "slot -1 below 0"),
        (lambda: space.compress_index(0, 0, 0), "layer 0 is dense"),
        (lambda: space.compress_index(1, 0, 32), "row 32 outside 0..32"),
        (lambda: space.compress_index(1, -1, 0), "block -1 must not be negative"),
        (lambda: space.layer_base_row(-1), "layer_id must be an integer from 0 to 3, got -1"),
        (lambda: space.layer_base_row(3), "layer 3 is absent"),
        (lambda: space.absolute_row(0, -1), "index -1 must not be negative"),
        (lambda: space.block_bytes(0), "row_bytes must be an integer of at least 1, got 0"),
    ]
    for formula, words in refused:
        with pytest.raises(LayoutError, match=words):
            formula()
    with pytest.raises(AbsentClassError):
        small(ratios=[0]).window_params(4)


def test_moving_the_boundary_keeps_a_numbering_that_another_plane_gave():
    space = small(plane_rows=5000, slot_positions=40)
    moved = space.with_capacity(5, 1, 5000)
    assert moved.slot_origin == space.slot_origin > 0
    assert moved.window_params(4) == space.window_params(4)
    assert moved.physical_slot(0) == space.physical_slot(0) == 39


HF = {
    "compress_ratios": [0, 4, 128, 0],
    "sliding_window": 128,
    "num_hidden_layers": 3,
    "num_nextn_predict_layers": 1,
    "index_topk": 512,
}


def test_a_model_is_read_from_its_config_json(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(HF))
    plain = config_from_hf(path)
    assert (plain.ratios, plain.ring_slots, plain.kv) == ((0, 4, 128), 128, "fp8")
    drafted = config_from_hf(path, draft_tokens=1, kv="bf16", block_size=128)
    assert (drafted.ratios, drafted.ring_slots, drafted.block_size) == ((0, 4, 128, 0), 129, 128)
    assert config_from_hf(path, draft="dspark", draft_tokens=3).ratios == (0, 4, 128, -1, -1, -1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compress_ratios": [0, 4]}, r"has 2 entries; allowed: num_hidden_layers \(3\)"),
        ({"compress_ratios": "0 4"}, "must be a list of ratios"),
        ({"compress_ratios": [0, 4, 7]}, "unknown V4 compress ratios"),
        ({"num_hidden_layers": 0}, "num_hidden_layers in .* must be an integer from 1 to"),
        ({"sliding_window": 1.5}, "sliding_window in .* must be an integer"),
    ],
)
def test_a_config_json_that_is_no_model_is_refused(tmp_path, changes, words):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**HF, **changes}))
    with pytest.raises(LayoutError, match=words):
        config_from_hf(path)
    with pytest.raises(LayoutError, match="is not a file"):
        config_from_hf(tmp_path)
