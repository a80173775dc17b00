"""Records and findings as JSON text, both ways. Decoding is strict: what a schema does not allow is refused.

The stored forms are described by ``schemas/finding.v1.json`` and ``schemas/record.v1.json``.
"""

from __future__ import annotations

import json
from typing import Any, cast

from kvproof.reports.errors import DamagedReportError, ForeignVersionError
from kvproof.reports.finding import FINDING_SCHEMA, Finding
from kvproof.reports.record import DeviceNote, Record
from kvproof.reports.result import RECORD_SCHEMA, Result
from kvproof.reports.schema import JsonObject, check
from kvproof.reports.verdict import Status, Verdict

_FINDING_FILE = f"finding.v{FINDING_SCHEMA}.json"
_RECORD_FILE = f"record.v{RECORD_SCHEMA}.json"


def encode_finding(finding: Finding) -> JsonObject:
    """A finding as a JSON value."""
    return {
        "schema": f"kvproof/finding/{FINDING_SCHEMA}",
        "id": finding.id,
        "engine": finding.engine,
        "property": finding.property_name,
        "words": finding.words,
        "subject": finding.subject,
        "case": dict(finding.case),
        "message": finding.message,
        "expected": finding.expected,
        "got": finding.got,
        "target": finding.target,
        "device": finding.device,
        "seed": finding.seed,
        "commit": finding.commit,
        "environment": dict(finding.environment),
    }


def encode_record(record: Record) -> JsonObject:
    """A record as a JSON value."""
    return {
        "schema": f"kvproof/record/{RECORD_SCHEMA}",
        "started": record.started,
        "command": list(record.command),
        "seconds": record.seconds,
        "complete": record.complete,
        "seed": record.seed,
        "commit": record.commit,
        "machine": dict(record.machine),
        "versions": dict(record.versions),
        "devices": [{"name": d.name, "available": d.available, "detail": d.detail} for d in record.devices],
        "results": [_encode_result(result) for result in record.results],
    }


def _encode_result(result: Result) -> JsonObject:
    verdict = result.verdict
    return {
        "subject": result.subject,
        "property": result.property_name,
        "engine": result.engine,
        "verdict": {
            "status": verdict.status.value,
            "reason": verdict.reason,
            "assumptions": list(verdict.assumptions),
            "bounds": list(verdict.bounds),
        },
        "seconds": result.seconds,
        "cases": result.cases,
        "events": dict(result.events),
        "device": result.device,
        "target": result.target,
        "findings": [encode_finding(finding) for finding in result.findings],
    }


def to_text(value: JsonObject, schema: str) -> str:
    """A JSON value as text for a file, after checking that it can be read back.

    Raises:
        DamagedReportError: the value does not follow the schema (a case that is not JSON, say).
        ValueError: a number that JSON has no form for (infinity, NaN).
    """
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    check(json.loads(text), schema)
    return text


def finding_text(finding: Finding) -> str:
    """A finding as text for a file."""
    return to_text(encode_finding(finding), _FINDING_FILE)


def record_text(record: Record) -> str:
    """A record as text for a file."""
    return to_text(encode_record(record), _RECORD_FILE)


def decode_finding(text: str, source: str) -> Finding:
    """Read a finding.

    Args:
        text: JSON text.
        source: file name, for messages.

    Raises:
        DamagedReportError: not JSON, or not a finding of this schema; names the source and the field.
        ForeignVersionError: a finding of another version.
    """
    data = _decode(text, source, "finding", FINDING_SCHEMA, _FINDING_FILE)
    finding = _finding(data)
    if finding.id != data["id"]:
        raise DamagedReportError(
            f"{source}: $.id is {data['id']}, but what is stored has the id {finding.id}; it was edited"
        )
    return finding


def decode_record(text: str, source: str) -> Record:
    """Read a record.

    Args:
        text: JSON text.
        source: file name, for messages.

    Raises:
        DamagedReportError: not JSON, or not a record of this schema; names the source and the field.
        ForeignVersionError: a record of another version.
    """
    data = _decode(text, source, "record", RECORD_SCHEMA, _RECORD_FILE)
    try:
        results = tuple(_result(item) for item in data["results"])
    except ValueError as error:  # a verdict that contradicts itself, which no schema sees
        raise DamagedReportError(f"{source}: $.results: {error}") from error
    return Record(
        started=data["started"],
        command=tuple(data["command"]),
        results=results,
        seconds=data["seconds"],
        complete=data["complete"],
        seed=data["seed"],
        commit=data["commit"],
        machine=data["machine"],
        versions=data["versions"],
        devices=tuple(DeviceNote(**item) for item in data["devices"]),
    )


def _decode(text: str, source: str, kind: str, version: int, schema: str) -> JsonObject:
    try:
        value: Any = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise DamagedReportError(f"{source}: nested too deeply to be a {kind}") from None
    except ValueError as error:
        raise DamagedReportError(f"{source}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DamagedReportError(f"{source}: $ must be object, got {type(value).__name__}")
    data = cast("JsonObject", value)
    named = data.get("schema")
    if isinstance(named, str) and named.startswith(f"kvproof/{kind}/") and named != f"kvproof/{kind}/{version}":
        raise ForeignVersionError(f"{source}: $.schema is {named!r}; this kvproof reads kvproof/{kind}/{version}")
    try:
        check(data, schema)
    except DamagedReportError as error:
        raise DamagedReportError(f"{source}: {error}") from error
    return data


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finding(data: JsonObject) -> Finding:
    return Finding(
        engine=data["engine"],
        property_name=data["property"],
        words=data["words"],
        subject=data["subject"],
        case=data["case"],
        message=data["message"],
        expected=data["expected"],
        got=data["got"],
        target=data["target"],
        device=data["device"],
        seed=data["seed"],
        commit=data["commit"],
        environment=data["environment"],
    )


def _result(data: JsonObject) -> Result:
    verdict = data["verdict"]
    return Result(
        subject=data["subject"],
        property_name=data["property"],
        engine=data["engine"],
        verdict=Verdict(
            Status(verdict["status"]),
            verdict["reason"],
            tuple(verdict["assumptions"]),
            tuple(verdict["bounds"]),
        ),
        seconds=data["seconds"],
        cases=data["cases"],
        events=data["events"],
        device=data["device"],
        target=data["target"],
        findings=tuple(_finding(item) for item in data["findings"]),
    )
