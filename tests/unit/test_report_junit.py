"""JUnit XML keeps every status apart and stays well-formed."""

from xml.etree import ElementTree as ET

from kvproof.reports.finding import Finding
from kvproof.reports.junit import junit_xml
from kvproof.reports.record import Record
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

FINDING = Finding("layout", "p", "w", "a", {}, "rows <1> & \x01 meet")


def test_each_status_has_its_element_and_its_count():
    results = (
        Result("a", "p", "prove", Verdict(Status.PASS), 0.5),
        Result("a", "q", "prove", Verdict(Status.FAIL, "rows meet"), 0.5, findings=(FINDING,)),
        Result("a", "r", "prove", Verdict(Status.UNKNOWN, "too few"), 0.5),
        Result("b", "r", "prove", Verdict(Status.UNSUPPORTED, "sqrt"), 0.5),
        Result("b", "s", "fuzz", Verdict(Status.NOT_RUN, "no GPU"), 0.0, device="cuda"),
    )
    root = ET.fromstring(junit_xml(Record("2026-08-11T09:30:00Z", ("verify",), results, 2.0)))
    a, b = root
    assert [a.get(k) for k in ("name", "tests", "failures", "errors", "skipped")] == ["a", "3", "1", "1", "0"]
    assert [b.get(k) for k in ("name", "tests", "failures", "errors", "skipped")] == ["b", "2", "0", "1", "1"]
    failure = a[1][0]
    assert failure.tag == "failure"
    assert failure.text is not None
    assert f"kvproof replay {FINDING.id}" in failure.text
    assert b[1].get("name") == "s on cuda"
    assert len(a[0]) == 0
