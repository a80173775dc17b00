"""Checks a JSON value against one of the schemas in ``schemas/``.

The schemas are JSON Schema (draft 2020-12), of which this reads the part they use; a keyword outside that part
is refused rather than ignored. Everything the schemas say is enforced, nothing else is: they are the one
place where the stored form is described.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from kvproof.reports.errors import DamagedReportError

JsonObject = dict[str, Any]

SCHEMA_FOLDER = Path(__file__).parent / "schemas"

_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description"})
_PLAIN = _ANNOTATIONS | {"type"}
_ARRAY = _PLAIN | {"items"}
_BOUNDED = _PLAIN | {"minimum", "exclusiveMinimum", "maximum"}
_OBJECT = _PLAIN | {"required", "properties", "additionalProperties"}


def _is_number(value: Any) -> bool:
    """Whether it is a number that JSON has a form for and that a float can hold."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": _is_number,
    "null": lambda v: v is None,
}


@functools.cache
def load_schema(name: str) -> JsonObject:
    """A schema by file name ("finding.v1.json")."""
    return cast("JsonObject", json.loads((SCHEMA_FOLDER / name).read_text(encoding="utf-8")))


def check(value: Any, schema: str) -> None:
    """Check a decoded JSON value against a schema.

    Args:
        value: the value.
        schema: file name of the schema.

    Raises:
        DamagedReportError: it does not conform; the message names the first field at fault.
    """
    if _quick(schema)(value):
        return
    for fault in _faults(value, load_schema(schema), schema, "$"):
        raise DamagedReportError(fault)


_QUICK: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "object": (dict,),
    "array": (list,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}


Test = Callable[[Any], bool]


@functools.cache
def _quick(schema: str) -> Test:
    """A quick test of the common forms, which says no when in doubt; then the value is read in full."""
    return _test(load_schema(schema), schema)


def _test(rule: JsonObject, document: str) -> Test:
    if "$ref" in rule and len(rule) == 1:
        return _test(*_target(rule["$ref"], document))
    kind = rule.get("type")
    if kind == "object" and rule.keys() <= _OBJECT:
        return _object_test(rule, document)
    if kind == "array" and rule.keys() <= _ARRAY:
        inner = cast("JsonObject", rule.get("items", {}))
        test = _test(inner, document)
        return lambda value: (
            isinstance(value, list)
            and (_plain_numbers(cast("list[Any]", value), inner) or all(map(test, cast("list[Any]", value))))
        )
    kinds = cast("list[str]", kind if isinstance(kind, list) else [kind])
    if rule.keys() <= _PLAIN and all(name in _QUICK for name in kinds):
        return _kind_test(kinds)
    if (
        "enum" in rule
        and rule.keys() <= _ANNOTATIONS | {"enum"}
        and all(type(item) is str for item in rule["enum"])
    ):
        words = frozenset(cast("list[str]", rule["enum"]))
        return lambda value: type(value) is str and value in words
    # Whatever else there is, the full reading decides of this part alone.
    return lambda value: next(_faults(value, rule, document, "$"), None) is None


def _kind_test(kinds: list[str]) -> Test:
    wanted = frozenset(one for name in kinds for one in _QUICK[name])
    if "number" in kinds:
        return lambda value: type(value) in wanted and (type(value) not in {int, float} or _is_number(value))
    return lambda value: type(value) in wanted


