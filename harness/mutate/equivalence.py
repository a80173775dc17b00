"""A mutation that no statement refutes has to change nothing: that every address is the same row is proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvproof.harness.mutate.layouts import MutantLayouts
from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.statement_proof import StatementProof, prove_statement
from kvproof.harness.prove.subject import SIZES, Subject
from kvproof.harness.solve.backends import backend
from kvproof.models.deepseek_v4 import real_configs
from kvproof.models.index import Condition, IndexValue
from kvproof.properties.layouts.addresses import choose_compress, choose_window, entry_ratios, envelope_ratios
from kvproof.properties.statement import Chooser, Needs, Statement


@dataclass(frozen=True)
class Pair:
    """A layout and its mutant, of the same sizes."""

    original: Any
    mutant: Any


def same_rows(pair: Pair, choose: Chooser, slip: int = 0) -> Condition:
    """Every address is the same plane row in both, and so are the spans of blocks, slots and state."""
    original, mutant = pair.original, pair.mutant
    kind = choose.pick("kind", ("window", "compressed"))
    if kind == "window":
        row = choose_window(original, choose, choose.pick("class", entry_ratios(original)))
        rows = mutant.rows_of(row.rows.ratio)
        other = rows.base_row(row.layer) + mutant.window_params(rows.ratio).index(row.slot, row.position)
        (first, stop), (other_first, other_stop) = original.slot_span(row.slot), mutant.slot_span(row.slot)
        state = original.arena_span(row.slot)[1] == mutant.arena_span(row.slot)[1]
        group = choose.integer("any group", 0, original.num_slots - 1)
        same_slot = original.physical_slot(group) == mutant.physical_slot(group)
        spans = (first == other_first) & (stop == other_stop) & state & same_slot
    else:
        row = choose_compress(original, choose, choose.pick("class", envelope_ratios(original)))
        rows = mutant.rows_of(row.rows.ratio)
        other = rows.base_row(row.layer) + mutant.compress_row(rows.ratio, row.block, row.place)
        (first, stop), (other_first, other_stop) = original.block_span(row.block), mutant.block_span(row.block)
        spans = (first == other_first) & (stop == other_stop)
    return spans & (row.row + slip == other)


SAME_ROWS = Statement(
    "same rows",
    "Every address is the same plane row in both layouts.",
    "pair",
    same_rows,
    Needs(0),
    "one layout's rows are taken to be one higher",
)


def prove_equivalent(mutant: MutantLayouts, config: str, solver: str = "z3") -> StatementProof:
    """Try to prove that a mutation of a real configuration's layout changes no address."""
    (original,) = (c for c in real_configs() if c.name == config)
    (mutated,) = (c for c in mutant.deepseek_v4.real_configs() if c.name == config)

    def build(sizes: Mapping[str, IndexValue]) -> Pair:
        arguments = [sizes[name] for name in SIZES]
        return Pair(original.geometry(*arguments), mutated.geometry(*arguments))

    return prove_statement(Subject(config, "pair", SIZES, build), SAME_ROWS, Solvers([backend(solver)]))
