"""The address map: every access is to a cell that the contract names, and every cell to be written is.

The contract names cells by indices of its own (a sequence, a token); the kernel by programs, lanes and
iterations. For each access the contract's indices are found from the elements that both speak of, or by
solving for a coordinate; for each cell the program that reaches it by solving the other way round. What is
found that way is then shown, so a wrong guess can only cost a PASS.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from kvproof.harness.prove.kernels.collect import Access, is_gap, lane_bounds
from kvproof.harness.prove.kernels.naming import Named, named, whole
from kvproof.harness.prove.kernels.properties import STATUS, Checked, Found, Property, element_offset, view_of
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.prove.kernels.replacing import replaced
from kvproof.harness.prove.kernels.solving import solve
from kvproof.harness.prove.kernels.views import View
from kvproof.harness.solve.query import Outcome
from kvproof.harness.solve.term import (
    FALSE,
    Term,
    add,
    and_,
    conjuncts,
    eq,
    integer,
    le,
    linear,
    lt,
    mul,
    neg,
    or_,
    scale,
    sub,
    variable,
    walk,
)
from kvproof.harness.symbolic.execution import UnsupportedError
from kvproof.models.contract import Access as Declared
from kvproof.reports.verdict import Status

MOST_TRIES = 60
"""Choices of indices tried for one access."""


@dataclass(frozen=True)
class Placed:
    """An access of the kernel with the contract's name for it."""

    questions: Questions
    access: Access
    coordinates: tuple[Term, ...]
    name: Named


# ---- from the kernel to the contract --------------------------------------------------


def place(
    questions: Questions, checked: Checked, access: Access, declared: Sequence[Declared]
) -> tuple[Placed | None, Found]:
    """The contract's name of an access's cell, and whether it has one."""
    where = access.operation.location
    view = view_of(questions, access)
    coordinates = None if view is None else _contract_coordinates(questions, checked, access, view)
    if view is None or coordinates is None:
        every = None if view is None else next((n for d in declared if (n := whole(questions, d, view))), None)
        if view is not None and every is not None:
            words = f"{view.tensor}: every {access.kind} is to {every.declared.words}"
            found = Found(Property.ADDRESS_MAP, Status.PASS, words, where, buffer=view.tensor)
            return Placed(questions, access, (), every), found
        why = access.problem or "a view of another shape than the contract's tensor"
        return None, Found(Property.ADDRESS_MAP, Status.UNSUPPORTED, why, where)
    given = [*questions.made(access)]
    # Whether it is in bounds is asked on its own.
    given.append(view.inside(checked.coordinates[id(access)]))
    words = f"{view.tensor}: every {access.kind} is to {' or '.join(one.words for one in declared)}"
    choices = ((one, indices) for one in declared for indices in _choices(questions, one, access, coordinates))
    tried: list[tuple[Named, Term]] = []
    for one, indices in islice(choices, MOST_TRIES):
        name = named(questions, one, indices)
        goal = and_(name.holds, *(eq(x, y) for x, y in zip(name.cell, coordinates, strict=False)))
        tried.append((name, goal))
    if not tried:
        words = f"{view.tensor}: no index of the contract is recognised in this {access.kind}"
        return None, Found(Property.ADDRESS_MAP, Status.UNKNOWN, words, where, buffer=view.tensor)
    # The right name mostly follows from little, and of wrong names nothing need be known in full.
    for follows in (questions.plainly, lambda of, goal: questions.ask(of, goal).outcome is Outcome.UNSAT):
        for name, goal in tried:
            if follows(given, goal):
                found = Found(Property.ADDRESS_MAP, Status.PASS, words, where, buffer=view.tensor)
                return Placed(questions, access, coordinates, name), found
    # Different lanes may have different names; a counterexample has none of them.
    goal = or_(*(goal for _, goal in tried))
    answer = questions.ask(given, goal)
    status = STATUS[answer.outcome]
    return None, Found(
        Property.ADDRESS_MAP, status, words, where, None, tuple(given), goal, None, answer, view.tensor
    )


