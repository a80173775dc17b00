"""kvproof ir: what is asked, what comes out, exit statuses, kept results, and arguments that are none."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("z3")

from kvproof.harness.cli import ir_kernels
from kvproof.harness.cli.main import main
from kvproof.harness.prove.kernels.cache import Cache
from kvproof.harness.prove.kernels.rows import Fault, Place, Row, rows_json
from kvproof.reports.sarif import sarif_text

FAST = ["ir", "check", "row_index", "--arch", "cuda:90,hip:gfx942", "--jobs", "1"]


@pytest.fixture(autouse=True)
def store(monkeypatch, tmp_path):
    monkeypatch.setenv("KVPROOF_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def _row(status="PASS", faults=()):
    return Row("k", "cuda:90", "in bounds", status, "", (), (), 3, 0.5, tuple(faults))


def test_check_prints_a_row_a_target_and_keeps_what_it_found(capsys, tmp_path, store):
    out = tmp_path / "rows.json"
    assert main([*FAST, "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("row_index") == 2
    assert "PASS: 1 kernels, 2 targets" in printed
    rows = json.loads(out.read_text())
    assert {row["target"] for row in rows} == {"cuda:90", "hip:gfx942"}
    assert {row["status"] for row in rows} == {"PASS"}
    assert main(FAST) == 0
    assert "nothing has changed" in capsys.readouterr().out
    # A damaged entry is set aside, and the check runs anew.
    for path in (store / "ir-cache").glob("*.json"):
        path.write_text('{"version": 1, "rows": [{"status": "SPLENDID"}]}')
    assert main(FAST) == 0
    assert "nothing has changed" not in capsys.readouterr().out
    assert list((store / "ir-cache").glob("*.damaged"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ir", "check", "no_such_kernel"], "kernel 'no_such_kernel' is not known; allowed: attention_decode"),
        (["ir", "check", "--arch", "cuda"], "--arch: "),
        (["ir", "check", "--arch", "tpu:5"], "--arch: "),
        (["ir", "check", "--config", "v5"], "--config is 'v5'; allowed: v4-flash"),
        (["ir", "check", "row_index", "--jobs", "0"], "--jobs"),
        (["ir", "run", "row_index", "--arch", "cuda:90,hip:gfx942"], "takes one GPU"),
        (["ir", "run", "row_index", "--cases", "0"], "--cases"),
        (["ir", "diff", "no-such-revision"], "revision 'no-such-revision' cannot be read"),
        (["ir", "diff", "--", "--output=x"], "no revision begins with '-'"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(arguments, words, capsys):
    assert main(arguments) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_run_compares_drawn_launches(capsys):
    assert main(["ir", "run", "row_index", "--cases", "5"]) in {0, 3}
    assert "row_index on ir (cuda:90)" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "rows": [3]}', "\x00"])
def test_a_cache_entry_that_cannot_be_read_is_none(tmp_path, text):
    cache = Cache(tmp_path)
    cache.put("key", [_row()])
    assert cache.get("key") == [_row()]
    (tmp_path / "key.json").write_text(text)
    assert cache.get("key") is None
    assert (tmp_path / "key.damaged").exists()


def test_what_was_not_decided_is_not_kept(tmp_path):
    cache = Cache(tmp_path)
    cache.put("key", [_row(), _row("UNKNOWN")])
    assert cache.get("key") is None


def test_an_entry_of_another_version_is_left_alone(tmp_path):
    (tmp_path / "key.json").write_text(json.dumps({"version": 0, "rows": rows_json([_row()])}))
    assert Cache(tmp_path).get("key") is None
    assert (tmp_path / "key.json").exists()


def test_sarif_names_the_line_and_its_callers():
    fault = Fault("FAIL", "out: too far", (Place("kernels/a.py", 7), Place("kernels/b.py", 9)), "out")
    log = json.loads(sarif_text(ir_kernels._sarif([_row("FAIL", [fault]), _row("FAIL", [fault])]), "1"))
    (result,) = log["runs"][0]["results"]  # of two targets, once
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels/a.py"
    assert place["region"]["startLine"] == 7
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 9
    assert (result["level"], result["ruleId"]) == ("error", "in bounds")
