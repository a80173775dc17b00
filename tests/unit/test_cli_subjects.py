"""Configurations by name, by file, and with launch options."""

import json

import pytest

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.subjects import LaunchOptions, launch_options, load_subject, select_subjects
from kvproof.models.deepseek_v4 import CONFIGS, real_configs
from kvproof.models.errors import LayoutError

NONE = LaunchOptions()


@pytest.fixture
def config_file(tmp_path):
    def write(**changes):
        data = {
            "num_hidden_layers": 3,
            "num_nextn_predict_layers": 1,
            "compress_ratios": [0, 4, 128, 0],
            "sliding_window": 64,
            "index_topk": 256,
        } | changes
        folder = tmp_path / "tiny"
        folder.mkdir(exist_ok=True)
        path = folder / "config.json"
        path.write_text(json.dumps(data))
        return path

    return write


def test_without_a_name_all_real_configurations_are_meant():
    assert select_subjects(None, NONE) == real_configs()
    assert [c.kv for c in select_subjects([], LaunchOptions(kv="bf16"))] == ["bf16"] * 6


@pytest.mark.parametrize("name", CONFIGS)
def test_each_name_is_its_configuration_in_either_dtype(name):
    assert load_subject(name, NONE) == CONFIGS[name]
    assert load_subject(f"{name}-bf16", NONE) == load_subject(name, LaunchOptions(kv="bf16"))
    assert load_subject(name, LaunchOptions(kv="bf16")).kv == "bf16"


def test_launch_options_make_the_named_variants():
    assert load_subject("v4-flash", LaunchOptions(draft_tokens=1)) == CONFIGS["v4-flash-mtp1"]
    assert load_subject("v4-flash", LaunchOptions(draft="dspark", draft_tokens=3)) == CONFIGS["v4-flash-dspark"]
    assert load_subject("v4-flash", LaunchOptions(draft_tokens=0)) == CONFIGS["v4-flash"]


def test_a_configuration_that_was_changed_has_a_name_that_says_so():
    changed = load_subject("v4-flash-mtp1", LaunchOptions(draft_tokens=2, block_size=128))
    assert changed.name == "v4-flash-mtp1+k2+b128"
    assert (changed.draft_tokens, changed.block_size) == (2, 128)


@pytest.mark.parametrize(
    ("name", "launch", "words"),
    [
        ("v4-flsh", NONE, "did you mean v4-flash?"),
        ("", NONE, "no real configuration"),
        ("v4-flash-bf16", LaunchOptions(kv="fp8"), "allowed: bf16"),
        ("v4-flash-mtp1", LaunchOptions(draft="dspark", draft_tokens=3), "kind mtp"),
        ("v4-flash-mtp1", LaunchOptions(draft_tokens=0), "--draft-tokens is 0"),
        ("v4-flash", LaunchOptions(draft="dspark"), "--draft-tokens is 0"),
        ("v4-flash", LaunchOptions(block_size=100), "block_size is 100"),
        ("absent/config.json", NONE, "cannot be read"),
        ("absent.json", NONE, "cannot be read"),
    ],
)
def test_what_means_no_configuration_is_refused(name, launch, words):
    with pytest.raises((UsageError, LayoutError)) as caught:
        load_subject(name, launch)
    assert words in str(caught.value)


def test_a_file_or_its_folder_is_read_with_the_launch_options(config_file):
    path = config_file()
    subject = load_subject(str(path), LaunchOptions(draft_tokens=2, kv="bf16", block_size=128))
    assert subject == load_subject(str(path.parent), LaunchOptions(draft_tokens=2, kv="bf16", block_size=128))
    assert (subject.name, subject.kv, subject.block_size, subject.ring_slots) == ("tiny", "bf16", 128, 66)
    assert subject.ratios == (0, 4, 128, 0)
    assert load_subject(str(path), NONE).ratios == (0, 4, 128)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compress_ratios": [0, 4]}, "compress_ratios"),
        ({"compress_ratios": [0, 4, 5]}, "unknown V4 compress ratios [5]"),
        ({"compress_ratios": None}, "compress_ratios"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": "3"}, "num_hidden_layers"),
        ({"sliding_window": -1}, "sliding_window"),
    ],
)
def test_a_file_that_is_no_model_is_refused_by_key(config_file, changes, words):
    with pytest.raises(LayoutError) as caught:
        load_subject(str(config_file(**changes)), NONE)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "\xff", "[" * 100_000])
def test_a_file_that_is_not_json_is_refused(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(LayoutError, match="config"):
        load_subject(str(path), NONE)


def test_launch_options_that_fit_no_single_configuration_are_refused():
    for launch in (LaunchOptions(draft="mtp"), LaunchOptions(draft_tokens=1), LaunchOptions(block_size=128)):
        with pytest.raises(UsageError, match="--config"):
            select_subjects(None, launch)
    with pytest.raises(UsageError, match="v4-flash-mtp1 more than once"):
        select_subjects(["v4-flash-mtp1", "v4-flash"], LaunchOptions(draft_tokens=1))


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("fp16", None, None, None), "--kv"),
        ((None, "none", None, None), "--draft"),
        ((None, None, "-1", None), "--draft-tokens"),
        ((None, None, "x", None), "--draft-tokens"),
        ((None, None, None, "0"), "--block-size"),
        ((None, None, None, str(10**18)), "--block-size"),
    ],
)
def test_a_wrong_launch_option_is_refused(arguments, option):
    with pytest.raises(UsageError, match=f"^{option} is .*allowed"):
        launch_options(*arguments)
