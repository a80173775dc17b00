"""Records and findings survive a round trip, and nothing else than what the schemas allow is read."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.reports.codec import (
    decode_finding,
    decode_record,
    encode_finding,
    encode_record,
    finding_text,
    record_text,
)
from kvproof.reports.errors import DamagedReportError, ForeignVersionError
from kvproof.reports.finding import Finding
from kvproof.reports.history.run import Counts, Missing, Run, Times, encode_run
from kvproof.reports.record import DeviceNote, Record
from kvproof.reports.result import Result
from kvproof.reports.schema import SCHEMA_FOLDER, check
from kvproof.reports.verdict import Status, Verdict

FINDING = Finding(
    engine="kernel",
    property_name="window_write",
    words="writes its rows and no other",
    subject="v4-flash",
    case={"T": 3, "slots": [1, 0], "geometry": {"ratios": [0, 4]}},
    message="row 7 was written",
    expected="poison",
    got="token 2",
    device="interpret",
    seed=0,
    commit="abc",
    environment={"python": "3.11.7"},
)
RECORD = Record(
    started="2026-08-11T09:30:00Z",
    command=("verify", "--seed", "0"),
    results=(
        Result(
            "v4-flash", "window/window", "prove", Verdict(Status.PASS, assumptions=("a",), bounds=("b",)), 0.5, 3
        ),
        Result(
            "v4-flash",
            "window_write",
            "fuzz",
            Verdict(Status.FAIL, "row 7"),
            1.25,
            9,
            {"wraps": 2},
            "interpret",
            findings=(FINDING,),
        ),
    ),
    seconds=2.0,
    seed=0,
    machine={"cores": "2"},
    versions={"torch": ""},
    devices=(DeviceNote("cuda", available=False, detail="no GPU"),),
)

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_finding_and_a_record_survive_the_round_trip():
    assert decode_finding(finding_text(FINDING), "f") == FINDING
    assert decode_record(record_text(RECORD), "r") == RECORD


@given(st.dictionaries(st.text(), _json, max_size=3), st.text(), st.none() | st.integers())
def test_any_json_case_survives_the_round_trip(case, message, seed):
    finding = Finding("layout", "p", "w", "s", case, message, seed=seed)
    assert decode_finding(finding_text(finding), "f") == finding


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x"])
def test_a_case_that_json_cannot_hold_is_refused_when_written(value):
    with pytest.raises((ValueError, TypeError)):
        finding_text(Finding("layout", "p", "w", "s", {"x": value}, "m"))


def _variants():
    """(what was done, damaged record, words of the error)."""

    def changed(path, value=...):
        data = copy.deepcopy(encode_record(RECORD))
        *parents, last = path
        place = data
        for step in parents:
            place = place[step]
        if value is ...:
            del place[last]
        else:
            place[last] = value
        return data

    yield "missing field", changed(["seed"]), ["$", "'seed'"]
    yield "unknown field", changed(["colour"], 1), ["unknown field 'colour'"]
    yield (
        "missing field inside",
        changed(["results", 1, "verdict", "status"]),
        ["$.results[1].verdict", "'status'"],
    )
    yield "unknown field inside", changed(["devices", 0, "x"], 1), ["$.devices[0]", "'x'"]
    yield (
        "unknown status",
        changed(["results", 0, "verdict", "status"], "OK"),
        ["$.results[0].verdict.status", "'OK'"],
    )
    yield "wrong type", changed(["results", 0, "cases"], "3"), ["$.results[0].cases", "integer", "'3'"]
    yield "a truth value for a count", changed(["results", 0, "cases"], True), ["$.results[0].cases", "True"]
    yield "negative count", changed(["results", 0, "cases"], -1), ["$.results[0].cases", "at least 0"]
    yield "time not in UTC", changed(["started"], "2026-08-11T09:30:00"), ["$.started"]
    yield "a FAIL without reason", changed(["results", 1, "verdict", "reason"], ""), ["FAIL", "reason"]
    yield "finding inside", changed(["results", 1, "findings", 0, "id"], 7), ["$.results[1].findings[0].id"]
    yield "other kind", changed(["schema"], "kvproof/finding/1"), ["$.schema"]


@pytest.mark.parametrize(("data", "words"), [v[1:] for v in _variants()], ids=[v[0] for v in _variants()])
def test_a_damaged_record_is_refused_by_file_and_field(data, words):
    with pytest.raises(DamagedReportError) as caught:
        decode_record(json.dumps(data), "some/file.json")
    for word in ["some/file.json", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": NaN}', "[" * 100_000, "\0"])
def test_text_that_is_no_record_is_refused(text):
    with pytest.raises(DamagedReportError, match=r"^where\.json: "):
        decode_record(text, "where.json")


def test_every_truncation_of_a_finding_is_refused():
    text = finding_text(FINDING).rstrip()
    for length in range(len(text)):
        with pytest.raises(DamagedReportError):
            decode_finding(text[:length], "f")


def test_an_edited_finding_no_longer_matches_its_id():
    data = encode_finding(FINDING)
    data["case"]["T"] = 4
    with pytest.raises(DamagedReportError, match=r"\$\.id"):
        decode_finding(json.dumps(data), "f")


@pytest.mark.parametrize("version", ["0", "2", "99"])
def test_another_version_is_told_apart_from_damage(version):
    data = encode_finding(FINDING) | {"schema": f"kvproof/finding/{version}"}
    with pytest.raises(ForeignVersionError, match=rf"f\.json: .*finding/{version}"):
        decode_finding(json.dumps(data), "f.json")


@pytest.mark.parametrize("path", sorted(SCHEMA_FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_the_schemas_use_only_keywords_that_are_enforced(path: Path):
    # An unread keyword raises, so checking a value of each shape meets every keyword of every branch.
    times = Times("k/c", ((1.5,),), mhz=(None,), celsius=(40.0,), bound=1.0)
    counts, missing = Counts("k/c", "cuda:90", {"instructions": 1}), Missing("k/d", "NOT_RUN", "no GPU")
    run = Run("2026-08-11T09:30:00Z", "builtin", "a", times=(times,), counts=(counts,), missing=(missing,))
    forms = {"finding": encode_finding(FINDING), "record": encode_record(RECORD), "run": encode_run(run)}
    value = forms[path.name.split(".")[0]]
    check(value, path.name)
    assert value["schema"].endswith("/" + path.stem.rsplit("v", 1)[1])


def test_an_unread_schema_keyword_is_an_error_not_ignored(tmp_path, monkeypatch):
    (tmp_path / "odd.v1.json").write_text('{"type": "string", "maxLength": 3}')
    monkeypatch.setattr("kvproof.reports.schema.SCHEMA_FOLDER", tmp_path)
    with pytest.raises(NotImplementedError, match="maxLength"):
        check("abcd", "odd.v1.json")
