"""The properties of one launch: in bounds, no sentinel in an address, no wrap, one writer a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kvproof.harness.ir.reader import Location
from kvproof.harness.prove.kernels.arithmetic import elements
from kvproof.harness.prove.kernels.collect import Access, Collected, lane_bounds
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.prove.kernels.values import Demand, DemandKind
from kvproof.harness.prove.kernels.views import View
from kvproof.harness.solve.query import Answer, Outcome
from kvproof.harness.solve.term import (
    TRUE,
    Term,
    add,
    and_,
    apply,
    conjuncts,
    eq,
    integer,
    le,
    lt,
    mul,
    not_,
    or_,
    scale,
    show,
)
from kvproof.reports.verdict import Status


class Property(StrEnum):
    """What is checked."""

    IN_BOUNDS = "in bounds"
    NO_SENTINEL = "no sentinel in an address"
    NO_WRAP = "no wrap"
    ONE_WRITER = "one writer a cell"
    ADDRESS_MAP = "addresses of the contract"


@dataclass(frozen=True)
class Found:
    """What one question found.

    Attributes:
        property: of which property.
        status: PASS, FAIL, UNKNOWN or UNSUPPORTED.
        words: what was asked or found, in words.
        location: the operation concerned.
        other: the second operation, of a pair.
        given: the conditions of a counterexample.
        goal: what fails in it.
        sharper: what, beyond the goal, must fail for the counterexample to be seen: the goal may ask too much.
        model: its values.
        buffer: tensor concerned.
        assumes: what a PASS rests on beside the contract.
    """

    property: Property
    status: Status
    words: str
    location: Location
    other: Location | None = None
    given: tuple[Term, ...] = ()
    goal: Term = TRUE
    sharper: Term | None = None
    answer: Answer | None = None
    buffer: str = ""
    assumes: str = ""


@dataclass
class Checked:
    """What the questions about one launch found.

    Attributes:
        results: one a question that was not PASS, and one a PASS for counting.
        coordinates: of each access by operation and program, the coordinates shown to be in range.
        ways: of loads by operation: which way of writing the coordinates was shown to be in range; -1 if none.
        flat: accesses that are in bounds without having coordinates in range.
    """

    results: list[Found] = field(default_factory=list[Found])
    coordinates: dict[int, tuple[Term, ...]] = field(default_factory=dict[int, tuple[Term, ...]])
    flat: set[int] = field(default_factory=set[int])
    ways: dict[int, int] = field(default_factory=dict[int, int])

    def note_way(self, access: Access, way: int) -> None:
        """Keep which way an access's coordinates are in range; rounds of a loop that differ count as none."""
        if access.kind == "load":
            key = id(access.operation)
            self.ways[key] = way if self.ways.get(key, way) == way else -1


STATUS = {Outcome.UNSAT: Status.PASS, Outcome.SAT: Status.FAIL, Outcome.UNKNOWN: Status.UNKNOWN}


def view_of(questions: Questions, access: Access) -> View | None:
    """The view that an access goes through."""
    return None if access.pointer is None else questions.launch.views.get(access.pointer.argument)


