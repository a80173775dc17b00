"""A record as JUnit XML, the form in which CI systems show test results."""

from __future__ import annotations

from xml.etree import ElementTree as ET  # only written, never parsed

from kvproof.reports.record import Record
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status

_ELEMENT = {
    Status.FAIL: "failure",
    # Undecided is not success: JUnit knows no third colour, and an error is shown in red.
    Status.UNKNOWN: "error",
    Status.UNSUPPORTED: "error",
    Status.NOT_RUN: "skipped",
}


def junit_xml(record: Record) -> str:
    """JUnit XML of a record: one suite a subject, one case a property.

    FAIL is a failure, UNKNOWN and UNSUPPORTED are errors, NOT_RUN is skipped.
    """
    root = ET.Element("testsuites", name="kvproof", time=f"{record.seconds:.3f}")
    for subject in dict.fromkeys(result.subject for result in record.results):
        results = [result for result in record.results if result.subject == subject]
        kinds = [_ELEMENT.get(result.verdict.status) for result in results]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=subject,
            tests=str(len(results)),
            failures=str(kinds.count("failure")),
            errors=str(kinds.count("error")),
            skipped=str(kinds.count("skipped")),
            time=f"{sum(result.seconds for result in results):.3f}",
            timestamp=record.started.removesuffix("Z"),
        )
        for result in results:
            _add_case(suite, result)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _clean(ET.tostring(root, encoding="unicode")) + "\n"


def _add_case(suite: ET.Element, result: Result) -> None:
    name = f"{result.property_name} on {result.device}" if result.device else result.property_name
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"kvproof.{result.engine}.{result.subject}",
        name=name,
        time=f"{result.seconds:.3f}",
    )
    kind = _ELEMENT.get(result.verdict.status)
    if kind is None:
        return
    note = ET.SubElement(case, kind, message=f"{result.verdict.status}: {result.verdict.reason}")
    note.text = "\n".join(f"{finding.message}\nkvproof replay {finding.id}" for finding in result.findings)


def _clean(text: str) -> str:
    """Without the characters that XML 1.0 has no form for."""
    return "".join(c for c in text if c in "\t\n\r" or ord(c) >= 0x20)
