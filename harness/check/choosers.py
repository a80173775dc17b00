"""Choosers for concrete values: drawn by hypothesis, enumerated, or given by name.

All of them run a statement's body as it is; they differ only in where its free values come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kvproof.models.errors import LayoutError
from kvproof.models.index import Condition
from kvproof.properties.statement import Body, Chooser

if TYPE_CHECKING:
    from hypothesis import strategies

T = TypeVar("T")

JsonValue: TypeAlias = int | str | bool | None
NEAR_STEPS = 2
"""How far a value drawn near an earlier one may lie from it."""


class ClaimFailed(AssertionError):  # noqa: N818  (reads as what happened)
    """A statement's claim, or a lemma on the way to it, does not hold.

    Attributes:
        values: chosen values by name, in the order of choice; JSON values.
        lemma: name of the lemma that failed; empty if it was the claim.
    """

    def __init__(self, values: Mapping[str, JsonValue], *, lemma: str = "", detail: str = "") -> None:
        self.values = dict(values)
        self.lemma = lemma
        self.detail = detail
        what = f"lemma {lemma!r} fails" if lemma else "the claim fails"
        shown = ", ".join(f"{name} = {value!r}" for name, value in self.values.items())
        super().__init__(f"{what} for {shown or 'no chosen values'}" + (f": {detail}" if detail else ""))


class Vacuous(Exception):  # noqa: N818  (not an error: the case is outside the statement)
    """The case is outside the statement: an empty range, or an assumption that does not hold."""


def json_value(option: object) -> JsonValue:
    """A picked option as a JSON value: itself if it is one, else its text."""
    return option if option is None or isinstance(option, (int, str)) else repr(option)


@dataclass
class ConcreteChooser:
    """What the concrete choosers share; subclasses say where a value comes from.

    Attributes:
        values: values chosen so far by name, as JSON values.
        events: events that this case has shown.
    """

    values: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    events: set[str] = field(default_factory=set[str])

    def _integer(self, name: str, low: int, high: int, few: int) -> int:
        raise NotImplementedError

    def _position(self, name: str, options: Sequence[Any]) -> int:
        raise NotImplementedError

    def _vacuous(self, why: str) -> None:
        raise Vacuous(why)

    def _new(self, name: str) -> None:
        if name in self.values:
            raise ValueError(f"a statement chose {name!r} twice; every choice needs a name of its own")

    def integer(self, name: str, low: int, high: int, few: int | None = None) -> int:
        """An integer with ``low <= value <= high``; up to ``few`` where that is meant to be enough."""
        self._new(name)
        if low > high:
            self._vacuous(f"{name} has no value: {low} > {high}")
        value = self._integer(name, int(low), int(high), int(high if few is None else max(low, min(few, high))))
        self.values[name] = value
        return value

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One of the options."""
        self._new(name)
        if not options:
            self._vacuous(f"{name} has no option")
        option = options[self._position(name, options)]
        self.values[name] = json_value(option)
        return option

    def assume(self, condition: Condition) -> None:
        """Leave this case unless the condition holds."""
        if not bool(condition):
            self._vacuous("an assumption does not hold")

    def accepted(self, build: Callable[[], T]) -> T:
        """What ``build`` makes; the case is vacuous if it refuses."""
        try:
            return build()
        except LayoutError as error:
            self._vacuous(str(error))
            raise

    def lemma(self, name: str, condition: Condition) -> None:
        """Assert the condition.

        Raises:
            ClaimFailed: it does not hold.
        """
        if not bool(condition):
            raise ClaimFailed(self.values, lemma=name)

    def event(self, name: str, happened: Condition = True) -> None:
        """Note the event if it happened."""
        if bool(happened):
            self.events.add(name)


@dataclass
class DrawChooser(ConcreteChooser):
    """Draws values with hypothesis. A vacuous case is rejected, so hypothesis counts it as invalid.

    Every third integer or so lies near one drawn before it: two rows of unrelated slots and layers hardly ever
    meet, and faults live where values are neighbours. Everything shrinks towards ``low`` and the first option.

    Attributes:
        draw: ``data.draw`` of hypothesis, or the draw function of a composite strategy.
    """

    draw: Callable[[strategies.SearchStrategy[Any]], Any] = field(kw_only=True)
    _drawn: list[int] = field(default_factory=list[int], init=False)

    def _integer(self, name: str, low: int, high: int, few: int) -> int:  # noqa: ARG002
        # Imported where something is drawn: a prover's processes start in half the time without it.
        from hypothesis import strategies as st  # noqa: PLC0415

        if low == high:
            return low
        near = sorted(
            {v + d for v in self._drawn for d in range(-NEAR_STEPS, NEAR_STEPS + 1) if low <= v + d <= high}
        )
        anywhere = st.integers(low, few)
        if few < high:
            anywhere = st.one_of(anywhere, anywhere, st.integers(low, high))
        # The plain draw comes first, since hypothesis shrinks towards the first alternative.
        value = self.draw(st.one_of(anywhere, anywhere, st.sampled_from(near)) if near else anywhere)
        self._drawn.append(value)
        return value

    def _position(self, name: str, options: Sequence[Any]) -> int:  # noqa: ARG002
        from hypothesis import strategies as st  # noqa: PLC0415

        return self.draw(st.sampled_from(range(len(options))))

    def _vacuous(self, why: str) -> None:  # noqa: ARG002
        from hypothesis import reject  # noqa: PLC0415

        reject()


