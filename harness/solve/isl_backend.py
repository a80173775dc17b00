"""isl as a solver of SMT-LIB text: exact sets of integer points, another kind of procedure than an SMT solver's.

It applies to linear text, which that of concrete layouts is throughout, and that of products taken as opaque.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kvproof.harness.solve.query import Answer, Budget, Outcome
from kvproof.harness.solve.smtlib import Script
from kvproof.harness.solve.term import Value

Node: TypeAlias = "str | list[Node]"

_TOKEN = re.compile(r"[()]|\|[^|]*\||[^\s()]+")
_RELATIONS = {"<=", "<", "="}
OPERATIONS_A_UNIT = 1
"""isl operations that one resource unit of a budget allows."""


class NotLinearError(ValueError):
    """The text is outside what isl decides."""


class IslBackend:
    """isl within a budget of its own operations.

    Raises:
        ImportError: islpy is not installed.
    """

    name = "isl"

    def __init__(self) -> None:
        # Optional, so imported at first use; and it has no type stubs.
        self._isl: Any = importlib.import_module("islpy")
        self.version: str = self._isl.version.VERSION_TEXT

    def solve(self, script: Script, budget: Budget) -> Answer:
        """Answer one query."""
        isl = self._isl
        start = time.perf_counter()
        context = isl.Context()
        context.set_max_operations(budget.resources * OPERATIONS_A_UNIT)
        try:
            text, names = set_text(script)
            points = isl.Set.read_from_str(context, text)
            empty = points.is_empty()
            model = {} if empty else self._model(points.sample_point(), names, script)
        except NotLinearError as error:
            return Answer(Outcome.UNKNOWN, self.name, reason=f"isl: {error}", seconds=time.perf_counter() - start)
        except isl.Error as error:
            reason = f"isl: budget of {budget.resources} resource units: {error}"
            return Answer(Outcome.UNKNOWN, self.name, reason=reason, seconds=time.perf_counter() - start)
        outcome = Outcome.UNSAT if empty else Outcome.SAT
        return Answer(outcome, self.name, model, "", time.perf_counter() - start)

    def _model(self, point: Any, names: list[str], script: Script) -> Mapping[str, Value]:
        kind = self._isl.dim_type.set
        values = {name: int(point.get_coordinate_val(kind, place).to_python()) for place, name in enumerate(names)}
        return {
            name: bool(values[_plain(symbol)]) if sort == "Bool" else values[_plain(symbol)]
            for symbol, name, sort in script.symbols
        }


def set_text(script: Script) -> tuple[str, list[str]]:
    """The set of integer points that satisfy the text, in isl's notation, and the names of its dimensions.

    Raises:
        NotLinearError: a product of variables, or a function.
    """
    reader = _Reader()
    names: list[str] = []
    bounds: list[str] = []
    for symbol, line in script.declared:
        match _parse(line):
            case ["declare-const", _, sort]:
                names.append(_plain(symbol))
                if sort == "Bool":
                    bounds.append(f"0 <= {_plain(symbol)} <= 1")
                    reader.booleans.add(symbol)
            case ["define-fun", _, _, _, body]:
                reader.defined[symbol] = body
            case _:
                raise NotLinearError(f"function {symbol}")
    asserted = [reader.condition(_parse(text)) for text in script.assertions]
    conditions = [*bounds, *reader.facts, *asserted]
    dimensions = [*names, *reader.chosen.values()]
    return f"{{ [{', '.join(dimensions)}] : {' and '.join(f'({c})' for c in conditions) or 'true'} }}", names


def _plain(symbol: str) -> str:
    """A symbol without the mark that isl would read as an operator."""
    return symbol.replace("!", "_")


def _parse(text: str) -> Node:
    stack: list[list[Node]] = [[]]
    for piece in _TOKEN.findall(text):
        if piece == "(":
            stack.append([])
        elif piece == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(piece)
    return stack[0][0]


@dataclass
class _Reader:
    """Translates conditions and linear terms; definitions are put in where they are used.

    Attributes:
        defined: what symbols stand for.
        booleans: symbols that are conditions.
        chosen: a dimension for each choice between integers.
        facts: what these are.
    """

    defined: dict[str, Node] = field(default_factory=dict[str, Node])
    booleans: set[str] = field(default_factory=set[str])
    chosen: dict[str, str] = field(default_factory=dict[str, str])
    facts: list[str] = field(default_factory=list[str])

    def condition(self, node: Node) -> str:  # noqa: PLR0911  (one a kind of condition)
        if isinstance(node, str):
            if node in self.defined:
                return self.condition(self.defined[node])
            return f"{_plain(node)} = 1" if node in self.booleans else node
        head, *rest = node
        if head in {"and", "or"}:
            return f" {head} ".join(f"({self.condition(part)})" for part in rest)
        if head == "not":
            return f"not ({self.condition(rest[0])})"
        if head == "=>":
            return f"not ({self.condition(rest[0])}) or ({self.condition(rest[1])})"
        if head == "ite":
            test, then, otherwise = (self.condition(part) for part in rest)
            return f"(({test}) and ({then})) or (not ({test}) and ({otherwise}))"
        if head in _RELATIONS and not self._is_condition(rest[0]):
            left, right = (self._shown(self.linear(part)) for part in rest)
            return f"{left} {head} {right}"
        if head == "=":
            a, b = (self.condition(part) for part in rest)
            return f"(({a}) and ({b})) or (not ({a}) and not ({b}))"
        raise NotLinearError(f"condition {head!r}")

    def _is_condition(self, node: Node) -> bool:
        if isinstance(node, str):
            if node in self.defined:
                return self._is_condition(self.defined[node])
            return node in self.booleans or node in {"true", "false"}
        return node[0] in {"and", "or", "not", "=>", "<=", "<", "="} or (
            node[0] == "ite" and self._is_condition(node[2])
        )

    def linear(self, node: Node) -> dict[str, int]:
        """Coefficient of each dimension; the constant under the empty name."""
        if isinstance(node, str):
            if node in self.defined:
                return self.linear(self.defined[node])
            return {"": int(node)} if node.lstrip("-").isdigit() else {_plain(node): 1}
        head, *rest = node
        if head == "-" and len(rest) == 1:
            return {name: -c for name, c in self.linear(rest[0]).items()}
        if head == "+":
            total: dict[str, int] = {}
            for part in rest:
                for name, c in self.linear(part).items():
                    total[name] = total.get(name, 0) + c
            return total
        if head == "*":
            factor, other = (self.linear(part) for part in rest)
            if set(factor) - {""}:
                factor, other = other, factor
            if set(factor) - {""}:
                raise NotLinearError("a product of variables")
            return {name: factor.get("", 0) * c for name, c in other.items()}
        if head == "ite":
            return {self._choice(rest): 1}
        raise NotLinearError(f"term {head!r}")

    def _choice(self, parts: list[Node]) -> str:
        """A dimension that has the value of a choice between two integers."""
        key = repr(parts)
        if key not in self.chosen:
            test = self.condition(parts[0])
            then, otherwise = (self._shown(self.linear(part)) for part in parts[1:])
            name = self.chosen[key] = f"choice_{len(self.chosen)}"
            self.facts.append(f"(({test}) and {name} = {then}) or (not ({test}) and {name} = {otherwise})")
        return self.chosen[key]

    @staticmethod
    def _shown(coefficients: Mapping[str, int]) -> str:
        parts = [f"{c}{name and ' ' + name}" for name, c in coefficients.items() if c]
        return " + ".join(parts) or "0"
