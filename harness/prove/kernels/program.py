"""One program of a kernel, evaluated symbolically: the term of any value at any lane, and what it depends on.

A tensor value is a function of lane coordinates. It is evaluated only at the coordinates asked for, so a
kernel of any block size costs the same. Each evaluation notes which values it used, and under what guard:
``select`` and ``and`` do not depend on the side that does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvproof.harness.ir.reader import Function, Operation, Region, Value
from kvproof.harness.prove.kernels.intervals import Interval, Intervals
from kvproof.harness.prove.kernels.values import Demand, Key, Pointer, Unmodelled, Use
from kvproof.harness.solve.term import BOOL, INT, TRUE, Term, and_, apply, conjuncts, integer, linear, variable

Coordinates = tuple[Term, ...]

Context = tuple[int, ...]
"""Which round of each unrolled loop around it a value is of, the outermost first."""


class Memory(Protocol):
    """What is known of the tensors behind pointer arguments."""

    def load(self, program: Program, pointer: Pointer, operation: Operation, made: Term | None) -> Term:
        """What the memory holds there before the launch; something unknown if the kernel may have written it.

        ``made`` says whether the load is made; None if that is not known.
        """
        ...


LARGEST_GRID = (2**31 - 1, 2**16 - 1, 2**16 - 1)
"""Programs along x, y, z that a GPU of either vendor can launch."""


@dataclass(frozen=True)
class ReadFact:
    """That an element was read in bounds, where it was read at all.

    Attributes:
        element: the element.
        condition: if the read was made, its coordinates were in range.
    """

    element: Term
    condition: Term


@dataclass
class Scope:
    """What all programs of one launch share.

    Attributes:
        function: the kernel.
        arguments: of each argument by name: a term, or a pointer to its first element.
        memory: contents of the tensors.
        grid: programs along x, y, z.
        ranges: range of each variable.
        function_ranges: range of each uninterpreted function.
        tensors: the contract's index tensors.
        facts: elements that were read, found while evaluating.
    """

    function: Function
    arguments: Mapping[str, Term | Pointer]
    memory: Memory
    grid: tuple[Term, Term, Term]
    ranges: dict[Term, Interval] = field(default_factory=dict[Term, Interval])
    function_ranges: dict[str, Interval] = field(default_factory=dict[str, Interval])
    tensors: frozenset[str] = frozenset()
    facts: list[ReadFact] = field(default_factory=list[ReadFact])

    def __post_init__(self) -> None:
        self.intervals = Intervals(self._atom)
        self.definitions: dict[int, Definition] = {}
        self._depths: dict[int, int] = {}
        for at, argument in enumerate(self.function.body.blocks[0].arguments):
            self.definitions[argument.number] = Definition(None, at)
        self._define(self.function.body, 0)

    def _define(self, region: Region, depth: int) -> None:
        for block in region.blocks:
            for argument in block.arguments:
                self._depths[argument.number] = depth
            for operation in block.operations:
                for at, result in enumerate(operation.results):
                    self.definitions[result.number] = Definition(operation, at)
                    self._depths[result.number] = depth
                for inner in operation.regions:
                    self._define(inner, depth + (operation.name == "scf.while"))

    def own(self, value: Value, context: Context) -> Context:
        """Of the rounds of unrolled loops, those of the loops around a value's definition."""
        return context[: self._depths.get(value.number, 0)]

    def _atom(self, term: Term) -> Interval:
        if term.op == "app":
            return self.function_ranges.get(term.payload, (None, None))
        return self.ranges.get(term, (None, None))

    def tighten(self, conditions: Iterable[Term]) -> None:
        """Narrow the ranges of variables by conditions that bound one of them."""
        for condition in conditions:
            for part in conjuncts(condition):
                if part.op != "le":
                    continue
                constant, atoms = linear(part.args[0])
                if len(atoms) == 1:
                    ((atom, factor),) = atoms.items()
                    low, high = self.ranges.get(atom, (None, None))
                    if factor == 1:  # atom + constant <= 0
                        high = -constant if high is None else min(high, -constant)
                    elif factor == -1:
                        low = constant if low is None else max(low, constant)
                    self.ranges[atom] = (low, high)

    def fresh(self, name: str, low: int | None = None, high: int | None = None) -> Term:
        """A variable with a range."""
        term = variable(name)
        self.ranges[term] = (low, high)
        return term


@dataclass(frozen=True)
class Definition:
    """What defines a value: the operation's result at ``place``, or (None) an argument of a block."""

    operation: Operation | None
    place: int


Given = Callable[[Coordinates], "Term | Pointer"]
"""A value by its coordinates: how an argument of a block or loop is given."""