@dataclass
class ReplayChooser(ConcreteChooser):
    """Takes every value from a mapping: of a finding, or of a solver's model.

    Attributes:
        given: values by name. Names that the statement does not choose are left over.
    """

    given: Mapping[str, Any] = field(kw_only=True)

    def _given(self, name: str) -> Any:
        try:
            return self.given[name]
        except KeyError:
            known = ", ".join(self.given)
            raise ValueError(f"no value for {name!r}, which the statement chooses; given: {known}") from None

    def _integer(self, name: str, low: int, high: int, few: int) -> int:  # noqa: ARG002
        value = self._given(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be an integer, got {value!r}")
        if not low <= value <= high:
            raise Vacuous(f"{name} is {value}, outside {low}..{high}")
        return value

    def _position(self, name: str, options: Sequence[Any]) -> int:
        value = json_value(self._given(name))
        for position, option in enumerate(options):
            if json_value(option) == value:
                return position
        raise Vacuous(f"{name} is {value!r}; options: {', '.join(map(repr, options))}")


@dataclass
class EnumerateChooser(ConcreteChooser):
    """One case of an enumeration; :func:`enumerate_cases` makes one for each combination."""

    path: list[tuple[int, int]] = field(kw_only=True)  # (place, number of places) of each choice, in order
    _depth: int = field(default=0, init=False)

    def _place(self, count: int) -> int:
        if self._depth == len(self.path):
            self.path.append((0, count))
        place, _ = self.path[self._depth]
        # A later choice's range may depend on earlier ones, which have not changed since it was entered.
        self._depth += 1
        return place

    def _integer(self, name: str, low: int, high: int, few: int) -> int:  # noqa: ARG002
        return low + self._place(few - low + 1)

    def _position(self, name: str, options: Sequence[Any]) -> int:  # noqa: ARG002
        return self._place(len(options))


def _advance(path: list[tuple[int, int]]) -> bool:
    """Step to the next combination, last choice fastest. False when there is none."""
    while path:
        place, count = path.pop()
        if place + 1 < count:
            path.append((place + 1, count))
            return True
    return False


def check_case(body: Body, system: Any, chooser: Chooser, slip: int = 0) -> None:
    """Run a statement's body on one case.

    Raises:
        ClaimFailed: the claim does not hold, or a formula refused its arguments (or divided by zero) though the
            premises hold.
        Vacuous: the case is outside the statement (not with a :class:`DrawChooser`, which rejects).
    """
    values = getattr(chooser, "values", {})
    try:
        claim = body(system, chooser, slip)
    except (LayoutError, ZeroDivisionError) as error:
        raise ClaimFailed(values, detail=str(error)) from error
    if not bool(claim):
        raise ClaimFailed(values)


@dataclass(frozen=True)
class Enumeration:
    """What an enumeration found.

    Attributes:
        cases: combinations in which the claim was evaluated.
        vacuous: combinations outside the statement.
        events: for each event, how many cases showed it.
        failure: the first failing case in order, which ended the enumeration; None if all hold.
        complete: every combination was visited.
    """

    cases: int
    vacuous: int
    events: Mapping[str, int]
    failure: ClaimFailed | None
    complete: bool


def enumerate_cases(body: Body, system: Any, *, slip: int = 0, limit: int | None = None) -> Enumeration:
    """Run a statement on every combination of its values, smallest first; stop at the first failure.

    Args:
        body: the statement.
        system: the concrete system.
        slip: passed on to the body.
        limit: visit at most so many combinations; the result then says that it is not complete.
    """
    path: list[tuple[int, int]] = []
    events: Counter[str] = Counter()
    cases = vacuous = 0
    while True:
        if limit is not None and cases + vacuous >= limit:
            return Enumeration(cases, vacuous, dict(events), None, complete=False)
        chooser = EnumerateChooser(path=path)
        try:
            check_case(body, system, chooser, slip)
        except Vacuous:
            vacuous += 1
        except ClaimFailed as failure:
            return Enumeration(cases + 1, vacuous, dict(events + Counter(chooser.events)), failure, complete=False)
        else:
            cases += 1
            events.update(chooser.events)
        if not _advance(path):
            return Enumeration(cases, vacuous, dict(events), None, complete=True)
