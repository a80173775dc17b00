"""One launch in front of the solvers: two programs of it, the caller's guarantees, and questions about both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kvproof.harness.ir.reader import Module, Operation, Value
from kvproof.harness.prove.kernels.ask import Asker
from kvproof.harness.prove.kernels.clauses import Clauses
from kvproof.harness.prove.kernels.collect import ATOMICS, STORES, Access, Collected, collect, lane_bounds
from kvproof.harness.prove.kernels.contents import Contents
from kvproof.harness.prove.kernels.intervals import Interval
from kvproof.harness.prove.kernels.launch import Launch, Setting, tensor_ranges
from kvproof.harness.prove.kernels.program import LARGEST_GRID, Program, ReadFact, Scope
from kvproof.harness.prove.kernels.values import Pointer, Unmodelled
from kvproof.harness.solve.query import Answer, Outcome, Query
from kvproof.harness.solve.term import Term, integer, le, lt, walk


class Questions:
    """What can be asked of one launch.

    Args:
        setting: the entry point's setting.
        launch: one of its launches.
        module: the launch's compiled kernel.
        asker: whom to ask.
        ways: see :class:`~kvproof.harness.prove.kernels.contents.Contents`.

    Attributes:
        first, second: two programs of the launch, which may be the same one.
    """

    def __init__(
        self,
        setting: Setting,
        launch: Launch,
        module: Module,
        asker: Asker,
        ways: Mapping[int, int] | None = None,
    ) -> None:
        self.setting = setting
        self.launch = launch
        self.module = module
        self.asker = asker
        entry = module.entry
        arguments: dict[str, Term | Pointer] = dict(launch.arguments)
        for argument in entry.arguments:
            if argument.type.is_pointer and argument.name in launch.views:
                arguments[argument.name] = Pointer(argument.name, integer(0), argument.type.pointee_bytes)
        written = frozenset(
            launch.views[name].tensor for name in _stored_arguments(module) if name in launch.views
        )
        self.scope = Scope(entry, arguments, Contents(launch.views, written, ways or {}), launch.grid)
        ranges = tensor_ranges(setting)
        self.scope.function_ranges.update(ranges)
        self.scope.tensors = frozenset(ranges)
        for quantity in (*setting.quantities, *launch.loose):
            self.scope.ranges[quantity.term] = quantity.range
        self.clauses = Clauses(setting.contract, setting.arguments, self.follows)
        self.scope.tighten([*self.clauses.always, *setting.premises])
        # A larger grid cannot be launched at all.
        sizes = [le(size, integer(most)) for size, most in zip(launch.grid, LARGEST_GRID, strict=True)]
        self._extra = [*setting.premises, *sizes]
        self.first: Collected = collect(Program(self.scope))
        self.second: Collected = collect(Program(self.scope, "'"))
        for access in self.first.accesses:
            view = launch.views.get(access.pointer.argument) if access.pointer is not None else None
            if access.kind != "load" and view is not None and view.tensor not in written:
                raise Unmodelled(f"a store to {view.tensor} through a pointer of several branches")
        self._own: Term | None = None
        self._ranged: dict[tuple[Term, Interval], list[Term]] = {}
        self._positions = {id(operation): at for at, operation in enumerate(entry.body.walk())}

    def follows(self, premises: list[Term], goal: Term) -> bool:
        """Whether a condition follows from premises alone."""
        return self.asker.ask(Query(tuple(premises), goal)).outcome is Outcome.UNSAT

    def position(self, operation: Operation) -> int:
        """Place of an operation in the kernel's text."""
        return self._positions.get(id(operation), 1 << 30)

    # ---- premises ------------------------------------------------------------------

    def premises(self, terms: Sequence[Term], rounds: int = 2) -> tuple[Term, ...]:
        """What holds of everything that the terms speak of: guarantees, ranges, the grid.

        Args:
            terms: the question.
            rounds: how far to follow the guarantees from element to element; with fewer, less is said.
        """
        about = [*terms, *self.clauses.always, *self._extra]
        read = [fact.condition for fact in self._facts(about)]
        about += read
        stated = self.clauses.at(about, rounds)
        everything = [*about, *stated]
        ranges: list[Term] = []
        variables: set[Term] = set()
        for term in walk(*everything):
            if term.op == "var":
                variables.add(term)
            elif term.op != "app" or term.sort != "Int":
                continue
            ranges += self._range_of(term)
        for program in (self.first.program, self.second.program):
            for place, size in zip(program.ids, self.launch.grid, strict=True):
                if place in variables:
                    ranges.append(lt(place, size))
        return (*self.clauses.always, *self._extra, *read, *ranges, *stated)

    def _range_of(self, term: Term) -> list[Term]:
        """What the range of a variable or an element says."""
        ranges = self.scope.ranges.get(term) if term.op == "var" else self.scope.function_ranges.get(term.payload)
        key = (term, ranges or (None, None))
        known = self._ranged.get(key)
        if known is None:
            known = self._ranged[key] = _bounds(*key)
        return known

    def _facts(self, terms: Sequence[Term]) -> list[ReadFact]:
        """That the elements which the terms speak of were read in bounds: whether they are is asked on its own."""
        elements = {t for t in walk(*terms) if t.op == "app"}
        return [f for f in self.scope.facts if f.element in elements and f.element is not self._own]

    def made(self, *accesses: Access) -> list[Term]:
        """The conditions under which accesses are made."""
        found: list[Term] = []
        for access in accesses:
            found += [*lane_bounds(access), *access.path, access.mask]
        return found

    def assume(self, condition: Term) -> None:
        """Restrict every later question."""
        self._extra.append(condition)

    def release(self) -> None:
        """Forget what was assumed last."""
        self._extra.pop()

    # ---- questions --------------------------------------------------------------------

    def ask_of(self, element: Term | None, given: Iterable[Term], goal: Term) -> Answer:
        """As :meth:`ask`, of the access that reads an element: that it is in bounds is not taken for granted."""
        self._own = element
        try:
            return self.ask(given, goal)
        finally:
            self._own = None

    def ask(self, given: Iterable[Term], goal: Term) -> Answer:
        """Whether the goal follows: ``unsat`` if it does, ``sat`` with a counterexample if not."""
        given = list(given)
        if goal.is_const and goal.payload:
            return Answer(Outcome.UNSAT, "syntax")
        # Most goals follow from little; what is said less of is found out sooner.
        for rounds in (0, 1):
            answer = self._attempt(given, goal, rounds)
            if answer.outcome is Outcome.UNSAT:
                return answer
        return self.asker.ask(Query((*self.premises([*given, goal]), *given), goal))

    def plainly(self, given: Iterable[Term], goal: Term) -> bool:
        """Whether the goal follows from little and is soon shown to; if not, it may follow all the same."""
        given = list(given)
        if goal.is_const and goal.payload:
            return True
        return self._attempt(given, goal, 0).outcome is Outcome.UNSAT

    def _attempt(self, given: Sequence[Term], goal: Term, rounds: int) -> Answer:
        premises = self.premises([*given, goal], rounds)
        return self.asker.prove(Query((*premises, *given), goal))

    def possible(self, given: Iterable[Term]) -> Answer:
        """Whether conditions can hold together under the guarantees: ``sat`` with an example if so."""
        given = list(given)
        # An example is what is looked for, and less premises give none.
        return self.asker.ask(Query((*self.premises(given), *given)))


