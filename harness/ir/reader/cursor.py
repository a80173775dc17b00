"""A place in the text of a module, and the tokens that can be read there."""

from __future__ import annotations

import re
from typing import NoReturn

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*)*")
_INLINE_SPACE = re.compile(r"(?:[ \t\r]|//[^\n]*)*")
TOKEN = re.compile(
    r"(?P<string>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<value>%[\w$.-]+(?:#\d+)?)"
    r"|(?P<block>\^[\w$.-]+)"
    r"|(?P<symbol>@(?:[\w$.-]+|\"(?:[^\"\\]|\\.)*\"))"
    r"|(?P<alias>#[\w$.]+)"
    r"|(?P<bang>![\w$.]+)"
    r"|(?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))"
    r"|(?P<word>[A-Za-z_][\w$.]*)"
    r"|(?P<mark>->|<\{|\}>|[-+(){}<>\[\],:=*?/|&;])"
)


class ReadError(ValueError):
    """Text that is not TTIR as any supported release writes it; the message names the line."""


class Cursor:
    """Reads one text from left to right. Line breaks matter only to :meth:`at_line_end`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, what: str) -> NoReturn:
        """Raise :class:`ReadError` for this place."""
        line = self.text.count("\n", 0, self.at) + 1
        start = self.text.rfind("\n", 0, self.at) + 1
        end = self.text.find("\n", self.at)
        shown = self.text[start : end if end >= 0 else len(self.text)].strip()[:160]
        raise ReadError(f"line {line}: {what} in {shown!r}")

    def skip(self) -> None:
        """Pass white space, line breaks and comments."""
        match = _SPACE.match(self.text, self.at)
        assert match is not None  # the pattern matches the empty text
        self.at = match.end()

    def at_line_end(self) -> bool:
        """Whether only white space or a comment is left of this line."""
        match = _INLINE_SPACE.match(self.text, self.at)
        assert match is not None  # as above
        return match.end() == len(self.text) or self.text[match.end()] == "\n"

    def at_end(self) -> bool:
        """Whether nothing is left."""
        self.skip()
        return self.at == len(self.text)

    def peek(self, literal: str) -> bool:
        """Whether the next token starts with ``literal``."""
        self.skip()
        return self.text.startswith(literal, self.at)

    def accept(self, literal: str) -> bool:
        """Pass ``literal`` if it comes next."""
        if self.peek(literal):
            self.at += len(literal)
            return True
        return False

    def expect(self, literal: str) -> None:
        """Pass ``literal``.

        Raises:
            ReadError: something else comes next.
        """
        if not self.accept(literal):
            self.fail(f"expected {literal!r}")

    def token(self) -> tuple[str, str]:
        """The next token as (kind, text).

        Raises:
            ReadError: no token starts here.
        """
        self.skip()
        match = TOKEN.match(self.text, self.at)
        if match is None:
            self.fail("no token")
        self.at = match.end()
        assert match.lastgroup is not None  # every alternative is named
        return match.lastgroup, match.group()

    def take(self, kind: str) -> str:
        """The next token, which must be of this kind.

        Raises:
            ReadError: it is of another.
        """
        before = self.at
        found, text = self.token()
        if found != kind:
            self.at = before
            self.fail(f"expected a {kind}, found {text!r}")
        return text

    def balanced(self) -> str:
        """Pass a bracketed text and return it with its brackets; quoted texts inside do not count."""
        self.skip()
        start, depth = self.at, 0
        while True:
            kind, text = self.token()
            if kind == "mark":
                opened = text.count("(") + text.count("{") + text.count("[") + text.count("<")
                closed = text.count(")") + text.count("}") + text.count("]")
                # "->" is no closing bracket.
                closed += 0 if text == "->" else text.count(">")
                depth += opened - closed
            if depth <= 0:
                return self.text[start : self.at]
