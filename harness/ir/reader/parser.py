"""Parser of TTIR text: every operation by one general form, with the few that have headers of their own.

Bindings are not used: they lack constants, predicates, ranges and successors, and differ between releases.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kvproof.harness.ir.reader.cursor import Cursor
from kvproof.harness.ir.reader.form import (
    Block,
    Function,
    Location,
    Module,
    Operation,
    Region,
    Successor,
    Type,
    Value,
)
from kvproof.harness.ir.reader.locations import Locations
from kvproof.harness.ir.reader.operations import RESULT_TYPES, guess_types
from kvproof.harness.ir.reader.types import read_attribute, read_attributes, read_type

_RESULTS = re.compile(r"%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*\s*=[^=]")
_REGION_START = re.compile(r"\{[ \t]*(?://[^\n]*)?\n")


def read_module(text: str) -> Module:
    """Read the text of a module.

    Raises:
        ReadError: the text is no TTIR.
    """
    return _Parser(text).module()


@dataclass
class _Body:
    """The parts of an operation as they are met."""

    operands: list[Value]
    attributes: dict[str, Any]
    words: list[str]
    regions: list[Region]
    successors: list[Successor]
    stated: list[Type]
    after: list[Type]

    @staticmethod
    def empty() -> _Body:
        return _Body([], {}, [], [], [], [], [])


class _Names:
    """Values by name in one region; names of outer regions are visible."""

    def __init__(self, outer: _Names | None = None) -> None:
        self._outer = outer
        self._values: dict[str, tuple[Value, ...]] = {}

    def define(self, name: str, values: tuple[Value, ...]) -> None:
        self._values[name] = values

    def find(self, name: str) -> tuple[Value, ...] | None:
        found = self._values.get(name)
        return self._outer.find(name) if found is None and self._outer is not None else found


class _Parser:
    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text)
        self.locations = Locations(text)
        self.names = _Names()
        self.labels: dict[str, int] = {}
        self.count = 0

    # ---- module and functions -------------------------------------------

    def module(self) -> Module:
        cursor = self.cursor
        functions: dict[str, Function] = {}
        while not cursor.at_end():
            if cursor.peek("#"):
                cursor.take("alias")
                cursor.expect("=")
                self._rest_of_line()
            elif cursor.accept("module"):
                if cursor.accept("attributes"):
                    cursor.balanced()
                cursor.expect("{")
            elif cursor.accept("tt.func"):
                function = self._function()
                functions[function.name] = function
            elif cursor.accept("}"):
                self._location()
            else:
                cursor.fail("expected a function")
        return Module(functions)

    def _rest_of_line(self) -> None:
        end = self.cursor.text.find("\n", self.cursor.at)
        self.cursor.at = len(self.cursor.text) if end < 0 else end

    def _function(self) -> Function:
        cursor = self.cursor
        public = True
        while cursor.peek("p") or cursor.peek("n"):
            public = cursor.take("word") == "public" and public
        name = cursor.take("symbol")[1:].strip('"')
        self.names = _Names()
        arguments = self._arguments()
        results: tuple[Type, ...] = ()
        if cursor.accept("->"):
            results = self._types_until_brace()
        if cursor.accept("attributes"):
            cursor.balanced()
        body = self._region(_Names(self.names)) if cursor.peek("{") else Region([])
        return Function(name, arguments, results, body, public, self._location())

    def _types_until_brace(self) -> tuple[Type, ...]:
        cursor = self.cursor
        found: list[Type] = []
        while not (cursor.peek("{") or cursor.peek("attributes")):
            if not (cursor.accept("(") or cursor.accept(")") or cursor.accept(",")):
                found.append(read_type(cursor))
        return tuple(found)

    def _arguments(self) -> tuple[Value, ...]:
        """``(%a: T {attributes} loc(...), ...)``"""
        cursor = self.cursor
        cursor.expect("(")
        found: list[Value] = []
        while not cursor.accept(")"):
            name = cursor.take("value")
            cursor.expect(":")
            found.append(self._define(name, (read_type(cursor),))[0])
            if cursor.accept("{"):
                read_attributes(cursor)
            self._location()
            cursor.accept(",")
        return tuple(found)

    def _location(self) -> Location:
        if self.cursor.accept("loc("):
            return self.locations.read(self.cursor)
        return Location()

    def _define(self, name: str, types: tuple[Type, ...]) -> tuple[Value, ...]:
        values = tuple(Value(self.count + i, name[1:], t) for i, t in enumerate(types))
        self.count += len(types)
        self.names.define(name, values)
        return values

    def _use(self, text: str) -> Value:
        name, _, part = text.partition("#")
        values = self.names.find(name)
        if values is None:
            self.cursor.fail(f"use of undefined value {text}")
        return values[int(part or 0)]

    # ---- regions and blocks ---------------------------------------------

    def _region(self, names: _Names) -> Region:
        """``{ operations; ^bb1(%a: T): operations }``. Labels are numbered in order of appearance."""
        cursor = self.cursor
        outer_names, outer_labels = self.names, self.labels
        self.names, self.labels = names, {}
        cursor.expect("{")
        blocks = [Block((), [])]
        order: list[str] = [""]
        while not cursor.accept("}"):
            if cursor.peek("^"):
                label = cursor.take("block")
                arguments = self._arguments() if cursor.peek("(") else ()
                cursor.expect(":")
                if len(blocks) == 1 and not blocks[0].operations and not blocks[0].arguments and order == [""]:
                    blocks, order = [Block(arguments, [])], [label]
                else:
                    blocks.append(Block(arguments, []))
                    order.append(label)
            else:
                blocks[-1].operations.append(self._operation())
        # Branches were read before the blocks that they name; give each its place in the list.
        place = {self._label(label): at for at, label in enumerate(order)}
        for block in blocks:
            for operation in block.operations:
                operation.successors = tuple(Successor(place[s.block], s.operands) for s in operation.successors)
        self.names, self.labels = outer_names, outer_labels
        return Region(blocks)

    def _label(self, label: str) -> int:
        return self.labels.setdefault(label, len(self.labels))

    # ---- operations ------------------------------------------------------

    def _operation(self) -> Operation:
        cursor = self.cursor
        names: list[tuple[str, int]] = []
        cursor.skip()
        if _RESULTS.match(cursor.text, cursor.at):
            while not cursor.accept("="):
                name = cursor.take("value")
                width = int(cursor.take("number")) if cursor.accept(":") else 1
                names.append((name, width))
                cursor.accept(",")
        kind, name = cursor.token()
        if kind == "string":
            name = name[1:-1]
        elif kind != "word":
            cursor.fail(f"expected an operation, found {name!r}")
        body = _Body.empty()
        special = _SPECIAL.get(name)
        if special is not None:
            special(self, body)
        self._items(body)
        location = self._location()
        return self._finish(name, names, body, location)

    def _finish(self, name: str, names: list[tuple[str, int]], body: _Body, location: Location) -> Operation:
        count = sum(width for _, width in names)
        rule = RESULT_TYPES.get(name)
        if name == "arith.constant" and not body.stated:
            body.stated.append(Type("i1"))
        known = rule is not None and all(v.type.element != "unknown" for v in body.operands)
        types: tuple[Type, ...] = ()
        if rule is not None:
            try:
                types = rule(body.operands, body.stated, body.after)
            except IndexError:
                types = ()
        if len(types) != count:
            known = False
            types = guess_types(count, body.stated, body.after)
        results: list[Value] = []
        for result, width in names:
            results += self._define(result, types[len(results) : len(results) + width])
        if body.words:
            body.attributes["words"] = tuple(body.words)
        return Operation(
            name,
            tuple(results),
            tuple(body.operands),
            body.attributes,
            tuple(body.regions),
            tuple(body.successors),
            location,
            known,
        )

    def _items(self, body: _Body) -> None:
        """Operands, words, attributes and regions up to the types, then the types, then the end."""
        cursor = self.cursor
        while not (cursor.at_line_end() or cursor.peek("loc(")):
            if cursor.accept(":"):
                self._types(body)
            elif _REGION_START.match(cursor.text, cursor.at):
                body.regions.append(self._region(_Names(self.names)))
            elif cursor.accept("<{") or cursor.accept("{"):
                body.attributes.update(read_attributes(cursor))
            elif cursor.accept("}"):
                cursor.fail("unbalanced bracket")
            else:
                self._item(body)

    def _item(self, body: _Body) -> None:
        cursor = self.cursor
        kind, text = cursor.token()
        if kind == "value":
            body.operands.append(self._use(text))
        elif kind == "symbol":
            body.attributes["callee"] = text[1:].strip('"')
        elif kind == "word" and cursor.peek("="):
            cursor.expect("=")
            body.attributes[text] = read_attribute(cursor)
        elif kind == "word" and cursor.text.startswith("<", cursor.at):
            body.attributes[text] = cursor.balanced()[1:-1]
        elif kind in {"word", "number", "string"}:
            body.words.append(text.strip('"'))
        elif text == "(" and _REGION_START.match(cursor.text, cursor.at):
            while not cursor.accept(")"):
                body.regions.append(self._region(_Names(self.names)))
                cursor.accept(",")
        elif text == "->":
            self._types(body, arrow=True)
        # Parentheses, brackets and commas only group what is read one by one.

    def _types(self, body: _Body, *, arrow: bool = False) -> None:
        """``T, T``, ``T to T``, ``(T, T) -> T``, ``T * T -> T``; ends at an attribute, a region or the line."""
        cursor = self.cursor
        found = body.after if arrow else body.stated
        while not (cursor.at_line_end() or cursor.peek("loc(") or cursor.peek("{") or cursor.peek("<{")):
            if cursor.accept("->") or cursor.accept("to "):
                found = body.after
            elif not any(cursor.accept(mark) for mark in "(),*:"):
                found.append(read_type(cursor))

    # ---- operations with headers of their own ----------------------------

    def _constant(self, body: _Body) -> None:
        cursor = self.cursor
        if cursor.accept("{"):
            body.attributes.update(read_attributes(cursor))
        cursor.skip()
        kind, text = cursor.token()
        if text == "dense":
            text = cursor.balanced()[1:-1]
        elif kind == "word" and text not in {"true", "false"}:
            cursor.fail("expected a constant")
        body.attributes["value"] = text

    def _branch(self, body: _Body) -> None:
        cursor = self.cursor
        while not (cursor.at_line_end() or cursor.peek("loc(")):
            kind, text = cursor.token()
            if kind == "value":
                body.operands.append(self._use(text))
            elif kind == "block":
                body.successors.append(Successor(self._label(text), self._passed()))

    def _passed(self) -> tuple[Value, ...]:
        """``(%a, %b : T, T)`` behind a branch's target; nothing where none is passed."""
        cursor = self.cursor
        found: list[Value] = []
        if cursor.accept("("):
            while not cursor.accept(":"):
                found.append(self._use(cursor.take("value")))
                cursor.accept(",")
            while not cursor.accept(")"):
                read_type(cursor)
                cursor.accept(",")
        return tuple(found)

    def _for(self, body: _Body) -> None:
        """``[unsigned] %i = %low to %stop step %step [iter_args(%a = %b) -> (T)] [: T] { ... }``"""
        cursor = self.cursor
        body.attributes["unsigned"] = cursor.accept("unsigned")
        induction = cursor.take("value")
        for mark in ("=", "to", "step"):
            cursor.expect(mark)
            body.operands.append(self._use(cursor.take("value")))
        carried = self._carried(body) if cursor.accept("iter_args") else []
        if cursor.accept("->"):
            body.after = list(self._types_until_colon())
        kind = read_type(cursor) if cursor.accept(":") else body.operands[0].type
        inner = _Names(self.names)
        outer, self.names = self.names, inner
        arguments = [*self._define(induction, (kind,))]
        for name, type_ in zip(carried, body.after, strict=True):
            arguments += self._define(name, (type_,))
        self.names = outer
        region = self._yielding(inner)
        region.blocks[0].arguments = tuple(arguments)
        body.regions.append(region)

    def _yielding(self, names: _Names) -> Region:
        """A region whose ``scf.yield`` is not printed if it passes nothing."""
        region = self._region(names)
        operations = region.block.operations
        if not operations or operations[-1].name != "scf.yield":
            operations.append(Operation("scf.yield", (), ()))
        return region

    def _carried(self, body: _Body) -> list[str]:
        cursor = self.cursor
        names: list[str] = []
        cursor.expect("(")
        while not cursor.accept(")"):
            names.append(cursor.take("value"))
            cursor.expect("=")
            body.operands.append(self._use(cursor.take("value")))
            cursor.accept(",")
        return names

    def _types_until_colon(self) -> tuple[Type, ...]:
        cursor = self.cursor
        found: list[Type] = []
        while not (cursor.peek(":") or cursor.peek("{")):
            if not (cursor.accept("(") or cursor.accept(")") or cursor.accept(",")):
                found.append(read_type(cursor))
        return tuple(found)

    def _if(self, body: _Body) -> None:
        """``%c [-> (T)] { ... } [else { ... }]``"""
        cursor = self.cursor
        body.operands.append(self._use(cursor.take("value")))
        if cursor.accept("->"):
            body.after = list(self._types_until_colon())
        body.regions.append(self._yielding(_Names(self.names)))
        if cursor.accept("else"):
            body.regions.append(self._yielding(_Names(self.names)))

    def _while(self, body: _Body) -> None:
        """``(%a = %b) : (T) -> U { ... scf.condition(%c) %x : U } do { ^bb0(%y: U): ... scf.yield %z : T }``"""
        cursor = self.cursor
        carried = self._carried(body) if cursor.peek("(") else []
        cursor.expect(":")
        cursor.expect("(")
        before: list[Type] = []
        while not cursor.accept(")"):
            before.append(read_type(cursor))
            cursor.accept(",")
        cursor.expect("->")
        body.after = list(self._types_until_colon())
        inner = _Names(self.names)
        outer, self.names = self.names, inner
        arguments: list[Value] = []
        for name, type_ in zip(carried, before, strict=True):
            arguments += self._define(name, (type_,))
        self.names = outer
        region = self._region(inner)
        region.blocks[0].arguments = tuple(arguments)
        body.regions.append(region)
        cursor.expect("do")
        body.regions.append(self._yielding(_Names(self.names)))


_SPECIAL = {
    "arith.constant": _Parser._constant,
    "cf.br": _Parser._branch,
    "cf.cond_br": _Parser._branch,
    "scf.for": _Parser._for,
    "scf.if": _Parser._if,
    "scf.while": _Parser._while,
}