def _bounds(term: Term, interval: Interval) -> list[Term]:
    low, high = interval
    found: list[Term] = []
    if low is not None:
        found.append(le(integer(low), term))
    if high is not None:
        found.append(le(term, integer(high)))
    return found


def _stored_arguments(module: Module) -> set[str]:
    """Pointer arguments that the kernel may store through: found by following pointers back."""
    entry = module.entry
    sources: dict[int, set[str]] = {a.number: {a.name} for a in entry.arguments if a.type.is_pointer}
    operations = list(entry.body.walk())
    changed = True
    while changed:
        changed = False
        for operation in operations:
            pointers = [r for r in operation.results if r.type.is_pointer]
            inner = [
                a for region in operation.regions for b in region.blocks for a in b.arguments if a.type.is_pointer
            ]
            if not pointers and not inner:
                continue
            found = set().union(*(sources.get(v.number, set()) for v in _inputs(operation)))
            for value in (*pointers, *inner):
                if found - sources.get(value.number, set()):
                    sources.setdefault(value.number, set()).update(found)
                    changed = True
    stores = [o for o in operations if o.name in STORES + ATOMICS]
    return set().union(*(sources.get(o.operands[0].number, set()) for o in stores)) if stores else set()


def _inputs(operation: Operation) -> list[Value]:
    ends = [r.blocks[0].operations[-1].operands for r in operation.regions if r.blocks[0].operations]
    return [*operation.operands, *(v for end in ends for v in end)]
