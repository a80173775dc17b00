"""Cases a second of the executor of compiled IR and of Triton's interpreter, on the same launches, checks on.

Run ``python tests/bench/ir_throughput.py``; ``--write`` puts its table into docs/ir.md. Cases are drawn
beforehand; a case of a batch has that many sequences of 1 to 4 tokens each. Times are CPU times of this one
process, the smallest of several rounds, since a busy machine stretches the others.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kvproof.harness.devices.registry import find_device
from kvproof.harness.ir.execute.starts import SHARED
from kvproof.kernels.decode_indices.contract import CLASSES
from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import bind, broken_clauses, contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.row_space import CSA_RATIO

DOCS = Path(__file__).resolve().parents[2] / "docs" / "ir.md"
BEGIN, END = "<!-- throughput: begin -->", "<!-- throughput: end -->"
WIDTH = 32
"""Elements of a row that is moved."""
BATCHES = {4: 80, 64: 500}
"""Sequences of a case, and how many times faster the executor should be."""

Values = dict[str, Any]


def _tokens(draw: np.random.Generator, sequences: int) -> tuple[Any, Any, Any]:
    """(tokens of each sequence, position of each token, sequence of each token)."""
    counts = draw.integers(1, 5, sequences)
    starts = draw.integers(0, 4096, sequences)
    positions = np.concatenate([s + np.arange(n) for s, n in zip(starts, counts, strict=True)])
    return counts, positions, np.repeat(np.arange(sequences), counts)


def window_write(draw: np.random.Generator, sequences: int) -> Values:
    """Windows of one CSA layer."""
    counts, positions, _ = _tokens(draw, sequences)
    geometry = CONFIGS["v4-flash"].geometry(0, 0)
    window = geometry.window_params(CSA_RATIO)
    window = type(window)(0, window.ring_slots, window.ring_slots, window.ring_slots, window.ring_slots)
    slots = 2 * sequences
    bits = draw.integers(0, 2**16, (len(positions), WIDTH)).astype(np.uint16)
    return {
        "kv": contiguous("bf16", bits),
        "positions": contiguous("int32", positions),
        "cu_seqlens_q": contiguous("int32", np.concatenate([[0], np.cumsum(counts)])),
        "state_slot_per_seq": contiguous("int32", draw.permutation(slots)[:sequences]),
        "pool": contiguous("bf16", np.zeros((slots * window.ring_slots, WIDTH), np.uint16)),
        "window": window,
        "write_per_batch": 4,
    }


def row_scatter(draw: np.random.Generator, sequences: int) -> Values:
    """Each token's row to a chosen one."""
    _, positions, owner = _tokens(draw, sequences)
    tokens = len(positions)
    return {
        "kv": contiguous("bf16", draw.integers(0, 2**16, (tokens, WIDTH)).astype(np.uint16)),
        "dest_rows": contiguous("int32", draw.permutation(4 * tokens)[:tokens]),
        "batch_id_per_token": contiguous("int32", owner),
        "pool": contiguous("bf16", np.zeros((4 * tokens, WIDTH), np.uint16)),
    }


def decode_indices(draw: np.random.Generator, sequences: int) -> Values:
    """Window rows of every decode token in all classes."""
    _, positions, owner = _tokens(draw, sequences)
    geometry = CONFIGS["v4-flash-mtp1"].geometry(num_blocks=64, num_slots=sequences)
    tokens, win = len(positions), 128
    values: Values = {
        "state_slot_per_seq": contiguous("int32", geometry.physical_slot(0) - draw.permutation(sequences)),
        "batch_id_per_token": contiguous("int32", owner),
        "positions": contiguous("int64", positions),
        "T": tokens,
        "win": win,
        "geometry": geometry,
    }
    lengths = np.minimum(positions + 1, win)
    for name in CLASSES.values():
        bounds = np.concatenate([[0], np.cumsum(lengths + draw.integers(0, 9, tokens))])
        values[f"{name}_indptr"] = contiguous("int32", bounds)
        values[f"{name}_indices"] = contiguous("int32", np.full(int(bounds[-1]), -1))
        values[f"dest_rows_{name}"] = contiguous("int32", np.full(tokens, -1))
    return values


