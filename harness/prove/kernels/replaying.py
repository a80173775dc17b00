"""Seeing a counterexample: its launch is run from the IR, and what was claimed must show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kvproof.harness.ir.execute import (
    Executed,
    Kind,
    Report,
    Segment,
    Storage,
    UnsupportedOperation,
    observe,
    prepare,
)
from kvproof.harness.prove.kernels.launch import Setting
from kvproof.harness.prove.kernels.properties import Found, Property
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.prove.kernels.views import View
from kvproof.harness.prove.kernels.witness import NoWitness, Witness
from kvproof.harness.solve.term import evaluate
from kvproof.models.contract import ConcreteArguments, TensorValue, index_arrays


@dataclass(frozen=True)
class Replay:
    """What a run of a counterexample showed.

    Attributes:
        shown: the failure was seen.
        words: what was seen instead, or as what.
    """

    shown: bool
    words: str


def replay(questions: Questions, found: Found, witness: Witness, launches: Sequence[Questions] = ()) -> Replay:
    """Run a counterexample's launch and look for the failure that it is of.

    Args:
        questions: the launch.
        found: the failure.
        witness: the arguments.
        launches: all launches of the entry point in order: what is written at all only all of them say.

    Raises:
        NoWitness: the launch cannot be made from the witness.
    """
    try:
        watch = found.property in {Property.NO_WRAP, Property.NO_SENTINEL}
        several = launches if found.property is Property.ADDRESS_MAP and launches else (questions,)
        executed = run(several, witness, watch=watch)
    except UnsupportedOperation as problem:
        raise NoWitness(f"the executor does not model {problem}", spurious=False) from None
    endless = [r for r in executed.reports if r.kind is Kind.ENDLESS]
    if endless:
        raise NoWitness(f"the run is too long: {endless[0].words}", spurious=False)
    if found.property is Property.ADDRESS_MAP:
        outside = [r for r in executed.reports if r.kind is Kind.OUT_OF_BOUNDS and _same_place(r, found)]
        if outside:
            return Replay(True, str(outside[0]))
        return _undeclared(questions, several, found, witness, executed)
    kinds = {
        Property.IN_BOUNDS: (Kind.OUT_OF_BOUNDS,),
        Property.ONE_WRITER: (Kind.COLLISION,),
        Property.NO_WRAP: (Kind.WRAP,),
        Property.NO_SENTINEL: (Kind.SENTINEL,),
    }[found.property]
    for report in executed.reports:
        if report.kind in kinds and _same_place(report, found):
            return Replay(True, str(report))
    if found.property is Property.NO_SENTINEL:
        return _scaled(found, witness, executed)
    seen = "; ".join(dict.fromkeys(str(r.kind) for r in executed.reports)) or "nothing"
    return Replay(False, f"the run shows {seen}")


def _same_place(report: Report, found: Found) -> bool:
    places = {found.location.frames, found.other.frames if found.other else found.location.frames}
    own = {report.location.frames, report.other.frames if report.other else report.location.frames}
    return bool(places & own)


def run(launches: Sequence[Questions], witness: Witness, *, watch: bool = False) -> Executed:
    """Run launches of a witness one after the other, from their IR.

    Raises:
        UnsupportedOperation: a kernel holds an operation that the executor does not model.
    """
    whole = Executed([], [], [])
    storages: dict[str, Storage] = {}
    for questions in launches:
        kernel = prepare(questions.module, watch=watch)
        arguments = _arguments(questions, witness, storages)
        x, y, z = (int(evaluate(size, witness.numbers)) for size in questions.launch.grid)
        if 0 in (x, y, z):
            continue
        one = observe(kernel, (x, y, z), arguments)
        whole.reports.extend(one.reports)
        whole.stores.extend(one.stores)
        whole.loads.extend(one.loads)
    return whole


def _arguments(
    questions: Questions, witness: Witness, storages: dict[str, Storage]
) -> dict[str, Segment | int | float | bool]:
    numbers = witness.numbers
    arguments: dict[str, Segment | int | float | bool] = {}
    for argument in questions.module.entry.arguments:
        name = argument.name
        view = questions.launch.views.get(name)
        if view is not None:
            value = witness.values.get(view.tensor)
            shape = tuple(int(evaluate(e, numbers)) for e in view.shape)
            strides = tuple(int(evaluate(s, numbers)) for s in view.strides)
            start = 0
            if isinstance(value, TensorValue):
                storage = storages.setdefault(view.tensor, Storage(value.storage.view(np.uint8)))
                start = value.offset * value.storage.itemsize + int(evaluate(view.start, numbers)) * view.item
            else:
                size = int(np.prod(shape, dtype=object)) * view.item
                storage = storages.setdefault(view.tensor, Storage(np.zeros(size, np.uint8)))
            arguments[name] = Segment(name, storage, start, view.item, shape, strides)
        elif name in questions.launch.arguments:
            arguments[name] = int(evaluate(questions.launch.arguments[name], numbers))
        else:
            arguments[name] = 1.0
    return arguments


def _scaled(found: Found, witness: Witness, executed: Executed) -> Replay:
    """A negative element that scales an address shows in the element itself, and in the access being made."""
    made = [t for t in (*executed.loads, *executed.stores) if t.at.location.frames == found.location.frames]
    negative = [f"{n}{list(at)} = {v}" for n, at_v in witness.elements.items() for at, v in at_v.items() if v < 0]
    if made and negative:
        return Replay(True, f"accessed with {', '.join(negative)}")
    return Replay(False, "no access is made with a negative element")


def _undeclared(
    questions: Questions, several: Sequence[Questions], found: Found, witness: Witness, executed: Executed
) -> Replay:
    """Cells of the tensor that are accessed although the contract names none of them, or the other way round."""
    setting: Setting = questions.setting
    loads = [a for a in questions.first.accesses if a.operation.location.frames == found.location.frames]
    reading = bool(loads) and all(a.kind == "load" for a in loads)
    value = witness.values.get(found.buffer)
    if not isinstance(value, TensorValue):
        raise NoWitness(f"{found.buffer} is no tensor of the contract", spurious=False)
    named = _named_cells(setting, found.buffer, witness, reading=reading)
    views = {n: v for one in several for n, v in one.launch.views.items()}
    touched = _touched(views, found.buffer, executed, reading=reading)
    stray = sorted(touched - named)
    if stray:
        return Replay(True, f"element {stray[0]} of {found.buffer} is accessed and not named")
    missing = [] if reading else sorted(named - touched)
    if missing:
        return Replay(True, f"element {missing[0]} of {found.buffer} is named and not written")
    return Replay(False, "the accessed elements are those of the contract")


def _named_cells(setting: Setting, buffer: str, witness: Witness, *, reading: bool) -> set[int]:
    """Storage elements that the contract names."""
    dims = {n: v for n, v in witness.values.items() if isinstance(v, int)}
    a = ConcreteArguments(setting.contract, witness.values, dims)
    value = witness.values[buffer]
    found: set[int] = set()
    for access in setting.contract.accesses:
        if access.buffer != buffer or (access.mode == "read") != reading:
            continue
        columns = index_arrays(access.over, a)
        live = np.broadcast_to(np.asarray(access.when(a, *columns), bool), columns[0].shape)
        chosen = [c[live] for c in columns]
        cell = [np.broadcast_to(np.asarray(c, np.int64), chosen[0].shape) for c in access.cell(a, *chosen)]
        start = value.offset + sum(c * s for c, s in zip(cell, value.strides, strict=False))
        rest = np.zeros(1, np.int64)
        for extent, stride in zip(value.shape[len(cell) :], value.strides[len(cell) :], strict=True):
            rest = (rest[:, None] + np.arange(extent) * stride).reshape(-1)
        found |= set((np.asarray(start).reshape(-1, 1) + rest).reshape(-1).tolist())
    return found


def _touched(views: Mapping[str, View], buffer: str, executed: Executed, *, reading: bool) -> set[int]:
    touches = executed.loads if reading else executed.stores
    found: set[int] = set()
    for touch in touches:
        view = views.get(touch.name)
        if view is not None and view.tensor == buffer:
            found |= set((touch.cells * touch.width // view.item).reshape(-1).tolist())
    return found
