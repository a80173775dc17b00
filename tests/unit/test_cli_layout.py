"""``kvproof layout`` prints the known answers, and its JSON holds the same facts."""

import json

import pytest

from kvproof.harness.cli.layout_facts import layout_facts
from kvproof.harness.cli.layout_text import spans
from kvproof.harness.cli.main import main
from kvproof.models.deepseek_v4 import real_configs

# As served in production: E, block bytes, heights by class, slot rows without arena, arena, slot rows, slot bytes.
KNOWN = {
    "v4-flash": (1384, 885_760, {"dense": 256, "HCA": 2560, "CSA": 2688}, 5504, 20480, 25984, 16_629_760),
    "v4-flash-bf16": (1384, 1_417_216, {"dense": 256, "HCA": 2560, "CSA": 2688}, 5504, 11920, 17424, 17_842_176),
    "v4-flash-dspark": (1384, 885_760, {"dense": 262, "HCA": 2639, "CSA": 3971}, 6872, 21422, 28296, 18_109_440),
    "v4-pro": (1982, 1_268_480, {"HCA": 3968, "CSA": 3840}, 7808, 31744, 39552, 25_313_280),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_known_answers(name, capsys):
    envelope, block_bytes, heights, without_arena, arena, rows, slot_bytes = KNOWN[name]
    assert main(["layout", name, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["block"]["envelope_rows"] == envelope
    assert facts["block"]["bytes"] == block_bytes
    assert {cls["name"]: cls["entry_rows"] for cls in facts["classes"]} == heights
    assert facts["slot"]["slot_rows_without_arena"] == without_arena
    assert facts["slot"]["arena_rows"] == arena
    assert facts["slot"]["slot_rows"] == rows
    assert facts["slot"]["bytes"] == slot_bytes
    assert main(["layout", name]) == 0
    text = capsys.readouterr().out
    for number in (envelope, block_bytes, *heights.values(), without_arena, arena, rows, slot_bytes):
        assert f"{number:,}" in text or str(number) in text


@pytest.mark.parametrize("config", real_configs(), ids=lambda config: config.name)
def test_the_facts_add_up(config):
    facts = layout_facts(config)
    assert json.loads(json.dumps(facts)) == facts
    slot, waste = facts["slot"], facts["waste_of_a_slot"]
    row_bytes = sum(plane["row_bytes"] for plane in facts["planes"])
    positions = config.ring_slots * sum(len(cls["layers"]) for cls in facts["classes"])
    used = positions * row_bytes + sum(field["bytes"] for field in facts["state_fields"])
    assert used + waste["bytes"] == slot["bytes"]
    assert sum(slot["plane_bytes"].values()) == slot["bytes"]
    layers = [layer for cls in facts["classes"] for layer in cls["layers"]] + facts["absent_layers"]
    assert sorted(layers) == list(range(len(config.ratios)))


def test_launch_options_change_the_layout(capsys):
    assert main(["layout", "v4-flash", "--block-size", "128", "--draft-tokens", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["configuration"]["ring_slots"] == 130
    assert facts["block"]["envelope_rows"] == 20 * 1 + 21 * 32


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([4], "4"),
        ([0, 1], "0, 1"),
        ([0, 1, 2], "0-2"),
        ([0, 1, 3, 5, 7], "0, 1-7 by 2"),
        ([3, 5, 7, 8], "3-7 by 2, 8"),
    ],
)
def test_numbers_with_equal_steps_are_written_once(numbers, text):
    assert spans(numbers) == text