def _contract_coordinates(
    questions: Questions, checked: Checked, access: Access, view: View
) -> tuple[Term, ...] | None:
    """The access's coordinates in the contract's tensor; the last one may count elements of another type."""
    own = questions.setting.view(view.tensor)
    if id(access) in checked.flat:
        return None
    coordinates = checked.coordinates[id(access)]
    if view.same or own is None:
        return coordinates if view.same else None
    if len(own.shape) == 1 and own.contiguous and view.item % own.item == 0:
        # Another type's view of a buffer: the contract counts the buffer's own elements.
        offset = element_offset(access, view)
        return None if offset is None else (scale(view.item // own.item, add(view.start, offset)),)
    rows = [
        (a is b, scale(view.item, c) is scale(own.item, d))
        for a, b, c, d in zip(view.shape[:-1], own.shape[:-1], view.strides[:-1], own.strides[:-1], strict=False)
    ]
    same_rows = len(view.shape) == len(own.shape) and all(a and b for a, b in rows)
    return coordinates if same_rows and view.start is integer(0) else None


def _choices(
    questions: Questions, declared: Declared, access: Access, coordinates: Sequence[Term]
) -> Iterator[tuple[Term, ...]]:
    """Indices that may name the access, likeliest first."""
    fresh = [variable(f"name {number}") for number in range(len(declared.over))]
    pattern = named(questions, declared, fresh)
    terms = [*access.path, access.mask, *coordinates]
    elements = [t for t in walk(*terms) if t.op == "app"]
    options: list[dict[Term, None]] = [{} for _ in fresh]
    for template in walk(pattern.holds, *pattern.cell):
        if template.op != "app":
            continue
        for number, argument in enumerate(template.args):
            shift, atoms = linear(argument)
            index = next((i for i in fresh if atoms == {i: 1}), None)
            if index is not None:
                for element in elements:
                    if element.payload == template.payload and len(element.args) > number:
                        options[fresh.index(index)][sub(element.args[number], integer(shift))] = None
    program = questions.first.program
    for number, index in enumerate(fresh):
        if index in pattern.cell:
            # The cell says the index itself: nothing else can be right.
            options[number] = {coordinates[pattern.cell.index(index)]: None}
        elif not options[number]:
            ids = [i for i in program.ids if i.op == "var"]
            options[number] = dict.fromkeys(ids) if len(fresh) == 1 else {}
    places = [*program.ids, *_counted(access, program.ids)]
    yield from _completed(fresh, options, pattern, coordinates, places)


def _counted(access: Access, programs: Sequence[Term]) -> Iterator[Term]:
    """Sums of programs and lanes that the mask compares with something: a program's share of what is counted."""
    mine = {*programs, *access.lanes}
    for condition in conjuncts(access.condition):
        if condition.op != "le":
            continue
        own = {term: times for term, times in linear(condition.args[0])[1].items() if term in mine}
        if len(own) > 1 and any(term in own for term in programs) and min(own.values()) > 0:
            yield add(*(scale(times, term) for term, times in own.items()))


def _completed(
    fresh: Sequence[Term],
    options: Sequence[dict[Term, None]],
    pattern: Named,
    coordinates: Sequence[Term],
    places: Sequence[Term],
) -> Iterator[tuple[Term, ...]]:
    """Choices of the options; an index without any is what makes the cell right, or one of the places."""
    known = [list(o) or [None] for o in options]
    for choice in product(*known):
        chosen = {i: c for i, c in zip(fresh, choice, strict=True) if c is not None}
        for cell, coordinate in zip(pattern.cell, coordinates, strict=False):
            open_ones = [i for i in fresh if i not in chosen]
            left = replaced([cell], chosen)[0]
            atoms = linear(left)[1]
            for index in open_ones:
                if abs(atoms.get(index, 0)) == 1 and not any(
                    o in set(walk(left)) for o in open_ones if o is not index
                ):
                    rest = sub(coordinate, replaced([left], {index: integer(0)})[0])
                    chosen[index] = rest if atoms[index] == 1 else neg(rest)
        open_ones = [i for i in fresh if i not in chosen]
        for ids in product(*(places for _ in open_ones)):
            whole = {**chosen, **dict(zip(open_ones, ids, strict=True))}
            yield tuple(replaced([whole[i]], whole)[0] for i in fresh)


# ---- from the contract to the kernel --------------------------------------------------


def reached(declared: Declared, placed: Sequence[Placed]) -> Found:
    """Whether every cell that the contract says is written is written by some program.

    Several stores may share the cells between them: tiles of a row.
    """
    words = f"{declared.buffer}: all of {declared.words}"
    where = placed[0].access.operation.location
    asked = placed[0].questions
    fresh = [asked.scope.fresh(f"index {i.name}", None, None) for i in declared.over]
    name = named(asked, declared, fresh)
    view = view_of(asked, placed[0].access)
    assert view is not None  # it was placed
    columns = [asked.scope.fresh(f"column {axis}", None, None) for axis in range(len(view.shape) - len(name.cell))]
    given = [name.holds]
    for column, extent in zip(columns, view.shape[len(name.cell) :], strict=True):
        given += [le(integer(0), column), lt(column, extent)]
    goals = [goal for one in placed if (goal := _goal(one, fresh, columns, name)) is not None]
    if not goals:
        return Found(Property.ADDRESS_MAP, Status.UNKNOWN, f"{words}: no program is seen to", where)
    goal = or_(*goals)
    answer = asked.ask(given, goal)
    status = STATUS[answer.outcome]
    waits = [one.access for one in placed if _waits(one)]
    if status is not Status.PASS and waits:
        # What other programs wrote decides a branch: the addresses are right, if it is taken.
        taken = [_goal(one, fresh, columns, name, _waits(one)) for one in placed]
        if asked.ask(given, or_(*(t for t in taken if t is not None))).outcome is Outcome.UNSAT:
            places = ", ".join(dict.fromkeys(str(access.operation.location) for access in waits))
            assumes = f"what other programs wrote lets the store at {places} be made"
            return Found(Property.ADDRESS_MAP, Status.PASS, words, where, buffer=declared.buffer, assumes=assumes)
    if status is Status.FAIL and len(goals) < len(placed):
        status = Status.UNKNOWN
    return Found(
        Property.ADDRESS_MAP, status, words, where, None, tuple(given), goal, None, answer, declared.buffer
    )


def _waits(one: Placed) -> dict[Term, None]:
    """Conditions on the path to an access that rest on values which no contract speaks of."""
    known = {tensor.name for tensor in one.questions.setting.contract.tensors}
    return {
        part: None
        for condition in one.access.path
        for part in conjuncts(condition)
        if any(t.op == "app" and t.payload not in known for t in walk(part))
    }


def _goal(
    one: Placed,
    fresh: Sequence[Term],
    columns: Sequence[Term],
    name: Named,
    without: Collection[Term] = (),
) -> Term | None:
    """That the program and lane solved for make the access, at the cell; some conditions taken for granted."""
    program = one.questions.first.program
    unknowns = [u for u in (*program.ids, *one.access.lanes, *one.access.iterations) if u.op == "var"]
    equations = list(zip(one.name.indices, fresh, strict=True))
    equations += list(zip(one.coordinates[len(name.cell) :], columns, strict=True))
    sizes: dict[Term, Term] = {}
    for lane, extent in zip(one.access.lanes, one.access.operation.operands[0].type.shape, strict=True):
        sizes[lane] = integer(extent)
    for number, size in zip(program.ids, one.questions.launch.grid, strict=True):
        sizes[number] = size
    found = solve(equations, unknowns, sizes.get)
    if found is None:
        # One equation of the offset, in which the program and the lanes are digits.
        view = view_of(one.questions, one.access)
        offset = None if view is None else element_offset(one.access, view)
        if view is None or offset is None:
            return None
        wanted = integer(0)
        for part, stride in zip((*name.cell, *columns), view.strides, strict=True):
            wanted = add(wanted, mul(part, stride))
        found = solve([(offset, wanted)], unknowns, sizes.get)
    if found is None:
        return None
    path = [part for condition in one.access.path for part in conjuncts(condition) if part not in without]
    conditions: list[Term] = [*lane_bounds(one.access), *path, one.access.mask]
    for number, size in zip(program.ids, one.questions.launch.grid, strict=True):
        conditions += [le(integer(0), number), lt(number, size)]
    conditions += [le(integer(0), iteration) for iteration in one.access.iterations]
    conditions += [eq(x, y) for x, y in zip(one.coordinates, (*name.cell, *columns), strict=True)]
    return and_(*replaced(conditions, found))


# ---- both ---------------------------------------------------------------------------------


def address_map(all_questions: Sequence[tuple[Questions, Checked]]) -> Iterator[Found]:
    """Both directions, for every tensor whose accesses the contract names.

    Args:
        all_questions: of each launch of the entry point, with its accesses' coordinates.
    """
    setting = all_questions[0][0].setting
    for questions, _ in all_questions:
        for access in questions.first.accesses:
            if view_of(questions, access) is None and access.kind != "load":
                why = access.problem or "an unknown tensor"
                yield Found(Property.ADDRESS_MAP, Status.UNSUPPORTED, why, access.operation.location)
        for problem in filter(is_gap, questions.first.problems):
            yield Found(Property.ADDRESS_MAP, Status.UNSUPPORTED, problem, questions.module.entry.location)
    # A tensor of which no access is declared is one that may not be written.
    for buffer in [t.name for t in setting.contract.tensors]:
        for kinds, modes in ((("store", "atomic"), ("must", "may", "failing")), (("load",), ("read",))):
            declared = [a for a in setting.contract.accesses if a.buffer == buffer and a.mode in modes]
            try:
                yield from _of_buffer(all_questions, buffer, kinds, declared)
            except UnsupportedError as problem:
                where = all_questions[0][0].module.entry.location
                yield Found(Property.ADDRESS_MAP, Status.UNSUPPORTED, f"{buffer}: {problem}", where)


def _of_buffer(
    all_questions: Sequence[tuple[Questions, Checked]], buffer: str, kinds: Sequence[str], declared: list[Declared]
) -> Iterator[Found]:
    placed: list[Placed] = []
    complete = True
    for questions, checked in all_questions:
        complete &= not any(is_gap(problem) for problem in questions.first.problems)
        for access in questions.first.accesses:
            view = view_of(questions, access)
            # One whose tensor is not known may be an access to this one.
            complete &= view is not None or access.kind not in kinds
            if access.kind not in kinds or view is None or view.tensor != buffer:
                continue
            if not declared:
                if access.kind != "load":
                    yield _undeclared(questions, checked, access, view)
                continue
            found, result = place(questions, checked, access, declared)
            complete &= found is not None
            if found is not None:
                placed.append(found)
            yield result
    for one in declared:
        own = [p for p in placed if p.name.declared is one]
        if one.mode != "must" or not _over_anything(all_questions[0][0], one):
            continue
        if own:
            yield reached(one, own)
        elif complete:
            where = all_questions[0][0].module.entry.location
            words = f"{buffer}: nothing accesses {one.words}"
            yield Found(Property.ADDRESS_MAP, Status.FAIL, words, where, buffer=buffer)


def _undeclared(questions: Questions, checked: Checked, access: Access, view: View) -> Found:
    """Whether a store to a tensor that the contract names no write to is never made."""
    given = questions.made(access)
    if id(access) not in checked.flat:
        # Whether it is in bounds is asked on its own.
        given.append(view.inside(checked.coordinates[id(access)]))
    answer = questions.ask(given, FALSE)
    status, where = STATUS[answer.outcome], access.operation.location
    words = f"{view.tensor}: the contract names no write to it"
    return Found(Property.ADDRESS_MAP, status, words, where, None, tuple(given), FALSE, None, answer, view.tensor)


def _over_anything(questions: Questions, declared: Declared) -> bool:
    """Whether the contract's set can be non-empty here: a class that is absent has no cells."""
    fresh = [variable(f"name {number}") for number in range(len(declared.over))]
    return questions.possible([named(questions, declared, fresh).holds]).outcome is not Outcome.UNSAT
