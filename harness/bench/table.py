"""One table of every kernel at production sizes on this machine's GPU.

``python3 -m kvproof.harness.bench.table [--kernel NAME] [--case TEXT] [--production CHECKOUT] [--json FILE]``

Each launch is captured into a graph and replayed with a flushed cache. Its bound is the bytes that any
implementation must move at the measured copy bandwidth, or the operations at the measured matrix rate if that
takes longer. Columns: kernel, case, bytes, time (median and quartiles), bound over time, the limit (an empty
launch and the bound at the wanted share: 0.8, for index builders 0.6, for attention 0.5 with 16 heads and 0.3 with
128), whether it is met, and a production checkout's time on the same arguments.

Moves of at least 256 MB must reach the share outright. *latency* in place of *missed* says that the time is within
the limit of a launch that makes as many loads one after the other as this one must and does nothing else: there
no bandwidth helps.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from kvproof.harness.bench import production
from kvproof.harness.bench.ceilings import LONGEST_CHAIN, Machine, measure_machine
from kvproof.harness.bench.inputs import on_device
from kvproof.harness.bench.timing import GraphTimer, Timing, host_time
from kvproof.kernels.benchmark import BenchCase
from kvproof.kernels.registry import Kernel, all_kernels, resolve
from kvproof.reports.store import write_atomically

INDEX_BUILDERS = ("decode_indices", "prefill_indices", "hca_head", "csa_translate", "row_index")
SHARES = {"index": 0.6, "rows": 0.8}
"""Share of the copy bandwidth that a launch's bytes should reach beyond an empty launch."""
LARGE_BYTES = 256_000_000
"""A move of so many bytes must reach the share with the launch counted in."""

DEPENDENT_LOADS = {
    "fp8_pack": 1,
    "fp8_unpack": 1,
    "row_index": 1,
    "prefill_indices": 3,
    "hca_head": 3,
    "fused_compress": 3,
    "attention_decode": 3,
    "attention_prefill": 3,
    "split_attention": 4,
}
"""Loads of a program that must wait for one another: an id, what it names, what lies there."""
MOST_DEPENDENT_LOADS = 2
"""Of any other kernel: an id, then the row that it names."""


@dataclass(frozen=True)
class Row:
    """One case's result; times in microseconds.

    Attributes:
        bound: time that any implementation takes at least.
        wanted: share of the bound that is wanted.
        limit: time that the case may take at most.
        floor: likewise, of a launch that has to wait for its loads one after the other.
        production: the checkout's time on the same arguments, if it was asked for.
        error: why there is no time.
    """

    kernel: str
    case: str
    bytes_moved: int
    operations: int = 0
    time: Timing | None = None
    bound: float = 0.0
    wanted: float = 0.0
    limit: float = 0.0
    floor: float = 0.0
    production: float | None = None
    error: str = ""

    @property
    def share(self) -> float:
        """The bound over the time."""
        return self.bound / self.time.median if self.time else 0.0

    @property
    def verdict(self) -> str:
        """met, latency or missed; nothing where there is no limit."""
        if self.time is None or not self.limit:
            return ""
        if self.time.median <= self.limit:
            return "met"
        return "latency" if self.time.median <= self.floor else "missed"


def measure(
    kernel: Kernel, name: str, case: BenchCase, timer: GraphTimer, machine: Machine, other: Any = None
) -> Row:
    """One case of one kernel. A case that fails becomes a row that says so."""
    try:
        arguments = on_device(kernel, case, "cuda" if kernel.triton else "cpu")
        launcher = kernel.load()
        if not kernel.triton:
            return Row(kernel.name, name, case.bytes_moved, time=host_time(lambda: launcher(**arguments)))
        found = timer.time(lambda: launcher(**arguments))
        theirs = None
        if other is not None:
            taken = production.arguments(kernel.name, arguments)
            theirs = timer.time(lambda: other(**taken)).median
    except Exception as error:
        return Row(kernel.name, name, case.bytes_moved, error=f"{type(error).__name__}: {error}"[:300])
    wanted = case.share or SHARES["index" if kernel.name in INDEX_BUILDERS else "rows"]
    bound = machine.bound(case.bytes_moved, case.operations) * 1e6
    large = case.bytes_moved >= LARGE_BYTES
    waiting = machine.chain[min(DEPENDENT_LOADS.get(kernel.name, MOST_DEPENDENT_LOADS), LONGEST_CHAIN)]
    return Row(
        kernel.name,
        name,
        case.bytes_moved,
        case.operations,
        found,
        bound,
        wanted,
        limit=bound / wanted + (0.0 if large else machine.empty),
        floor=bound / wanted + waiting,
        production=theirs,
    )