def csa_translate(draw: np.random.Generator, sequences: int) -> Values:
    """Top-k entries of every decode token to rows."""
    _, positions, owner = _tokens(draw, sequences)
    tokens, topk, capacity = len(positions), 64, 64
    columns = -(-4100 // 256)
    lengths = np.minimum(positions + 1, 128) + topk
    return {
        "topk_local": contiguous("int32", draw.integers(0, 1024, (tokens, topk))),
        "block_tables": contiguous("int32", draw.permutation(sequences * columns).reshape(sequences, columns)),
        "positions": contiguous("int64", positions),
        "kv_indptr_csa": contiguous("int32", np.concatenate([[0], np.cumsum(lengths)])),
        "batch_id_per_token": contiguous("int32", owner),
        "skip_prefix_len_per_token": None,
        "kv_indices_csa": contiguous("int32", np.full(int(lengths.sum()), -1)),
        "envelope_rows": 1384,
        "csa_block_capacity": capacity,
        "window_size": 128,
    }


BUILDERS: Mapping[str, Callable[[np.random.Generator, int], Values]] = {
    "window_write": window_write,
    "row_scatter": row_scatter,
    "decode_indices": decode_indices,
    "csa_translate": csa_translate,
}


def drawn(kernel: str, sequences: int, count: int) -> list[Values]:
    """Cases of a kernel; each keeps its contract."""
    draw = np.random.default_rng(sequences)
    found: list[Values] = []
    contract = all_kernels()[kernel].contract
    for _ in range(count):
        values = BUILDERS[kernel](draw, sequences)
        for clause, at in broken_clauses(contract, bind(contract, values)):
            raise ValueError(f"{kernel}: a case breaks {clause.name!r} at {at}")
        found.append(values)
    return found


def rates(kernel: str, cases: list[Values], few: int, rounds: int) -> tuple[float, float]:
    """Cases a second of the executor on all cases, and of the interpreter on a few of them.

    The two take turns, so that both meet the machine in the same moods.
    """
    target = all_kernels()[kernel]
    sides = [(find_device("ir"), cases), (find_device("interpret"), cases[:few])]
    best = [float("inf"), float("inf")]
    for number in range(rounds + 1):
        for side, (device, some) in enumerate(sides):
            SHARED.forget()  # what equal launches share is shared within a round only, as among fresh cases
            start = time.process_time()
            for values in some:
                device.run(target, values)
            if number:  # the first round compiles
                best[side] = min(best[side], (time.process_time() - start) / len(some))
    return 1 / best[0], 1 / best[1]


def table(quick: bool) -> tuple[list[str], bool]:
    """The table's lines, and whether every kernel is as much faster as it should be."""
    lines = [
        "| kernel | sequences | `ir`, cases/s | `interpret`, cases/s | times faster |",
        "|---|---|---|---|---|",
    ]
    good = True
    spent = {sequences: [0.0, 0.0] for sequences in BATCHES}
    for kernel in BUILDERS:
        for sequences, wanted in BATCHES.items():
            many = 20 if quick else 200
            few = 1 if sequences > 4 else 6
            cases = drawn(kernel, sequences, many)
            ours, theirs = rates(kernel, cases, few, 2 if quick else 5)
            times = ours / theirs
            good &= times >= wanted
            spent[sequences][0] += 1 / ours
            spent[sequences][1] += 1 / theirs
            lines.append(f"| `{kernel}` | {sequences} | {ours:,.0f} | {theirs:,.2f} | {times:,.0f} |")
            print(lines[-1], flush=True)
    for sequences, (ours, theirs) in spent.items():
        # As many cases of each kernel.
        count = len(BUILDERS)
        lines.append(
            f"| all alike | {sequences} | {count / ours:,.0f} | {count / theirs:,.2f} | {theirs / ours:,.0f} |"
        )
        print(lines[-1], flush=True)
    return lines, good


def main() -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/ir.md")
    parser.add_argument("--quick", action="store_true", help="few cases")
    given = parser.parse_args()
    lines, good = table(given.quick)
    if given.write:
        text = DOCS.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        DOCS.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