def _object_test(rule: JsonObject, document: str) -> Test:
    known = {name: _test(item, document) for name, item in cast("JsonObject", rule.get("properties", {})).items()}
    needed = frozenset(cast("list[str]", rule.get("required", [])))
    others = rule.get("additionalProperties", True)
    other: Test = (lambda _: others) if isinstance(others, bool) else _test(others, document)

    def test(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        items = cast("JsonObject", value)
        return needed <= items.keys() and all(known.get(name, other)(item) for name, item in items.items())

    return test


def _target(reference: str, document: str) -> tuple[JsonObject, str]:
    """(rule, its document) of a reference."""
    file, _, pointer = reference.partition("#")
    file = file or document
    return _pointed(file, pointer), file


@functools.cache
def _pointed(file: str, pointer: str) -> JsonObject:
    target = load_schema(file)
    for part in pointer.strip("/").split("/"):
        target = target[part] if part else target
    return target


def _faults(value: Any, rule: JsonObject, document: str, at: str) -> Iterator[str]:
    """Each way in which a value breaks a rule, as a sentence that names the field (``$.results[3].verdict``)."""
    for keyword, argument in rule.items():
        if keyword in _ANNOTATIONS:
            continue
        handler = _KEYWORDS.get(keyword)
        if handler is None:
            raise NotImplementedError(f"schema {document} uses {keyword!r} at {at}, which is not read")
        yield from handler(value, argument, rule, document, at)


def _reference(value: Any, argument: Any, _rule: JsonObject, document: str, at: str) -> Iterator[str]:
    target, file = _target(str(argument), document)
    yield from _faults(value, target, file, at)


def _type(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    names = cast("list[str]", argument if isinstance(argument, list) else [argument])
    if not any(_TYPES[name](value) for name in names):
        finite = " and finite" if type(value) in {int, float} and "number" in names else ""
        yield f"{at} must be {' or '.join(names)}{finite}, got {_shown(value)}"


def _const(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    if value != argument or isinstance(value, bool) != isinstance(argument, bool):
        yield f"{at} must be {argument!r}, got {_shown(value)}"


def _enum(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    if value not in argument:
        yield f"{at} must be one of {', '.join(argument)}, got {_shown(value)}"


def _pattern(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(argument, value):
        yield f"{at} must match {argument}, got {_shown(value)}"


def _minimum(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    if _TYPES["number"](value) and not value >= argument:
        yield f"{at} must be at least {argument}, got {_shown(value)}"


def _above(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    if _TYPES["number"](value) and not value > argument:
        yield f"{at} must be above {argument}, got {_shown(value)}"


def _maximum(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    if isinstance(value, (int, float)) and not value <= argument:
        yield f"{at} must be at most {argument}, got {_shown(value)}"


def _fewest(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    if isinstance(value, list) and len(cast("list[Any]", value)) < argument:
        yield f"{at} must have at least {argument} items, got {_shown(value)}"


def _required(value: Any, argument: Any, _rule: JsonObject, _document: str, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{at} lacks {name!r}" for name in argument if name not in value)


def _properties(value: Any, argument: Any, _rule: JsonObject, document: str, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, rule in cast("JsonObject", argument).items():
            if name in value:
                yield from _faults(value[name], rule, document, f"{at}.{name}")


def _others(value: Any, argument: Any, rule: JsonObject, document: str, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    known = cast("JsonObject", rule.get("properties", {}))
    for name, item in cast("JsonObject", value).items():
        if name in known or argument is True:
            continue
        if argument is False:
            yield f"{at} has an unknown field {name!r}"
        else:
            yield from _faults(item, argument, document, f"{at}.{name}")


def _items(value: Any, argument: Any, _rule: JsonObject, document: str, at: str) -> Iterator[str]:
    if isinstance(value, list) and not _plain_numbers(cast("list[Any]", value), argument):
        for place, item in enumerate(cast("list[Any]", value)):
            yield from _faults(item, argument, document, f"{at}[{place}]")


def _plain_numbers(values: list[Any], rule: JsonObject) -> bool:
    """Whether these are numbers as a rule of numbers wants them: long arrays are checked at once."""
    if rule.get("type") not in ("number", "integer") or not rule.keys() <= _BOUNDED:
        return False
    kinds = {int} if rule["type"] == "integer" else {int, float}
    if not values or not {type(value) for value in values} <= kinds:
        return not values
    # The least and the greatest say nothing where one is no number.
    return (
        all(map(_is_number, values))
        and min(values) >= rule.get("minimum", -math.inf)
        and min(values) > rule.get("exclusiveMinimum", -math.inf)
        and max(values) <= rule.get("maximum", math.inf)
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


_KEYWORDS: Mapping[str, Callable[[Any, Any, JsonObject, str, str], Iterator[str]]] = {
    "$ref": _reference,
    "type": _type,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _minimum,
    "exclusiveMinimum": _above,
    "maximum": _maximum,
    "minItems": _fewest,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _others,
    "items": _items,
}