def rows(
    kernels: Sequence[str], text: str, timer: GraphTimer, machine: Machine, checkout: Path | None
) -> Iterator[Row]:
    """The table's rows, kernel by kernel."""
    others = production.load(checkout) if checkout else {}
    for kernel in all_kernels().values():
        if kernels and kernel.name not in kernels:
            continue
        cases: Mapping[str, BenchCase] = resolve(kernel.cases)()
        for name in cases:
            if text in name:
                yield measure(kernel, name, cases[name], timer, machine, others.get(kernel.name))
            gc.collect()
            torch.cuda.empty_cache()


HEADER = (
    f"{'kernel':<22} {'case':<28} {'MB':>9} {'us':>9} {'quartiles':>17} {'share':>6} {'limit':>8} {'':>7} "
    f"{'theirs':>8}"
)


def line(row: Row) -> str:
    """A row as text."""
    head = f"{row.kernel:<22} {row.case:<28} {row.bytes_moved / 1e6:9.3f} "
    if row.time is None:
        return f"{head}error: {row.error}"
    spread = f"{row.time.low:8.1f}-{row.time.high:8.1f}"
    if not row.limit:
        return f"{head}{row.time.median:9.1f} {spread:>17}  on the host"
    theirs = "" if row.production is None else f"{row.production:8.1f}"
    return (
        f"{head}{row.time.median:9.1f} {spread:>17} {row.share:6.1%} {row.limit:8.1f} {row.verdict:>7} {theirs:>8}"
    )


def machine_lines(machine: Machine) -> list[str]:
    """The ceilings as text: the best way of copying, and the slowest and best of each kind."""
    best = max(machine.copies, key=lambda way: machine.copies[way])
    waits = ", ".join(f"{time:.1f}" for time in machine.chain[1:])
    return [
        f"{machine.name}: copy {machine.copy / 1e9:.0f} GB/s ({best}), bf16 matrices "
        f"{machine.matrix / 1e12:.0f} TFLOP/s, empty launch {machine.empty:.1f} us, "
        f"with 1 to {LONGEST_CHAIN} loads that wait for one another {waits} us",
    ]


def table_json(machine: Machine, found: Sequence[Row]) -> str:
    """The table as JSON; verdicts and shares follow from it."""
    kept = {
        "machine": asdict(machine),
        "torch": torch.__version__,
        "rows": [asdict(row) for row in found],
    }
    return json.dumps(kept, indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Exit status 2 without a GPU, 1 if a case failed to run."""
    parser = argparse.ArgumentParser(prog="python3 -m kvproof.harness.bench.table", description=__doc__)
    parser.add_argument("--kernel", action="append", default=[], help="only this kernel; may be given often")
    parser.add_argument("--case", default="", help="only cases whose name holds this text")
    parser.add_argument("--production", type=Path, help="checkout with production kernels, timed beside")
    parser.add_argument("--replays", type=int, default=40, help="timed replays of a case")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.kernel if name not in all_kernels()]
    if unknown:
        parser.error(f"--kernel is {unknown[0]!r}; allowed: {', '.join(all_kernels())}")
    if not torch.cuda.is_available():
        print("no GPU here", file=sys.stderr)
        return 2
    timer = GraphTimer(given.replays)
    machine = measure_machine(timer)
    print(*machine_lines(machine), f"torch {torch.__version__}", HEADER, sep="\n")
    found: list[Row] = []
    for row in rows(given.kernel, given.case, timer, machine, given.production):
        print(line(row), flush=True)
        found.append(row)
    if given.json:
        write_atomically(given.json, table_json(machine, found))
    return 1 if any(row.error for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
