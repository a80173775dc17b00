"""``kvproof prove``, ``limits`` and ``explain``: modes, exit statuses, and every wrong use next to a right one."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kvproof.harness.cli.main import main
from kvproof.harness.mutate.layout_mutations import FAULTS
from kvproof.harness.mutate.layouts import mutant_layouts
from kvproof.harness.mutate.measure import prove_mutant
from kvproof.harness.prove.certificates import load_lock
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.properties.statement import all_statements
from kvproof.reports.store import Store

ROOT = Path(__file__).resolve().parents[2]
TINY = {"num_hidden_layers": 2, "compress_ratios": [128, 4], "sliding_window": 8}


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A small model of one's own, and a folder of one's own to run in."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY))
    return str(path)


@pytest.mark.smt
def test_prove_writes_a_lock_check_believes_it_and_a_damaged_one_is_rebuilt(tiny, tmp_path, capsys):
    prove = ["prove", "--config", tiny, "--system", "row-space", "--jobs", "1"]
    lock = tmp_path / ".kvproof" / "proofs.lock"
    assert main([*prove, "--check"]) == 1
    assert "has no proof of it" in " ".join(capsys.readouterr().out.split())
    assert main(prove) == 0
    first = load_lock(lock)
    told = capsys.readouterr().out
    assert "z3" in told
    assert "queries (0 from the lock file," in " ".join(told.split())
    assert main([*prove, "--check"]) == 0
    capsys.readouterr()
    assert main(prove) == 0
    assert "from the lock file, 0 asked of solvers, 0 repeats)" in " ".join(capsys.readouterr().out.split())
    assert load_lock(lock) == first
    lock.write_text(lock.read_text()[:-100])
    capsys.readouterr()
    assert main([*prove, "--check"]) == 1
    assert "starting afresh" in capsys.readouterr().err
    assert main(prove) == 0
    assert load_lock(lock).proofs == first.proofs


@pytest.mark.smt
def test_a_layout_changed_behind_the_lock_is_stale(tiny, capsys):
    prove = ["prove", "--config", tiny, "--system", "row-space", "--jobs", "1"]
    assert main(prove) == 0
    Path(tiny).write_text(json.dumps({**TINY, "sliding_window": 9}))
    assert main([*prove, "--check"]) == 1
    assert "stale" in capsys.readouterr().out


@pytest.mark.smt
def test_reseeding_reports_how_many_proofs_depend_on_luck(tiny, capsys):
    assert main(["prove", "--config", tiny, "--system", "row-space", "--jobs", "1", "--reseed", "2"]) == 0
    assert "0 change their outcome" in capsys.readouterr().out


@pytest.mark.smt
@pytest.mark.parametrize("solver", ["z3", "cvc5", "isl"])
def test_each_solver_proves_a_layout_alone(tiny, solver, capsys):
    arguments = ["prove", "--config", tiny, "--system", "row-space", "--jobs", "1", "--solver", solver]
    assert main(arguments) == 0
    assert f"each obligation proved by {solver}" in capsys.readouterr().out


def test_diff_names_what_a_revision_had_otherwise(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["prove", "--config", "v4-flash", "--diff", "HEAD"]) == 0
    assert "configurations have changed since HEAD" in capsys.readouterr().out


def test_diff_names_the_facts_and_obligations_that_a_commit_touched(tmp_path, monkeypatch, capsys):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(clone)], check=True, timeout=60)
    config = clone / "models" / "deepseek_v4" / "config.py"
    old, new = "block_size: int = 256\n", "block_size: int = 512\n"
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    git = ["git", "-C", str(clone), "-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "Other blocks"], check=True, timeout=60)
    monkeypatch.chdir(clone)
    assert main(["prove", "--config", "v4-flash", "--diff", "HEAD"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "block size 512 256" in told
    assert "envelope rows 2768 1384" in told
    assert re.search(r"statement compress/compress [0-9]+ obligations differ", told)
    assert "window ring under verify" not in told
    assert "1 of 1 configurations have changed since HEAD" in told


def test_diff_of_a_changed_layout_names_facts_and_obligations(monkeypatch):
    from kvproof.harness.run.changes import _differences as differences
    from kvproof.harness.run.changes import layout_facts

    flash = CONFIGS["v4-flash"]
    changed = replace(flash, block_size=512)
    names = [name for name, _, _ in differences(layout_facts(flash), layout_facts(changed))]
    assert "block size" in names
    assert "class 4: ring_stride" in names
    assert "arena rows" not in names


WRONG = {
    ("prove", "--all", "--check"): "--all and --check exclude each other",
    ("prove", "--reseed", "0"): "--reseed is '0'; allowed: an integer from 1 to 100",
    ("prove", "--jobs", "none"): "--jobs is 'none'",
    ("prove", "--solver", "abacus"): "--solver is 'abacus'; allowed: z3, cvc5, isl",
    ("prove", "--solver", "z3", "--solver", "z3"): "--solver names z3 more than once",
    ("prove", "--diff", "no-such-revision"): "--diff: revision 'no-such-revision'",
    ("prove", "--diff", "--upload-pack=x"): "--diff",
    ("limits", "v4-flush"): "v4-flash",
    ("explain", "window/wind"): "did you mean 'window/window'?",
    ("explain", "window/window", "--config", "v4-flush"): "v4-flash",
    ("explain", "window/window", "--test"): "--test is for findings",
    ("explain", "only addresses", "--config", "any"): "is not stated for every size",
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_use_says_what_is_allowed(arguments, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(arguments) == 2
    assert WRONG[arguments] in capsys.readouterr().err


@pytest.mark.smt
def test_limits_prints_values_and_json(capsys):
    assert main(["limits", "v4-flash-dspark", "--json"]) == 0
    facts = {fact["name"]: fact for fact in json.loads(capsys.readouterr().out)}
    ring = facts["ring positions for a window of 128 with 3 drafts"]
    assert (ring["value"], ring["beyond"], ring["verdict"]) == (131, 130, "PASS")


@pytest.mark.smt
def test_explain_shows_words_premises_lemmas_and_solvers(capsys):
    assert main(["explain", "window/window"]) == 0
    text = capsys.readouterr().out
    for part in ("claims", "its twin", "premises", "lemma one row means one slot", "z3: unsat", "cvc5: unsat"):
        assert part in text
    assert main(["explain", "least height", "--config", "any"]) == 0
    assert "by hand    that R positions do not fit" in capsys.readouterr().out


def test_what_is_out_of_reach_for_every_size_is_unknown_with_the_reason(capsys):
    assert main(["explain", "layer independence", "--config", "any"]) == 3
    told = capsys.readouterr().out
    assert "UNKNOWN: layers are given as a list of ratios by id" in told
    assert "count_layer_lists" in told


@pytest.mark.smt
def test_explain_shows_a_counterexample_with_both_addresses_a_picture_and_a_test(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    statement = all_statements("row-space")["window/window"]
    with mutant_layouts(FAULTS["run height"]) as mutant:
        (finding, *_) = prove_mutant(mutant, statement, "v4-flash-mtp1").findings
    Store().save_finding(finding)
    assert main(["explain", finding.id[:6]]) == 0
    text = capsys.readouterr().out
    assert text.count("row = ") == 2
    assert "HCA layer 19, group 0, position 0" in text
    assert "<- " in text
    assert main(["replay", finding.id]) == 0  # the present layout is right
    assert main(["explain", finding.id, "--test"]) == 0
    source = capsys.readouterr().out.split("import json", 1)[1]
    space: dict = {}
    exec("import json" + source, space)
    (test,) = (value for name, value in space.items() if name.startswith("test_"))
    test()


ABSURD, MOST = 10**18, 2**31 - 1


@pytest.mark.parametrize(
    "changes",
    [
        {"sliding_window": MOST},
        {"compress_ratios": [128, 4], "sliding_window": MOST, "index_topk": MOST},
    ],
)
@pytest.mark.smt
def test_absurd_sizes_end_in_a_verdict(tiny, changes, capsys):
    Path(tiny).write_text(json.dumps({**TINY, **changes}))
    status = main(["prove", "--config", tiny, "--system", "row-space", "--jobs", "1"])
    captured = capsys.readouterr()
    assert status in {0, 2, 3}, captured
    assert "Traceback" not in captured.out + captured.err


BAD_MODELS = {
    "a ratio that does not divide": ({}, ["--block-size", "100"], "not a multiple of ratio 128"),
    "no layers": ({"num_hidden_layers": 0, "compress_ratios": []}, [], "num_hidden_layers"),
    "an unknown ratio": ({"compress_ratios": [128, 5]}, [], "unknown V4 compress ratios [5]"),
    "layers beyond counting": ({"num_hidden_layers": ABSURD}, [], f"from 1 to 65536, got {ABSURD}"),
    "draft layers beyond memory": (
        {"num_nextn_predict_layers": ABSURD},
        ["--draft-tokens", "1"],
        "num_nextn_predict_layers in '{path}' must be an integer from 0 to 65535",
    ),
    "more layers than are looked at": (
        {"num_hidden_layers": 65537, "compress_ratios": [0] * 65537},
        [],
        "num_hidden_layers in '{path}' must be an integer from 1 to 65536, got 65537",
    ),
    "a block beyond memory": ({}, ["--block-size", str(ABSURD)], "--block-size"),
    "a window that is no number": ({"sliding_window": "8"}, [], "sliding_window"),
    "a window beyond 32 bits": (
        {"sliding_window": ABSURD},
        [],
        f"sliding_window in '{{path}}' must be an integer from 1 to {MOST}, got {ABSURD}",
    ),
    "a selection beyond 32 bits": (
        {"index_topk": ABSURD},
        [],
        "index_topk in '{path}' must be an integer from 1",
    ),
    "a selection of null": (
        {"index_topk": None},
        [],
        "index_topk in '{path}' is null; allowed: an integer from 1",
    ),
    "layers of null": ({"num_hidden_layers": None}, [], "num_hidden_layers in '{path}' is null; allowed"),
    "a truth value": ({"sliding_window": True}, [], "sliding_window in '{path}' must be an integer"),
    "a fraction": ({"sliding_window": 8.5}, [], "got 8.5"),
    "a list in the list": (
        {"compress_ratios": [[128], 4]},
        [],
        "compress_ratios[0] in '{path}' must be an integer",
    ),
    "no layer in the row space": (
        {"compress_ratios": [-1, -1]},
        [],
        "config '{path}': ratios and arena_rows leave a slot of 0 rows; at least one layer must be present",
    ),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models_are_refused_with_what_is_wrong(tiny, name, capsys):
    changes, options, words = BAD_MODELS[name]
    Path(tiny).write_text(json.dumps({**TINY, **changes}))
    assert main(["prove", "--config", tiny, *options]) == 2
    assert words.replace("{path}", tiny) in capsys.readouterr().err


BAD_FILES = {
    "nothing": (b"", "is not JSON"),
    "half a file": (b'{"num_hidden_layers": 2, "compress', "is not JSON"),
    "no text": (b"\xff\xfe\x00", "is not JSON"),
    "lists in lists": (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
    "objects in objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    "a hundred thousand digits": (
        b'{"num_hidden_layers": ' + b"9" * 100_000 + b"}",
        "an integer of 100000 digits",
    ),
    "a list": (b"[]", "must hold a JSON object, got list"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_model_is_refused_by_name(tiny, name, capsys):
    content, words = BAD_FILES[name]
    Path(tiny).write_bytes(content)
    assert main(["prove", "--config", tiny]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert repr(tiny) in told


@pytest.mark.smt
def test_a_file_that_is_no_lock_is_never_overwritten(tiny, tmp_path, capsys):
    prove = ["prove", "--config", tiny, "--system", "row-space", "--jobs", "1", "--lock"]
    before = Path(tiny).read_text()
    for name, words in ((tiny, "no lock file"), (str(tmp_path), "not a file"), (f"{tmp_path}/no/x", "no folder")):
        assert main([*prove, name]) == 2
        assert words in capsys.readouterr().err
    assert Path(tiny).read_text() == before
    assert not (tmp_path / "no").exists()
    assert main([*prove, str(tmp_path / "new.lock")]) == 0
    assert load_lock(tmp_path / "new.lock").proofs


@pytest.mark.smt
def test_fewer_solvers_do_not_rewrite_what_all_have_proved(tiny, tmp_path, capsys):
    prove = ["prove", "--config", tiny, "--system", "row-space", "--jobs", "1"]
    lock = tmp_path / ".kvproof" / "proofs.lock"
    assert main(prove) == 0
    both = lock.read_bytes()
    capsys.readouterr()
    assert main([*prove, "--solver", "z3"]) == 0
    assert "did not ask cvc5" in capsys.readouterr().err
    assert lock.read_bytes() == both
    assert main([*prove, "--check"]) == 0
