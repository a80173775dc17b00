"""A failing schedule as a short story: a line for each step, and what went wrong at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.operations import (
    Admit,
    Boundary,
    Decode,
    Drain,
    Evict,
    Finish,
    Fork,
    Operation,
    Preempt,
    Prefill,
    Resume,
    Transfer,
)


def _admit(op: Admit) -> str:
    prefix = f"{op.shared} tokens of shared prefix {op.family} and " if op.shared else ""
    pool = "" if op.site == 0 else " in the second pool"
    return f"request {op.name} is admitted{pool}: {prefix}{op.own} of its own, {op.answer} to be generated"


def _prefill(op: Prefill) -> str:
    done = ", ".join(f"request {name} up to position {upto}" for name, upto in op.parts)
    return f"prefill: {done}{_micro(op.micro)}"


def _decode(op: Decode) -> str:
    done = ", ".join(_decoded(*part) for part in op.parts)
    return f"decode: {done}{f'; {op.padding} padded tokens' if op.padding else ''}{_micro(op.micro)}"


def _preempt(op: Preempt) -> str:
    return f"request {op.name} is preempted, to be {'resumed' if op.how == 'checkpoint' else 'computed again'}"


def _fork(op: Fork) -> str:
    return f"request {op.child} forks off request {op.name}, {op.answer} to be generated"


_LINES: Mapping[type[Any], Callable[[Any], str]] = {
    Admit: _admit,
    Prefill: _prefill,
    Decode: _decode,
    Finish: lambda op: f"request {op.name} ends",
    Preempt: _preempt,
    Resume: lambda op: f"request {op.name} runs again",
    Fork: _fork,
    Evict: lambda op: f"{op.blocks} idle cached blocks are dropped",
    Boundary: lambda op: f"the boundary moves: {op.slots} slots",
    Transfer: lambda op: f"request {op.name} moves to the other pool",
    Drain: lambda _op: "all requests are let finish, and everything must be free",
}


def line(operation: Operation) -> str:
    """An operation in words."""
    return _LINES[type(operation)](operation)


def _decoded(name: int, drafts: int, kept: int) -> str:
    return (
        f"request {name}" if not drafts else f"request {name} with {drafts} drafts, {min(kept, drafts)} accepted"
    )


def _micro(count: int) -> str:
    return f", in {count} microbatches" if count > 1 else ""


def story(schedule: Sequence[Operation], broken: Broken | None = None) -> list[str]:
    """A line for each step, and one for what does not hold."""
    lines = [f"{number}. {line(operation)}" for number, operation in enumerate(schedule, start=1)]
    return lines if broken is None else [*lines, f"=> {broken}"]
