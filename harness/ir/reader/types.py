"""Types and attributes as TTIR writes them."""

from __future__ import annotations

import re
from typing import Any

from kvproof.harness.ir.reader.cursor import Cursor
from kvproof.harness.ir.reader.form import Type

_DIMS = re.compile(r"((?:\d+x)*)")
_SCALAR = re.compile(r"(?:i\d+|index|bf16|tf32|f\d+(?:E\d+M\d+[A-Z]*)?|none)\b")


def read_type(cursor: Cursor) -> Type:
    """The type that comes next. One that kvproof does not know becomes a scalar of its raw text.

    Raises:
        ReadError: no type comes next.
    """
    if cursor.accept("tensor<"):
        dims = _DIMS.match(cursor.text, cursor.at)
        assert dims is not None  # matches the empty text
        cursor.at = dims.end()
        shape = tuple(int(d) for d in dims.group().split("x") if d)
        inner = read_type(cursor)
        while not cursor.accept(">"):
            # An encoding, as later stages add it.
            if cursor.peek("<"):
                cursor.balanced()
            else:
                cursor.token()
        return Type(inner.element, shape, inner.pointee)
    if cursor.accept("!tt.ptr<"):
        inner = read_type(cursor)
        while not cursor.accept(">"):
            cursor.token()
        if inner.shape:
            return Type(f"!tt.ptr<tensor<{inner}>>")
        return Type("ptr", (), inner.element)
    cursor.skip()
    match = _SCALAR.match(cursor.text, cursor.at)
    if match is not None:
        cursor.at = match.end()
        return Type(match.group())
    start = cursor.at
    if cursor.peek("<"):
        # A type without its name, as operations on descriptors print theirs.
        cursor.balanced()
        return Type(cursor.text[start : cursor.at])
    kind, text = cursor.token()
    if kind not in {"bang", "word"}:
        cursor.at = start
        cursor.fail(f"expected a type, found {text!r}")
    if cursor.text.startswith("<", cursor.at):
        cursor.balanced()
    return Type(cursor.text[start : cursor.at])


def read_attribute(cursor: Cursor) -> Any:
    """An attribute's value: int, float, bool, str, a tuple of them, or the raw text of any other form."""
    cursor.skip()
    start = cursor.at
    if cursor.accept("["):
        return _sequence(cursor, "]")
    kind, text = cursor.token()
    if kind == "string":
        return text[1:-1]
    if kind == "number":
        number: int | float = int(text, 0) if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)", text) else float(text)
        if cursor.accept(":"):
            read_type(cursor)
        return number
    if text in {"true", "false"}:
        return text == "true"
    if text == "array" and cursor.accept("<"):
        read_type(cursor)
        cursor.accept(":")
        return _sequence(cursor, ">")
    if cursor.text.startswith("<", cursor.at):
        cursor.balanced()
    return cursor.text[start : cursor.at]


def _sequence(cursor: Cursor, closing: str) -> tuple[Any, ...]:
    items: list[Any] = []
    while not cursor.accept(closing):
        items.append(read_attribute(cursor))
        cursor.accept(",")
    return tuple(items)


def read_attributes(cursor: Cursor) -> dict[str, Any]:
    """The entries of ``{name = value, flag}``, whose opening brace was passed."""
    found: dict[str, Any] = {}
    while not (cursor.accept("}>") or cursor.accept("}")):
        kind, name = cursor.token()
        key = name[1:-1] if kind == "string" else name
        found[key] = read_attribute(cursor) if cursor.accept("=") else True
        cursor.accept(",")
    return found