class Program:
    """One program.

    Args:
        scope: the launch.
        suffix: told apart two programs of one launch by the names of their variables.
    """

    def __init__(self, scope: Scope, suffix: str = "") -> None:
        self.scope = scope
        self.suffix = suffix
        self.ids = tuple(
            scope.fresh(f"pid_{axis}{suffix}", 0, most - 1)
            if not size.is_const or size.payload != 1
            else integer(0)
            for axis, size, most in zip("xyz", scope.grid, LARGEST_GRID, strict=True)
        )
        self.given: dict[tuple[int, Context], Given] = {}
        self.loops: list[Term] = []
        self.context: Context = ()
        self.paths: dict[int, tuple[Term, ...]] = {}
        self._values: dict[Key, Term | Pointer] = {}
        self._uses: dict[Key, list[Use]] = {}
        self._demands: dict[Key, list[Demand]] = {}
        self._stack: list[Key] = []
        for argument in scope.function.arguments:
            value = scope.arguments.get(argument.name)
            if value is not None:
                self.given[argument.number, ()] = _constantly(value)

    # ---- evaluation ------------------------------------------------------------

    def term(self, value: Value, coordinates: Coordinates = (), guard: Term = TRUE) -> Term:
        """The value at some coordinates, which must be an integer, a condition or an integral float.

        Args:
            value: the value.
            coordinates: a term for each of its dimensions.
            guard: the value that is being computed depends on this one only where the guard holds.

        Raises:
            Unmodelled: the value depends on something outside the model.
        """
        found = self.value(value, coordinates, guard)
        if isinstance(found, Pointer):
            raise Unmodelled(f"pointer {value.name} used as a number")
        return found

    def pointer(self, value: Value, coordinates: Coordinates = (), guard: Term = TRUE) -> Pointer:
        """The pointer at some coordinates.

        Raises:
            Unmodelled: which argument it comes from is not fixed.
        """
        found = self.value(value, coordinates, guard)
        if not isinstance(found, Pointer):
            raise Unmodelled(f"{value.name} is no pointer into an argument")
        return found

    def value(self, value: Value, coordinates: Coordinates = (), guard: Term = TRUE) -> Term | Pointer:
        """The value at some coordinates."""
        key = self.key(value, coordinates)
        if self._stack:
            self._uses[self._stack[-1]].append(Use(key, guard))
        found = self._values.get(key)
        if found is None:
            self._stack.append(key)
            self._uses[key] = []
            self._demands[key] = []
            try:
                with self.round(key[2]):
                    found = self._values[key] = self._compute(value, coordinates)
            finally:
                self._stack.pop()
        return found

    def give(self, value: Value, given: Given) -> None:
        """Say what a block's argument is, in the present round of the unrolled loops."""
        self.given[value.number, self.scope.own(value, self.context)] = given

    @contextmanager
    def round(self, context: Context) -> Iterator[None]:
        """Within: values are those of this round of the unrolled loops."""
        before, self.context = self.context, context
        try:
            yield
        finally:
            self.context = before

    def key(self, value: Value, coordinates: Coordinates = ()) -> Key:
        """What a value at some coordinates is known by, in the present round."""
        return (value.number, coordinates, self.scope.own(value, self.context))

    def _compute(self, value: Value, coordinates: Coordinates) -> Term | Pointer:
        given = self.given.get((value.number, self.context))
        if given is not None:
            return given(coordinates)
        definition = self.scope.definitions.get(value.number)
        if definition is None or definition.operation is None:
            raise Unmodelled(f"value {value.name} is not given")
        from kvproof.harness.prove.kernels import meaning  # noqa: PLC0415  (it needs this module)

        program: Any = self
        return meaning.meaning(program, definition.operation, definition.place, coordinates)

    # ---- what meanings use (Context) ---------------------------------------------

    def demand(self, demand: Demand) -> None:
        """State a condition under which the value being computed is right."""
        if self._stack:
            self._demands[self._stack[-1]].append(demand)

    def interval(self, term: Term) -> Interval:
        """Range of a term."""
        return self.scope.intervals.of(term)

    def is_element(self, term: Term) -> bool:
        """Whether a term is an element of one of the contract's index tensors."""
        return term.op == "app" and term.payload in self.scope.tensors

    def unknown(
        self, name: str, coordinates: Sequence[Term], low: int, high: int, *, sort: str = INT, shared: bool = False
    ) -> Term:
        """Some value of a range that nothing else is known of; the same one at the same place of the program.

        Args:
            name: of what.
            coordinates: the place.
            low, high: the range.
            sort: ``BOOL`` for a condition.
            shared: the same for every program.
        """
        before = self.scope.function_ranges.get(name, (low, high))
        self.scope.function_ranges[name] = (min(before[0] or low, low), max(before[1] or high, high))
        # Each round of an unrolled loop computes a value anew.
        place = [] if shared else [*self.ids, *self.loops, *map(integer, self.context)]
        arguments = [*place, *coordinates] or [integer(0)]
        if sort == BOOL:
            return apply(name, arguments, BOOL)
        return apply(name, arguments)

    # ---- demands -------------------------------------------------------------------

    def demands(self, key: Key, guard: Term = TRUE) -> Iterator[tuple[Demand, Term]]:
        """Every demand that a value rests on, each with the guard under which it does."""
        seen: set[tuple[Key, Term]] = set()
        stack = [(key, guard)]
        while stack:
            at, under = stack.pop()
            if (at, under) in seen or (at, TRUE) in seen:
                continue
            seen.add((at, under))
            for demand in self._demands.get(at, ()):
                yield demand, under
            for use in self._uses.get(at, ()):
                stack.append((use.key, under if use.guard is TRUE else and_(under, use.guard)))

    def reaches(self, key: Key) -> set[int]:
        """Numbers of all values that a value rests on."""
        seen: set[Key] = set()
        stack = [key]
        while stack:
            at = stack.pop()
            if at not in seen:
                seen.add(at)
                stack.extend(use.key for use in self._uses.get(at, ()))
        return {number for number, _, _ in seen}

    def trial(self) -> Program:
        """A copy for trying out a loop-carried value: what it evaluates is forgotten with it."""
        copy = object.__new__(Program)
        copy.scope, copy.suffix, copy.ids = self.scope, self.suffix, self.ids
        copy.given, copy.loops, copy.context = dict(self.given), list(self.loops), self.context
        copy.paths = self.paths
        copy._values, copy._uses, copy._demands, copy._stack = {}, {}, {}, []
        return copy


def _constantly(value: Term | Pointer) -> Given:
    return lambda _coordinates: value
