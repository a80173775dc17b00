"""An obligation in words: what is claimed, of what, by which steps, and what the solvers said of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.explore import explore, symbolic_system
from kvproof.harness.prove.statement_proof import StatementProof, Step, prove_statement
from kvproof.harness.prove.subject import Subject
from kvproof.harness.prove.theorems import BY_HAND
from kvproof.harness.solve.term import Term, neg, show
from kvproof.harness.symbolic import SymInt
from kvproof.models.row_space import CLASS_NAMES, RowSpace
from kvproof.properties.statement import Statement


@dataclass(frozen=True)
class Explanation:
    """A statement's proof on a subject, for a person.

    Attributes:
        proof: the proof, run afresh.
        premises: what each path takes to hold, as text, by path.
        by_hand: the step that no solver checks; empty if there is none.
    """

    proof: StatementProof
    premises: Mapping[str, tuple[str, ...]]
    by_hand: str


def explain(subject: Subject, statement: Statement, solvers: Solvers) -> Explanation:
    """Prove a statement and keep what a person asks about it."""
    names = _names(symbolic_system(subject)[0])
    premises = {
        path.label: tuple(show(premise, names) for premise in path.premises)
        for path in explore(subject, statement, solvers.feasible)
        if not path.vacuous
    }
    return Explanation(prove_statement(subject, statement, solvers), premises, BY_HAND.get(statement.name, ""))


_NAMED = ("slot_rows", "held_slots", "slot_origin", "envelope_rows", "entry_rows")


def _names(system: Any) -> dict[Term, str]:
    """Names of a layout's derived sizes: premises are shown in them, not in all that they are made of."""
    space = getattr(system, "space", system)
    names: dict[Term, str] = {}
    for name in _NAMED:
        value = getattr(space, name, None)
        if isinstance(value, SymInt) and value.term.op != "var":
            names[value.term] = name
            names.setdefault(neg(value.term), f"-{name}")
    return names


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """The explanation as text, one line each."""
    proof, statement = explanation.proof, explanation.proof.statement
    yield f"{statement.name}, of {proof.subject.name}"
    yield f"  claims     {statement.words}"
    yield f"  for every  {', '.join(proof.subject.sizes) or 'value that it chooses'}, and for each case below"
    yield f"  its twin   {statement.twin}: has to be refuted"
    if explanation.by_hand:
        yield f"  by hand    {explanation.by_hand}"
    for label, premises in explanation.premises.items():
        yield f"case {label or 'without picks'}"
        yield "  premises"
        for premise in premises:
            yield f"    {premise}"
        for step in proof.steps:
            if step.path == label:
                yield from _step_lines(step)
    for label, reason in proof.vacuous.items():
        yield f"case {label}: nothing is claimed ({reason})"
    for problem in proof.problems:
        yield f"{problem.status}: {problem.reason}"
    verdict = "proved" if not proof.problems else "not proved"
    yield f"{verdict}: {len(proof.steps)} queries in {proof.seconds:.2f} s"


def _step_lines(step: Step) -> Iterator[str]:
    meaning = {
        "require": "arguments are accepted",
        "lemma": "lemma",
        "claim": "claim",
        "vacuity": "the premises have a case",
        "twin": "the twin is refuted at its",
    }[step.kind]
    name = "" if step.kind == "claim" else f" {step.name}"
    yield f"  {meaning}{name}  [{step.key}]"
    for answer in step.answers:
        work = f"{answer.resources:,} units, {answer.seconds * 1000:.1f} ms"
        yield f"    {answer.solver}: {answer.outcome}, {work}{', ' + answer.reason if answer.reason else ''}"


# ---- counterexamples ----------------------------------------------------


@dataclass(frozen=True)
class Address:
    """An address of a counterexample, and how it is computed.

    Attributes:
        name: what it is, in words.
        row: plane row.
        lines: the computation.
    """

    name: str
    row: int
    lines: tuple[str, ...]


