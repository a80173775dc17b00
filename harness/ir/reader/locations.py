"""Source locations: aliases, names, call sites and fused places, flattened to a chain of frames."""

from __future__ import annotations

import re

from kvproof.harness.ir.reader.cursor import Cursor
from kvproof.harness.ir.reader.form import Frame, Location
from kvproof.reports.paths import report_path

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)[ \t]*$", re.MULTILINE)


class Locations:
    """The location aliases of one module, resolved when first asked for."""

    def __init__(self, text: str) -> None:
        self._texts = dict(_ALIAS.findall(text))
        self._known: dict[str, tuple[Frame, ...]] = {}
        self._locations: dict[str, Location] = {}

    def read(self, cursor: Cursor) -> Location:
        """The location whose ``loc(`` was just passed."""
        cursor.skip()
        if cursor.text.startswith("#loc", cursor.at):
            alias = cursor.take("alias")
            cursor.expect(")")
            if alias not in self._locations:
                self._locations[alias] = Location(self._alias(alias))
            return self._locations[alias]
        frames = self._frames(cursor)
        cursor.expect(")")
        return Location(frames)

    def _alias(self, alias: str) -> tuple[Frame, ...]:
        if alias not in self._known:
            self._known[alias] = ()  # a cycle would be malformed; it ends here
            if alias in self._texts:
                self._known[alias] = self._frames(Cursor(self._texts[alias]))
        return self._known[alias]

    def _frames(self, cursor: Cursor) -> tuple[Frame, ...]:
        kind, text = cursor.token()
        if kind == "alias":
            return self._alias(text)
        if kind == "string":
            return self._file_or_name(cursor, text[1:-1])
        if text == "callsite":
            cursor.expect("(")
            callee = self._frames(cursor)
            cursor.expect("at")
            caller = self._frames(cursor)
            cursor.expect(")")
            return callee + caller
        if text == "fused":
            if cursor.peek("<"):
                cursor.balanced()
            cursor.expect("[")
            found: tuple[Frame, ...] = ()
            while not cursor.accept("]"):
                found = self._frames(cursor) or found
                cursor.accept(",")
            return found
        return ()  # unknown

    def _file_or_name(self, cursor: Cursor, text: str) -> tuple[Frame, ...]:
        if cursor.accept(":"):
            line = int(cursor.take("number"))
            cursor.expect(":")
            column = int(cursor.take("number"))
            if cursor.accept("to"):
                # The end of a range: ":8" or "12:8".
                while cursor.accept(":") or cursor.peek("0") or cursor.text[cursor.at : cursor.at + 1].isdigit():
                    if cursor.text[cursor.at : cursor.at + 1].isdigit():
                        cursor.take("number")
            return (Frame(report_path(text), line, column),)
        if cursor.accept("("):
            inner = self._frames(cursor)
            cursor.expect(")")
            return inner
        return ()
