"""Counterexamples as inputs that a kernel can be launched with: small, and within the contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from kvproof.harness.prove.kernels.arguments import DTYPE_RANGES, SymbolicTensor
from kvproof.harness.prove.kernels.ask import Example
from kvproof.harness.prove.kernels.launch import Quantity, contract_view
from kvproof.harness.prove.kernels.properties import Found
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.solve.term import Term, apply, eq, evaluate, integer, le, not_, walk
from kvproof.models.contract import STORAGE_DTYPES, ConcreteArguments, TensorValue, broken_clauses

MOST_ELEMENTS = 160
"""Elements of index tensors that are all chosen by the solver; of larger tensors only those in question are."""

MOST_BYTES = 10 << 30
MOST_INDEX_BYTES = 1 << 27
"""A tensor, or an index tensor, larger than this is not made."""


@dataclass(frozen=True)
class Witness:
    """Concrete arguments of one launch.

    Attributes:
        values: the contract's arguments by name; tensors as ``TensorValue``.
        numbers: extents, strides and scalars by name.
        programs: ids of the (one or two) programs concerned.
        elements: the elements of index tensors that matter, by tensor and coordinates.
    """

    values: Mapping[str, Any]
    numbers: Mapping[str, int]
    programs: tuple[tuple[int, int, int], ...]
    elements: Mapping[str, Mapping[tuple[int, ...], int]]


class NoWitness(Exception):  # noqa: N818  (a verdict: the counterexample is not shown)
    """No concrete arguments were found; the message says why.

    Attributes:
        spurious: there are none, as far as the solver goes; else they exist and cannot be made or run here.
    """

    def __init__(self, words: str, *, spurious: bool = True) -> None:
        super().__init__(words)
        self.spurious = spurious


def witness(questions: Questions, found: Found, *, least: bool = True) -> Witness:
    """Small arguments for which a failed question fails.

    Args:
        questions: the launch.
        found: the failed question.
        least: look for the smallest; else for small ones, which is faster.

    Raises:
        NoWitness: the solver gives none, or none that fits the contract and the machine.
    """
    conditions = [*found.given, not_(found.goal)]
    if found.sharper is not None:
        conditions.append(not_(found.sharper))
    fixed: list[Term] = []
    example = _example(questions, conditions, fixed)
    if example is None:
        raise NoWitness("the solver gives no example within its budget")
    if not least:
        return _whole(questions, conditions, [], example)
    for quantity in _order(questions, conditions):
        example = _least(questions, conditions, fixed, quantity, example)
    for program in (questions.first.program, questions.second.program):
        for number in program.ids:
            if number.op == "var" and number.payload in example.values:
                example = _least(
                    questions, conditions, fixed, Quantity(number.payload, number, (0, None)), example
                )
    return _whole(questions, conditions, fixed, example)


def _whole(questions: Questions, conditions: Sequence[Term], fixed: Sequence[Term], example: Example) -> Witness:
    """The first of the examples that can be completed."""
    for attempt in _attempts(questions, conditions, fixed, example):
        whole = _complete(questions, conditions, *attempt)
        if whole is not None:
            return _concrete(questions, whole)
    raise NoWitness("no contents of all index tensors keep the contract and show the failure")


def _attempts(
    questions: Questions, conditions: Sequence[Term], fixed: Sequence[Term], example: Example
) -> Iterator[tuple[Sequence[Term], Example]]:
    """(what is fixed, example): the smallest, then larger ones, whose contents have more room for the contract."""
    if fixed:
        yield fixed, example
    quantities = _order(questions, conditions)
    extents = [q for q in quantities if not q.name.endswith(".stride") and (q.range[0] or 0) >= 0]
    for size in (2, 3, 4, 6):
        sizes = [eq(q.term, integer(max(size, q.range[0] or 0))) for q in extents]
        kept: list[Term] = []
        for one in sizes:
            larger = _example(questions, conditions, [*kept, one])
            if larger is not None:
                kept.append(one)
                example = larger
        yield kept, example


def _example(questions: Questions, conditions: Sequence[Term], fixed: Sequence[Term]) -> Example | None:
    premises = questions.premises([*conditions, *fixed])
    return questions.asker.example([*premises, *conditions, *fixed])


def _order(questions: Questions, conditions: Sequence[Term]) -> list[Quantity]:
    about = {t for t in walk(*questions.premises(conditions), *conditions) if t.op == "var"}
    quantities = [q for q in questions.setting.quantities if q.term in about]
    return sorted(
        quantities, key=lambda q: (q.name.endswith(".stride"), q.range[0] is not None and q.range[0] < 0)
    )


def _least(
    questions: Questions, conditions: Sequence[Term], fixed: list[Term], quantity: Quantity, example: Example
) -> Example:
    """Fix a quantity at its least value, the others being what they must."""
    now = int(example.values.get(quantity.name, 0))
    low = quantity.range[0]
    low = min(now, 0) if low is None else max(low, 0) if now >= 0 else low
    good, step = now, 1
    top = low
    # Most least values are small: look near the lower end before halving what is left.
    while low < good:
        middle = min(top, (low + good) // 2) if top < good else (low + good) // 2
        smaller = _example(questions, conditions, [*fixed, le(quantity.term, integer(middle))])
        if smaller is None:
            low, top, step = middle + 1, middle + step, 2 * step
        else:
            example = smaller
            good = min(int(smaller.values.get(quantity.name, middle)), middle)
    fixed.append(eq(quantity.term, integer(good)))
    return example


def _complete(
    questions: Questions, conditions: Sequence[Term], fixed: Sequence[Term], example: Example
) -> Example | None:
    """The example with every element of small index tensors, so that the whole of them keeps the contract."""
    elements = list(islice(_elements(questions, example.values), MOST_ELEMENTS + 1))
    if len(elements) > MOST_ELEMENTS:
        return example
    terms = [*conditions, *fixed, *elements]
    premises = questions.premises(terms)
    return questions.asker.example([*premises, *conditions, *fixed], elements)


def _elements(questions: Questions, numbers: Mapping[str, int | bool]) -> Iterable[Term]:
    for tensor in questions.setting.contract.tensors:
        value = questions.setting.values.get(tensor.name)
        if isinstance(value, SymbolicTensor) and value.kind in DTYPE_RANGES and tensor.role != "out":
            shape = [_number(e, questions, numbers) for e in tensor.shape]
            if np.prod(shape, dtype=object) > MOST_ELEMENTS:
                continue
            for at in product(*map(range, shape)):
                yield apply(tensor.name, [integer(i) for i in at])


def _number(extent: str | int, questions: Questions, numbers: Mapping[str, int | bool]) -> int:
    if isinstance(extent, int):
        return extent
    value = questions.setting.values[extent]
    return value if isinstance(value, int) else int(numbers.get(extent, 1))


# ---- concrete ---------------------------------------------------------------------------


def _concrete(questions: Questions, example: Example) -> Witness:
    setting = questions.setting
    # What the counterexample does not speak of may be anything: the least that it can be.
    numbers = {q.name: int(example.values.get(q.name, max(q.range[0] or 0, 0))) for q in setting.quantities}
    values: dict[str, Any] = {}
    dims: dict[str, int] = {}
    for name, value in setting.values.items():
        if isinstance(value, SymbolicTensor):
            continue
        values[name] = numbers.get(name, value)
        if isinstance(values[name], int):
            dims[name] = values[name]
    for tensor in setting.contract.tensors:
        value = setting.values.get(tensor.name)
        if isinstance(value, SymbolicTensor):
            values[tensor.name] = _tensor(questions, tensor.name, value, numbers, example)
        else:
            values.setdefault(tensor.name, None)
    arguments = ConcreteArguments(setting.contract, values, dims)
    for clause, at in broken_clauses(setting.contract, arguments):
        if clause.name not in questions.clauses.skipped:
            raise NoWitness(f"the example breaks clause {clause.name!r} at {at}")
    programs = tuple(
        tuple(int(example.values.get(i.payload, 0)) if i.op == "var" else i.payload for i in p.program.ids)
        for p in (questions.first, questions.second)
    )
    return Witness(values, {**dims, **numbers}, programs, _shown(example))  # type: ignore[arg-type]  # three ids


def _tensor(
    questions: Questions, name: str, value: SymbolicTensor, numbers: Mapping[str, int], example: Example
) -> TensorValue:
    tensor = next(t for t in questions.setting.contract.tensors if t.name == name)
    view = contract_view(tensor, value.kind, questions.setting.values, name)
    shape = tuple(int(evaluate(t, numbers)) for t in view.shape)
    strides = tuple(int(evaluate(t, numbers)) for t in view.strides)
    size = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    # Of an index tensor the contract reads every element.
    if size * view.item > (MOST_INDEX_BYTES if value.kind in DTYPE_RANGES else MOST_BYTES):
        raise NoWitness(f"{name} would take {size * view.item:,} bytes", spurious=False)
    # Pages that nothing touches take no memory.
    storage = np.zeros(max(size, 1), STORAGE_DTYPES[value.kind])
    made = TensorValue(value.kind, storage, shape, strides)
    for element, number in example.elements.items():
        if element.payload == name:
            at = tuple(int(evaluate(a, example.values, _functions(example))) for a in element.args)
            if all(0 <= i < n for i, n in zip(at, shape, strict=True)):
                made.array[at] = np.array(number).astype(storage.dtype)
    for element, number in example.elements.items():
        if element.payload == f"{name} in memory":
            (at,) = (int(evaluate(a, example.values, _functions(example))) for a in element.args)
            if 0 <= at < storage.size:
                storage[at] = np.array(number).astype(storage.dtype)
    return made


def _functions(example: Example) -> Mapping[str, Any]:
    """The elements as Python functions, for coordinates that are elements themselves."""
    tables: dict[str, dict[tuple[int, ...], int]] = {}
    for element, number in sorted(example.elements.items(), key=lambda item: _depth(item[0])):
        table = tables.setdefault(element.payload, {})
        known = {n: (lambda *at, n=n: tables.get(n, {}).get(at, 0)) for n in {e.payload for e in example.elements}}
        table[tuple(int(evaluate(a, example.values, known)) for a in element.args)] = number
    return {name: (lambda *at, name=name: tables[name].get(at, 0)) for name in tables}


def _depth(term: Term) -> int:
    return 1 + max((_depth(a) for a in term.args), default=0)


def _shown(example: Example) -> Mapping[str, Mapping[tuple[int, ...], int]]:
    functions = _functions(example)
    found: dict[str, dict[tuple[int, ...], int]] = {}
    for element, number in example.elements.items():
        at = tuple(int(evaluate(a, example.values, functions)) for a in element.args)
        found.setdefault(str(element.payload), {})[at] = number
    return found
