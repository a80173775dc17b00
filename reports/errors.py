"""Errors raised while reading what earlier runs wrote."""

from __future__ import annotations


class ReportError(ValueError):
    """A stored record or finding cannot be used as it is. Names the file and, where one is at fault, the field."""


class DamagedReportError(ReportError):
    """The text does not hold what its schema demands: truncated, edited, or not written by kvproof."""


class ForeignVersionError(ReportError):
    """The text follows another version of the schema. It is not damaged, and is left where it is."""
