"""The store writes whole files, survives damage, and finds findings by id."""

import logging
import os
from dataclasses import replace

import pytest

from kvproof.reports.errors import DamagedReportError, ForeignVersionError, ReportError
from kvproof.reports.finding import Finding
from kvproof.reports.record import Record
from kvproof.reports.store import Store, write_atomically


def finding(number: int) -> Finding:
    return Finding("layout", "window/window", "no two meet", "v4-flash", {"n": number}, f"fault {number}")


RECORD = Record("2026-08-11T09:30:00Z", ("verify",), (), 1.0)


def test_a_finding_is_found_by_id_by_prefix_and_by_path(tmp_path):
    store = Store(tmp_path)
    path = store.save_finding(finding(1))
    assert path == tmp_path / "findings" / f"{finding(1).id}.json"
    for wanted in (finding(1).id, finding(1).id[:6], str(path)):
        assert store.find(wanted) == finding(1)


def test_an_ambiguous_prefix_an_unknown_id_and_an_empty_one_are_refused(tmp_path):
    store = Store(tmp_path)
    first = store.save_finding(finding(1))
    (first.parent / (finding(1).id[:6] + "ffffff.json")).write_text(first.read_text())
    with pytest.raises(ReportError, match="ambiguous"):
        store.find(finding(1).id[:6])
    for wanted in ("123456789abc", "", "*"):
        with pytest.raises(ReportError, match=f"there: {finding(1).id[:6]}"):
            store.find(wanted)
    with pytest.raises(ReportError, match=r"absent\.json.*No such file"):
        store.find(str(tmp_path / "absent.json"))


def test_saving_again_replaces_and_leaves_no_other_file(tmp_path):
    store = Store(tmp_path)
    store.save_finding(finding(1))
    store.save_finding(finding(1))
    assert [path.name for path in (tmp_path / "findings").iterdir()] == [f"{finding(1).id}.json"]
    assert list(store.findings()) == [finding(1)]


def test_a_damaged_file_is_set_aside_with_a_warning_and_the_rest_is_read(tmp_path, caplog):
    store = Store(tmp_path)
    paths = [store.save_finding(finding(n)) for n in range(3)]
    paths[1].write_text(paths[1].read_text()[:40])
    paths[2].write_bytes(b"\xff\xfe")
    with caplog.at_level(logging.WARNING, "kvproof"):
        assert list(store.findings()) == [finding(0)]
    assert {path.name for path in paths[0].parent.iterdir()} == {
        paths[0].name,
        paths[1].name + ".damaged",
        paths[2].name + ".damaged",
    }
    assert len(caplog.records) == 2
    caplog.clear()
    assert list(store.findings()) == [finding(0)]
    assert not caplog.records


def test_a_newer_version_is_skipped_but_left_in_place(tmp_path, caplog):
    store = Store(tmp_path)
    path = store.save_finding(finding(1))
    path.write_text(path.read_text().replace("kvproof/finding/1", "kvproof/finding/2"))
    with caplog.at_level(logging.WARNING, "kvproof"):
        assert list(store.findings()) == []
    assert path.exists()
    assert "finding/2" in caplog.text
    with pytest.raises(ForeignVersionError):
        store.find(path.stem)


def test_asking_for_one_damaged_finding_says_so(tmp_path):
    store = Store(tmp_path)
    path = store.save_finding(finding(1))
    path.write_text("{")
    with pytest.raises(DamagedReportError, match=path.name):
        store.find(str(path))


def test_records_are_appended_never_replaced(tmp_path):
    store = Store(tmp_path)
    other = replace(RECORD, started="2026-08-11T09:29:59Z")
    paths = {store.append_record(r) for r in (RECORD, RECORD, other)}
    assert len(paths) == 3
    assert sorted(r.started for r in store.records()) == [other.started, RECORD.started, RECORD.started]
    assert next(iter(store.records())) == other


def test_an_interrupted_write_leaves_the_old_content_and_no_part(tmp_path, monkeypatch):
    path = tmp_path / "f.json"
    write_atomically(path, "old")

    def crash(_descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["f.json"]
    assert path.read_text() == "old"


def test_a_store_that_does_not_exist_is_empty(tmp_path):
    store = Store(tmp_path / "none")
    assert list(store.findings()) == []
    assert list(store.records()) == []
    assert not store.root.exists()
