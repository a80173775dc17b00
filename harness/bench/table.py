"""One table of every kernel at production sizes on this machine's GPU.

``python3 -m kvproof.harness.bench.table [--kernel NAME] [--case TEXT] [--production CHECKOUT] [--json FILE]``

Columns: kernel, case, bytes that any implementation must move, time (median and quartiles) of one launch through
a graph with a flushed cache, its bound over that time (the bound: the bytes at the measured copy bandwidth, or
the operations at the measured matrix rate if that takes longer), and the time within which the launch has to be:
an empty launch and the bound at a share of 0.8 (0.6 for index builders, 0.5 and 0.3 for attention).
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
from kvproof.harness.bench.inputs import on_device
from kvproof.harness.bench.timing import GraphTimer, Timing, copy_bandwidth, empty_launch, host_time, matrix_rate
from kvproof.kernels.benchmark import BenchCase
from kvproof.kernels.registry import Kernel, all_kernels, resolve

INDEX_BUILDERS = ("decode_indices", "prefill_indices", "hca_head", "csa_translate", "row_index")
SHARES = {"index": 0.6, "rows": 0.8}
"""Share of the copy bandwidth that a launch's bytes should reach beyond an empty launch."""


@dataclass(frozen=True)
class Machine:
    """What a launch is measured against.

    Attributes:
        name: GPU.
        copy: bytes a second of a large copy, read and written.
        empty: microseconds of an empty launch.
        matrix: bf16 multiplications and additions a second of a large matrix product.
    """

    name: str
    copy: float
    empty: float
    matrix: float

    def bound(self, case: BenchCase) -> float:
        """Seconds that a case takes at least: its bytes copied, or its operations done."""
        return max(case.bytes_moved / self.copy, case.operations / self.matrix)


@dataclass(frozen=True)
class Row:
    """One case's result; times in microseconds.

    Attributes:
        limit: time that the case should take at most.
        production: the checkout's time on the same arguments, if it was asked for.
        error: why there is no time.
    """

    kernel: str
    case: str
    bytes_moved: int
    time: Timing | None = None
    share: float = 0.0
    limit: float = 0.0
    production: float | None = None
    error: str = ""


def measure_machine(timer: GraphTimer) -> Machine:
    """The copy bandwidth, the empty launch and the matrix rate of the current GPU."""
    return Machine(
        torch.cuda.get_device_name(), copy_bandwidth(timer), empty_launch(timer).median, matrix_rate(timer)
    )


def measure(
    kernel: Kernel, name: str, case: BenchCase, timer: GraphTimer, machine: Machine, other: Any = None
) -> Row:
    """One case of one kernel. A case that fails becomes a row that says so."""
    try:
        arguments = on_device(kernel, case, "cuda" if kernel.triton else "cpu")
        launcher = kernel.load()
        if not kernel.triton:
            found = host_time(lambda: launcher(**arguments))
            return Row(kernel.name, name, case.bytes_moved, found)
        found = timer.time(lambda: launcher(**arguments))
        theirs = None
        if other is not None:
            taken = production.arguments(kernel.name, arguments)
            theirs = timer.time(lambda: other(**taken)).median
    except Exception as error:
        return Row(kernel.name, name, case.bytes_moved, error=f"{type(error).__name__}: {error}"[:300])
    share = case.share or SHARES["index" if kernel.name in INDEX_BUILDERS else "rows"]
    bound = machine.bound(case)
    return Row(
        kernel.name,
        name,
        case.bytes_moved,
        found,
        share=bound / (found.median * 1e-6),
        limit=machine.empty + bound / share * 1e6,
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
    f"{'kernel':<22} {'case':<24} {'MB':>9} {'us':>9} {'quartiles':>17} {'share':>6} {'limit':>8} {'theirs':>8}"
)


def line(row: Row) -> str:
    """A row as text."""
    head = f"{row.kernel:<22} {row.case:<24} {row.bytes_moved / 1e6:9.3f} "
    if row.time is None:
        return f"{head}error: {row.error}"
    spread = f"{row.time.low:8.1f}-{row.time.high:8.1f}"
    if not row.limit:
        return f"{head}{row.time.median:9.1f} {spread:>17}  on the host"
    mark = "ok" if row.time.median <= row.limit else "over"
    theirs = "" if row.production is None else f"{row.production:8.1f}"
    return f"{head}{row.time.median:9.1f} {spread:>17} {row.share:6.1%} {row.limit:8.1f} {theirs:>8} {mark}"


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
    rates = f"copy {machine.copy / 1e9:.0f} GB/s, bf16 matrices {machine.matrix / 1e12:.0f} TFLOP/s"
    print(f"{machine.name}: {rates}, empty launch {machine.empty:.1f} us")
    print(f"torch {torch.__version__}")
    print(HEADER)
    found: list[Row] = []
    for row in rows(given.kernel, given.case, timer, machine, given.production):
        print(line(row), flush=True)
        found.append(row)
    if given.json:
        given.json.write_text(
            json.dumps({"machine": asdict(machine), "rows": [asdict(row) for row in found]}, indent=1),
            encoding="utf-8",
        )
    return 1 if any(row.error for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