def addresses_of(space: RowSpace, choices: Mapping[str, Any]) -> list[Address]:
    """The addresses that a case of a statement about the row space speaks of: one a tag (" a", " b", "")."""
    found: list[Address] = []
    for tag in ("", " a", " b", " w"):
        ratio = choices.get(f"class{tag}", choices.get("class"))
        if ratio not in space.class_rows:
            continue
        if f"position{tag}" in choices and f"group{tag}" in choices:
            found.append(_window(space, ratio, choices, tag))
        elif f"block{tag}" in choices and f"row{tag}" in choices:
            found.append(_compressed(space, ratio, choices, tag))
    return found


def _window(space: RowSpace, ratio: int, choices: Mapping[str, Any], tag: str) -> Address:
    layer, group = choices.get(f"layer{tag}", 0), choices[f"group{tag}"]
    position = choices[f"position{tag}"]
    rows, params, slot = space.rows_of(ratio), space.window_params(ratio), space.physical_slot(group)
    base, index = rows.base_row(layer), params.index(slot, position)
    place = position % params.ring_slots
    q, r = divmod(place, params.ring_stride)
    return Address(
        f"{CLASS_NAMES[ratio]} layer {layer}, group {group}, position {position}",
        base + index,
        (
            f"slot = {space.slot_positions} - 1 - {group} = {slot}",
            f"place = {position} mod {params.ring_slots} = {place} = {q} runs of {params.ring_stride} + {r}",
            f"index = {slot} * {params.slot_rows} + {params.ring_start} + {q} * {params.run_rows} + {r} = {index}",
            f"row = {base} + {index} = {base + index}",
        ),
    )


def _compressed(space: RowSpace, ratio: int, choices: Mapping[str, Any], tag: str) -> Address:
    layer, block, place = choices.get(f"layer{tag}", 0), choices[f"block{tag}"], choices[f"row{tag}"]
    rows = space.rows_of(ratio)
    base, index = rows.base_row(layer), space.compress_row(ratio, block, place)
    return Address(
        f"{CLASS_NAMES[ratio]} layer {layer}, block {block}, row {place}",
        base + index,
        (
            f"index = {block} * {space.envelope_rows} + {place} = {index}",
            f"row = {base} + {index} = {base + index}",
        ),
    )


def picture(space: RowSpace, addresses: list[Address], around: int = 2) -> Iterator[str]:
    """The plane's rows near some addresses, one line each, with what lies there and which address reaches it."""
    rows = sorted({a.row + d for a in addresses for d in range(-around, around + 1)})
    previous: int | None = None
    for row in rows:
        if previous is not None and row != previous + 1:
            yield "      ..."
        previous = row
        here = "; ".join(a.name for a in addresses if a.row == row)
        yield f"{row:>9}  {_region(space, row):32} {'<- ' + here if here else ''}".rstrip()


def _region(space: RowSpace, row: int) -> str:  # noqa: PLR0911  (one a kind of region)
    """What the layout has at a plane row."""
    if not 0 <= row < space.plane_rows:
        return "outside the plane"
    taken = space.num_blocks * space.envelope_rows
    if row < taken:
        block, place = divmod(row, space.envelope_rows)
        for ratio, rows in space.class_rows.items():
            if rows.envelope_offset <= place < rows.envelope_offset + rows.envelope_rows:
                return f"block {block}, {CLASS_NAMES[ratio]}"
        return f"block {block}"
    position, place = divmod(row, space.slot_rows)
    lowest = space.held_slots - space.num_slots
    if not lowest <= position < space.held_slots:
        return "gap"
    slot = position + space.slot_origin
    if place < space.arena_rows:
        return f"slot {slot}, state"
    for ratio, rows in space.class_rows.items():
        start = space.arena_rows + rows.entry_offset
        if start <= place < start + rows.entry_rows:
            return f"slot {slot}, {CLASS_NAMES[ratio]} windows"
    return f"slot {slot}, padding"