def element_offset(access: Access, view: View) -> Term | None:
    """Offset of an access in elements of the view; None if its elements are narrower than the view's."""
    assert access.pointer is not None  # asked only of accesses with a view
    if access.width < view.item:
        return None
    if access.pointer.unit == view.item:
        return access.pointer.offset
    if access.pointer.unit % view.item == 0:
        return scale(access.pointer.unit // view.item, access.pointer.offset)
    return None


# ---- in bounds -----------------------------------------------------------------------


def in_bounds(questions: Questions, checked: Checked) -> Iterator[Found]:
    """Every access that is made lies in its view."""
    for one, two in zip(questions.first.accesses, questions.second.accesses, strict=True):
        where = one.operation.location
        view = view_of(questions, one)
        if view is None:
            yield Found(Property.IN_BOUNDS, Status.UNSUPPORTED, one.problem or "an unknown tensor", where)
            continue
        offsets = [element_offset(access, view) for access in (one, two)]
        if offsets[0] is None or offsets[1] is None:
            words = f"a {one.width}-byte access to elements of {view.item} bytes"
            yield Found(Property.IN_BOUNDS, Status.UNSUPPORTED, words, where)
            continue
        ways = view.coordinates(offsets[0], questions.scope.intervals)
        twins = view.coordinates(offsets[1], questions.scope.intervals)
        worst: Found | None = None
        given = questions.made(one)
        # An access of several elements is seen to be outside by its first or by its last one.
        last = add(offsets[0], integer(max(one.width // view.item - 1, 0)))
        sharper = and_(view.exact(offsets[0]), view.exact(last))
        own = apply(view.tensor, ways[0]) if one.kind == "load" and view.same else None
        for number, (way, twin) in enumerate(zip(ways, twins, strict=True)):
            goal = _inside(view, way, one)
            answer = questions.ask_of(own, given, goal)
            words = f"{view.tensor}: {_shown(way)} within {_shown(view.shape)}"
            found = Found(
                Property.IN_BOUNDS,
                STATUS[answer.outcome],
                words,
                where,
                None,
                tuple(given),
                goal,
                sharper,
                answer,
                view.tensor,
            )
            if found.status is Status.PASS:
                checked.coordinates[id(one)], checked.coordinates[id(two)] = way, twin
                checked.note_way(one, number)
                worst = found
                break
            # The last way is division, which is exact where it applies.
            worst = found
        assert worst is not None  # there is always one way
        if worst.status is not Status.PASS:
            checked.coordinates[id(one)], checked.coordinates[id(two)] = ways[0], twins[0]
            flat = _flat(view, offsets[0], one)
            if flat is not None:
                # Rows may be counted across their ends, where the tensor has no gaps.
                answer = questions.ask_of(own, given, flat)
                if answer.outcome is Outcome.UNSAT:
                    checked.flat |= {id(one), id(two)}
                    checked.note_way(one, -1)
                    worst = Found(Property.IN_BOUNDS, Status.PASS, worst.words, where, buffer=view.tensor)
        yield worst


def _flat(view: View, offset: Term, access: Access) -> Term | None:
    """Of a contiguous view: the offset is among its elements, in whichever row."""
    if not view.contiguous or access.pointer is None or {access.pointer.unit, access.width} != {view.item}:
        return None
    count = integer(1)
    for extent in view.shape:
        count = mul(count, extent)
    return and_(le(integer(0), offset), lt(offset, count))


def _inside(view: View, way: Sequence[Term], access: Access) -> Term:
    assert access.pointer is not None  # its view is known
    extra = access.width // view.item - 1
    if extra <= 0:
        return view.inside(way)
    # An access of several elements must end in the row that it starts in.
    return and_(view.inside(way), view.inside((*way[:-1], add(way[-1], integer(extra)))))


def _shown(terms: Sequence[Term]) -> str:
    text = ", ".join(show(t) for t in terms)
    return f"[{text}]" if len(text) < 300 else f"[{text[:300]}...]"


# ---- demands --------------------------------------------------------------------------


def no_wrap(questions: Questions, _checked: Checked, within: Within | None = None) -> Iterator[Found]:
    """No operation that an address, a mask or a branch rests on wraps, rounds or divides by zero.

    Args:
        questions: the launch.
        within: of what fails, a condition that a PASS may be bound by and under which it does not; or None.
    """
    kinds = (DemandKind.FITS, DemandKind.EXACT, DemandKind.DIVISOR)
    assumed = 0
    for found in _demands(questions, Property.NO_WRAP, kinds):
        yield found
        condition = within(found) if within is not None and found.status is Status.FAIL else None
        if condition is not None:
            # The bound is stated once; what else is asked is asked under it.
            questions.assume(condition)
            assumed += 1
    for _ in range(assumed):
        questions.release()


Within = Callable[[Found], "Term | None"]


def no_sentinel(questions: Questions, _checked: Checked) -> Iterator[Found]:
    """No negative value is divided for an address, and none scales one."""
    yield from _demands(questions, Property.NO_SENTINEL, (DemandKind.NOT_NEGATIVE,))
    is_element = questions.first.program.is_element
    for access in questions.first.accesses:
        if access.pointer is None:
            continue
        parts: list[Term] = []
        ids: list[Term] = []
        for element, guard, factor in elements(access.pointer.offset, is_element):
            if abs(factor) > 1:
                parts.append(or_(not_(guard), le(integer(0), element)))
                ids.append(element)
        if not parts:
            continue
        given, goal = questions.made(access), and_(*parts)
        answer = questions.ask(given, goal)
        words = f"not negative where it makes an address: {', '.join(dict.fromkeys(show(i) for i in ids))}"
        yield Found(
            Property.NO_SENTINEL,
            STATUS[answer.outcome],
            words,
            access.operation.location,
            None,
            tuple(given),
            goal,
            None,
            answer,
        )


def _demands(questions: Questions, of: Property, kinds: Sequence[DemandKind]) -> Iterator[Found]:
    settled = _Settled()
    suspects: set[Demand] = set()
    # A mask may be computed from a sentinel, as long as it comes out false; an address may not.
    for lanes, path, demands in _demand_groups(questions.first, address_only=of is Property.NO_SENTINEL):
        given = [*lanes, *path]
        open_ones = [
            (demand, guard)
            for demand, guard in dict.fromkeys(demands)
            if demand.kind in kinds and not settled.holds(demand, [*path, guard])
        ]
        # One that fails somewhere is asked alone: it would make the others be.
        alone = [pair for pair in open_ones if pair[0] in suspects]
        together = [pair for pair in open_ones if pair[0] not in suspects]
        if together:
            passed = _together(questions, given, together)
            if passed is not None:
                settled.add(passed, path)
                yield Found(of, Status.PASS, f"{len(together)} demands", together[0][0].operation.location)
                together = []
        # Operands first: the first operation that goes wrong is the one to name.
        for demand, guard in sorted([*alone, *together], key=lambda d: questions.position(d[0].operation)):
            under = [*given, guard]
            answer = questions.ask(under, demand.holds)
            # Asked or reported once; under weaker conditions it is another question.
            settled.add([demand], [*path, guard])
            if answer.outcome is not Outcome.UNSAT:
                suspects.add(demand)
                words = f"{demand.kind}: {_brief(demand.value)} of {demand.operation.name}"
                where, status = demand.operation.location, STATUS[answer.outcome]
                yield Found(of, status, words, where, None, tuple(under), demand.holds, None, answer)


def _together(
    questions: Questions, given: Sequence[Term], demands: Sequence[tuple[Demand, Term]]
) -> list[Demand] | None:
    """The demands that hold whatever their guards say, if all hold; None if one does not."""
    # Most demands hold whatever the masks say, and are then settled for every access.
    plain = list(dict.fromkeys(d for d, _ in demands))
    if questions.ask(given, and_(*(d.holds for d in plain))).outcome is Outcome.UNSAT:
        return plain
    whole = and_(*(or_(not_(guard), demand.holds) for demand, guard in demands))
    return [] if questions.ask(given, whole).outcome is Outcome.UNSAT else None


class _Settled:
    """Demands that were answered, with the conditions under which: they are for every access that has more."""

    def __init__(self) -> None:
        self._under: dict[Demand, list[frozenset[Term]]] = {}

    def add(self, demands: Iterable[Demand], given: Sequence[Term]) -> None:
        """Note demands as answered under conditions."""
        for demand in demands:
            self._under.setdefault(demand, []).append(self._parts(given))

    def holds(self, demand: Demand, given: Sequence[Term]) -> bool:
        """Whether a demand was answered under no more than these conditions."""
        here = self._parts(given)
        return any(under <= here for under in self._under.get(demand, ()))

    def _parts(self, given: Sequence[Term]) -> frozenset[Term]:
        return frozenset(part for term in given for part in conjuncts(term)) - {TRUE}


def _brief(term: Term) -> str:
    text = show(term)
    return text if len(text) < 200 else f"{text[:200]}..."


def _demand_groups(
    collected: Collected, *, address_only: bool
) -> Iterator[tuple[list[Term], list[Term], list[tuple[Demand, Term]]]]:
    """The demands of each branch and each access, with the ranges of its lanes and the path to it."""
    program = collected.program
    for key, path, _operation in () if address_only else collected.branches:
        yield [], [path], list(program.demands(key))
    for access in collected.accesses:
        if access.pointer is None:
            continue
        demands = collected.demands(access, address_only=address_only)
        yield lane_bounds(access), list(access.path), demands


# ---- one writer -----------------------------------------------------------------------


def one_writer(questions: Questions, checked: Checked, identical: frozenset[str] = frozenset()) -> Iterator[Found]:
    """No cell is stored to by two programs, two lanes or two stores, but by atomics alone."""
    firsts = [a for a in questions.first.accesses if a.kind != "load"]
    seconds = [a for a in questions.second.accesses if a.kind != "load"]
    for place, one in enumerate(firsts):
        for two in seconds[place:]:
            result = _pair(questions, checked, one, two, identical)
            if result is not None:
                yield result


def _pair(
    questions: Questions, checked: Checked, one: Access, two: Access, identical: frozenset[str]
) -> Found | None:
    where, there = one.operation.location, two.operation.location
    views = view_of(questions, one), view_of(questions, two)
    if views[0] is None or views[1] is None:
        problem = one.problem or two.problem or "an unknown tensor"
        return Found(Property.ONE_WRITER, Status.UNSUPPORTED, problem, where, there)
    if views[0].tensor != views[1].tensor or one.kind == two.kind == "atomic":
        return None
    same_operation = one.operation is two.operation
    # Whether each is in bounds is asked on its own.
    given = [*questions.made(one), *questions.made(two)]
    for access, view in ((one, views[0]), (two, views[1])):
        if id(access) not in checked.flat:
            given.append(view.inside(checked.coordinates[id(access)]))
    meet = _same_cell(questions, checked, one, two, views[0], views[1])
    if meet == []:
        return None
    if meet is None:
        words = f"{views[0].tensor}: two views of different shape"
        return Found(Property.ONE_WRITER, Status.UNSUPPORTED, words, where, there)
    apart: list[Term] = []
    if same_operation:
        first, second = questions.first.program, questions.second.program
        pairs = [*zip(first.ids, second.ids, strict=True), *zip(one.lanes, two.lanes, strict=True)]
        apart = [not_(eq(a, b)) for a, b in pairs if a is not b]
        if not apart:
            return None
        given.append(or_(*apart))
    goal = not_(and_(*meet))
    if views[0].tensor in identical and one.value is not None and two.value is not None:
        goal = or_(goal, eq(one.value, two.value))
    answer = questions.ask(given, goal)
    words = f"{views[0].tensor}: one cell is stored to twice"
    other = None if same_operation else there
    return Found(
        Property.ONE_WRITER,
        STATUS[answer.outcome],
        words,
        where,
        other,
        tuple(given),
        goal,
        None,
        answer,
        views[0].tensor,
    )


def _same_cell(
    questions: Questions, checked: Checked, one: Access, two: Access, first: View, second: View
) -> list[Term] | None:
    """Conditions under which two accesses meet; None if their views cannot be compared."""
    if (first.shape, first.strides, first.start, first.item) == (
        second.shape,
        second.strides,
        second.start,
        second.item,
    ) and not ({id(one), id(two)} & checked.flat or {one.width, two.width} != {first.item}):
        ways = checked.coordinates[id(one)], checked.coordinates[id(two)]
        return [eq(a, b) for a, b in zip(*ways, strict=True)]
    if _never_meet(questions, first, second):
        return []
    if first.item != second.item:
        return None
    a, b = element_offset(one, first), element_offset(two, second)
    if a is None or b is None:
        return None
    a, b = add(first.start, a), add(second.start, b)
    if {one.width, two.width} == {first.item}:
        return [eq(a, b)]
    # Several elements each: they overlap if each begins before the other ends.
    ends = [add(x, integer(access.width // first.item)) for x, access in ((a, one), (b, two))]
    return [lt(a, ends[1]), lt(b, ends[0])]


def _never_meet(questions: Questions, first: View, second: View) -> bool:
    """Whether two contiguous views of one tensor share no byte, so that accesses in bounds never meet."""
    spans: list[tuple[Term, Term]] = []
    for view in (first, second):
        count = integer(1)
        for extent in view.shape:
            count = mul(count, extent)
        low = scale(view.item, view.start)
        spans.append((low, add(low, scale(view.item, count))))
    (a, b), (c, d) = spans
    if not (first.contiguous and second.contiguous):
        return False
    return any(questions.ask([], le(stop, start)).outcome is Outcome.UNSAT for stop, start in ((b, c), (d, a)))
