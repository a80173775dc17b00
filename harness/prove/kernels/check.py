"""Checking an entry point's launches: every property of each, as verdicts with places in the source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kvproof.harness.ir.compile import CompileError, compile_ttir
from kvproof.harness.ir.reader import Module, ReadError, read_module
from kvproof.harness.ir.target import Target
from kvproof.harness.prove.kernels.address_map import address_map
from kvproof.harness.prove.kernels.ask import Asker
from kvproof.harness.prove.kernels.collect import is_gap
from kvproof.harness.prove.kernels.launch import Launch, Setting
from kvproof.harness.prove.kernels.limits import Limit, limit_of
from kvproof.harness.prove.kernels.missing import missing_clause
from kvproof.harness.prove.kernels.properties import (
    Checked,
    Found,
    Property,
    in_bounds,
    no_sentinel,
    no_wrap,
    one_writer,
)
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.prove.kernels.replaying import replay
from kvproof.harness.prove.kernels.values import Unmodelled
from kvproof.harness.prove.kernels.witness import NoWitness, Witness, witness
from kvproof.harness.solve.query import Outcome
from kvproof.harness.solve.term import Term, integer, le, walk
from kvproof.reports.verdict import Status, Verdict, combine


@dataclass(frozen=True)
class Failure:
    """One thing that is not as it should be.

    Attributes:
        found: the question and its answer.
        status: what it counts as: a counterexample that no run shows is UNKNOWN, not FAIL.
        questions: the launch that it is about.
        limit: up to which size it does hold.
        witness: arguments within the contract that show it, where there are any.
        seen: what running them showed, or why they were not run.
        missing: the weakest usual clause that would exclude it; empty if there is none.
    """

    found: Found
    status: Status
    questions: Questions
    limit: Limit | None = None
    witness: Witness | None = None
    seen: str = ""
    missing: str = ""

    def __str__(self) -> str:
        one = self.found
        words = f"{one.words}, at {one.location}" + (f" and {one.other}" if one.other else "")
        if self.limit is not None:
            words += f"; {self.limit}"
        if one.answer is not None and one.answer.outcome is Outcome.UNKNOWN:
            words += f": {one.answer.reason}"
        if self.witness is not None:
            shown = ", ".join(f"{n} = {v}" for n, v in self.witness.numbers.items())
            words += f"; seen with {shown}: {self.seen}"
        elif self.seen:
            words += f"; {self.seen}"
        if self.missing:
            words += f"; it could not be if {self.missing}"
        return words


@dataclass
class PropertyResult:
    """One property of an entry point for one target.

    Attributes:
        property: the property.
        verdict: what was found.
        questions: how many were asked.
        seconds: how long it took.
        failures: what is not PASS.
    """

    property: Property
    verdict: Verdict
    questions: int
    seconds: float
    failures: list[Failure] = field(default_factory=list[Failure])


def check(setting: Setting, target: Target, asker: Asker | None = None) -> list[PropertyResult]:
    """Check every launch of a setting for one target.

    Args:
        setting: the entry point's setting.
        target: the GPU to compile for.
        asker: the solver; z3 by default.
    """
    asker = asker or Asker()
    try:
        modules = [read_module(compile_ttir(la.kernel, la.signature, target).text) for la in setting.launches]
    except (CompileError, ReadError) as error:
        return [unsupported(p, str(error)) for p in Property]
    return check_modules(setting, list(zip(setting.launches, modules, strict=True)), asker)


def check_modules(
    setting: Setting,
    compiled: Sequence[tuple[Launch, Module]],
    asker: Asker,
    identical: frozenset[str] = frozenset(),
) -> list[PropertyResult]:
    """Check launches whose IR has been read.

    Args:
        setting: the entry point's setting.
        compiled: each launch with its IR.
        asker: the solver.
        identical: tensors of which several may write one cell as long as they write the same.
    """
    start, before = time.perf_counter(), asker.asked
    try:
        asked = [_asked(setting, launch, module, asker) for launch, module in compiled]
    except Unmodelled as problem:
        return [unsupported(p, str(problem)) for p in Property]
    launches = [one.questions for one in asked]
    bounds = [(f, one.questions) for one in asked for f in one.in_bounds]
    seconds = time.perf_counter() - start
    results = [_summed(setting, Property.IN_BOUNDS, bounds, launches, asker.asked - before, seconds)]
    each: Sequence[tuple[Property, Callable[[Questions, Checked], Iterator[Found]]]] = (
        (Property.NO_SENTINEL, no_sentinel),
        (Property.NO_WRAP, lambda q, c: no_wrap(q, c, lambda found: _whole_range(q, found))),
        (Property.ONE_WRITER, lambda q, c: one_writer(q, c, identical)),
    )
    for name, function in each:
        start, before = time.perf_counter(), asker.asked
        found = [(f, o.questions) for o in asked for f in _with_gaps(o.questions, function, o.checked)]
        results.append(_summed(setting, name, found, launches, asker.asked - before, time.perf_counter() - start))
    start, before = time.perf_counter(), asker.asked
    pairs = [(one.questions, one.checked) for one in asked]
    mapped: list[tuple[Found, Questions]] = [(f, launches[0]) for f in address_map(pairs)]
    seconds = time.perf_counter() - start
    # Wrong addresses that another property shows need no second example that is the smallest.
    shown = any(failure.witness for result in results for failure in result.failures)
    name, asked_of = Property.ADDRESS_MAP, asker.asked - before
    results.append(_summed(setting, name, mapped, launches, asked_of, seconds, least=not shown))
    vacuous = _vacuous(launches)
    if vacuous:
        return [unsupported(r.property, vacuous) for r in results]
    return results


@dataclass(frozen=True)
class _Asked:
    """A launch, and what was asked of it first: whether its accesses are in bounds."""

    questions: Questions
    checked: Checked
    in_bounds: list[Found]


def _asked(setting: Setting, launch: Launch, module: Module, asker: Asker) -> _Asked:
    """Read a launch so that each load's element is the one at the coordinates that were shown to be in range.

    Raises:
        Unmodelled: the launch cannot be followed.
    """
    ways: dict[int, int] = {}
    for _ in range(WAYS):
        questions, checked = Questions(setting, launch, module, asker, ways), Checked()
        found = list(_with_gaps(questions, in_bounds, checked))
        # Under -1 an element is any of its type, which is right whichever coordinates it has.
        wrong = {at: way for at, way in checked.ways.items() if ways.get(at, 0) not in {way, -1}}
        if not wrong:
            return _Asked(questions, checked, found)
        ways |= {at: -1 if at in ways else way for at, way in wrong.items()}
    raise Unmodelled("which element a load reads depends on how its coordinates are written")


WAYS = 8
"""Readings of a launch at most; each settles how the coordinates of some loads are written."""


def _with_gaps(
    questions: Questions, function: Callable[[Questions, Checked], Iterator[Found]], checked: Checked
) -> Iterator[Found]:
    yield from function(questions, checked)
    for problem in questions.first.problems:
        if is_gap(problem):
            yield Found(Property.IN_BOUNDS, Status.UNSUPPORTED, problem, questions.module.entry.location)


def _vacuous(launches: Sequence[Questions]) -> str:
    """Why nothing was shown, if the guarantees allow no access at all."""
    for questions in launches:
        stores = [a for a in questions.first.accesses if a.kind != "load" and a.pointer is not None]
        outcomes = [questions.possible(questions.made(a)).outcome for a in stores]
        if stores and all(o is Outcome.UNSAT for o in outcomes):
            return "no store is ever made under the contract: its clauses contradict each other or the launch"
    return ""


def unsupported(name: Property, reason: str) -> PropertyResult:
    """What a property counts as where nothing could be asked."""
    return PropertyResult(name, Verdict(Status.UNSUPPORTED, reason), 0, 0.0)


def _shown(
    found: Found, questions: Questions, limit: Limit | None, launches: Sequence[Questions], *, first: bool
) -> Failure:
    """A failure with its counterexample, if one can be made and seen; the smallest one for the first failure."""
    if found.status is not Status.FAIL:
        return Failure(found, found.status, questions, limit)
    if questions.launch.loose:
        # The counterexample may rest on a number that no launch has.
        return Failure(
            found, Status.UNKNOWN, questions, limit, None, "an argument of the launch is not understood"
        )
    if found.answer is None:
        return Failure(found, Status.FAIL, questions, limit)
    example: Witness | None = None
    try:
        example = witness(questions, found, least=first)
        seen = replay(questions, found, example, launches)
    except NoWitness as problem:
        status = Status.UNKNOWN if problem.spurious else Status.FAIL
        return Failure(found, status, questions, limit, None, f"no counterexample was seen: {problem}")
    status = Status.FAIL if seen.shown else Status.UNKNOWN
    words = seen.words if seen.shown else f"{_blame(found, questions)}: {seen.words}"
    missing = missing_clause(questions, found, example.values) if first and seen.shown else ""
    return Failure(found, status, questions, limit, example, words, missing)


def _ranges(setting: Setting) -> list[str]:
    """Ranges of the quantities that the specialisation narrows: another is launched outside."""
    return [
        f"{q.name} in {q.range[0]:,}..{q.range[1]:,}"
        for q in setting.quantities
        if q.range[0] is not None and q.range[1] is not None
        if not q.name.endswith(".stride") and (q.range[0] > 1 or q.range[1] < SMALL)
    ]


SMALL = 2**20
"""A quantity whose range ends below has its range stated with a PASS."""


def _whole_range(questions: Questions, found: Found) -> Term | None:
    """The condition that nothing is larger than the index type allows, if under it what failed does not."""
    limit = limit_of(questions, found)
    if limit is None or not limit.is_whole_range:
        return None
    quantity = next(q for q in questions.setting.quantities if q.name == limit.quantity)
    return le(quantity.term, integer(limit.most))


def _blame(found: Found, questions: Questions) -> str:
    """What a counterexample that no run shows means."""
    known = {tensor.name for tensor in questions.setting.contract.tensors}
    open_ones = {t.payload for t in walk(*found.given, found.goal) if t.op == "app"} - known
    if open_ones:
        return f"not settled, since {sorted(open_ones)[0]} is not followed"
    # Of cells that no program is seen to write, another program than the one looked at may write them.
    return "not settled" if found.property is Property.ADDRESS_MAP else "a defect of the checker"


def _summed(
    setting: Setting,
    name: Property,
    found: Sequence[tuple[Found, Questions]],
    launches: Sequence[Questions],
    asked: int,
    seconds: float,
    *,
    least: bool = True,
) -> PropertyResult:
    verdicts: list[Verdict] = []
    failures: list[Failure] = []
    blamed: set[tuple[object, str]] = set()
    limits: dict[tuple[object, str], Limit | None] = {}
    for one, questions in found:
        kind = (one.location, one.words.split(":")[0])
        if one.status is Status.PASS or kind in blamed:
            verdicts.append(Verdict(Status.PASS, assumptions=(one.assumes,) if one.assumes else ()))
            continue
        limit = None
        if name is Property.NO_WRAP and one.status is Status.FAIL:
            limit = limit_of(questions, one, limits.get(kind))
            limits.setdefault(kind, limit)
        if limit is not None and limit.is_whole_range:
            verdicts.append(Verdict(Status.PASS, bounds=(str(limit),)))
            continue
        failure = _shown(one, questions, limit, launches, first=least and not failures)
        verdicts.append(Verdict(failure.status, str(failure)))
        failures.append(failure)
        if failure.status is Status.FAIL and name in {Property.NO_WRAP, Property.NO_SENTINEL}:
            # The operation is shown to be wrong; under what other conditions it is too says nothing new.
            blamed.add(kind)
    bounds = tuple(bound for questions in launches for bound in questions.first.bounds)
    whole = combine(verdicts) if verdicts else Verdict(Status.PASS)
    clauses = launches[0].clauses
    skipped = [f"clause {n!r} is not used: {why}" for n, why in clauses.skipped.items()]
    rising = [f"{r.function} never falls (induction over clause {r.clause!r})" for r in clauses.derived]
    fixed = [*(f"{n} = {v}" for n, v in setting.fixed.items()), *_ranges(setting)]
    whole = Verdict(
        whole.status,
        whole.reason,
        tuple(dict.fromkeys((*whole.assumptions, *setting.assumptions, *skipped, *rising))),
        tuple(dict.fromkeys((*whole.bounds, *bounds, *fixed))),
    )
    return PropertyResult(name, whole, asked, seconds, failures)
