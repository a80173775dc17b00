"""The executor of compiled IR against a GPU: drawn launches of every kernel, every buffer compared whole.

Run ``python tests/bench/ir_against_device.py --device cuda --cases 10000``. The first draws of a kernel tell which
specialisations are the commonest; these are compared, since each costs a GPU's compiler a second or more. Then
batches are drawn: launches of other specialisations are left out before anything runs; the executor runs the
others, then the device, then all elements of all buffers are compared bit by bit. Floats that a contract gives a
bound for may differ, as long as both sides are within it. A launch that was drawn twice counts once.

Exit status: 0 if every kernel agreed on as many cases and geometries as asked for, else 1.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GEOMETRIES = 24
DRAWS = 160
"""Launches drawn at once: enough to be worth a task, few enough that the last ones do not take long."""
SCOUTS = 6
"""Tasks that draw launches only to see their specialisations."""
BURST = 40
"""Launches before their results are fetched: processes that share a GPU take turns; each should be worth it."""
TOLERATED = 50
"""Launches that do not agree, after which a kernel is given up."""


@dataclass
class Part:
    """What one task found.

    Attributes:
        kernel: its kernel.
        known: a digest of each launch compared.
        drawn: launches drawn.
        left_out: launches drawn but not run, since they would have needed one more specialisation.
        geometries: digests of the layouts that they had.
        specialisations: those that were compared.
        elements, equal, bounded, open, worst: see :class:`~kvproof.harness.check.agreement.Agreement`.
        differences: what did not agree, at most a few.
        failed: how many launches did not agree.
        ir_seconds, device_seconds, seconds: times of the two sides and of the whole.
    """

    kernel: str
    known: set[bytes] = field(default_factory=set)
    drawn: int = 0
    left_out: int = 0
    geometries: set[str] = field(default_factory=set)
    specialisations: set[str] = field(default_factory=set)
    elements: int = 0
    equal: int = 0
    bounded: int = 0
    open: int = 0
    worst: float = 0.0
    differences: list[str] = field(default_factory=list)
    failed: int = 0
    ir_seconds: float = 0.0
    device_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        """How many different launches were compared."""
        return len(self.known)

    def add(self, other: Part) -> None:
        """Count another part of the same kernel too."""
        self.known |= other.known
        self.geometries |= other.geometries
        self.worst = max(self.worst, other.worst)
        self.differences += other.differences
        self.specialisations |= other.specialisations
        for name in ("drawn", "left_out", "elements", "equal", "bounded", "open", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("ir_seconds", "device_seconds", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def drawn(kernel: str, seed: int, count: int) -> Iterator[tuple[bytes, Any]]:
    """Cases of a kernel with a digest of each, no two the same; a seed draws the same ones."""
    import hypothesis
    from hypothesis import HealthCheck, Phase, given, settings

    from kvproof.properties.strategies.cases import all_kernel_properties

    cases: list[Any] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(all_kernel_properties()[kernel].cases(None))
    def collect(case: Any) -> None:
        cases.append(case)

    collect()
    known: set[bytes] = set()
    for case in cases:
        key = _digest(case)
        if key not in known:
            known.add(key)
            yield key, case


def _digest(case: Any) -> bytes:
    from kvproof.models.contract import TensorValue

    whole = hashlib.sha256(str(case.shaped_for).encode())
    for name, value in case.values.items():
        if isinstance(value, TensorValue):
            whole.update(f"{name} {value.dtype} {value.shape} {value.strides} {value.offset}".encode())
            whole.update(value.storage.tobytes())
        else:
            whole.update(f"{name} {value}".encode())
    return whole.digest()[:12]


def geometry_of(contract: Any, case: Any) -> str:
    """The layout of a case: its row space or scratch plan where it has one, else element types, widths and strides
    of its tensors, extents of those that are written, and every argument that is no number."""
    from kvproof.models.contract import TensorValue, bind

    if "geometry" in case.layout:
        return str(case.layout["geometry"])
    if contract.name == "split_attention":
        from kvproof.kernels.split_attention.contract import plan

        found = plan(bind(contract, case.values))
        return f"{found.chunk} {found.dims} {sorted(found.layout.items())}"
    written = {tensor.name for tensor in contract.tensors if tensor.role != "in"}
    parts = [
        f"{name} {value.dtype} {value.shape[name not in written :]} {value.strides}"
        if isinstance(value, TensorValue)
        else f"{name} {'' if isinstance(value, (int, float)) else value}"
        for name, value in case.values.items()
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def scout(kernel_name: str, seed: int) -> Counter[frozenset[str]]:
    """One task: how often drawn launches need which specialisations."""
    warnings.simplefilter("ignore")
    from kvproof.harness.devices.ir import forms_of
    from kvproof.kernels.registry import all_kernels
    from kvproof.kernels.shapes import shaped_for

    kernel = all_kernels()[kernel_name]
    found: Counter[frozenset[str]] = Counter()
    for _, case in drawn(kernel_name, seed, DRAWS):
        with shaped_for(case.shaped_for):
            found[forms_of(kernel, case.values)] += 1
    return found


def commonest(seen: Counter[frozenset[str]], most: int) -> frozenset[str]:
    """At most so many specialisations that as many of the launches as possible need nothing else."""
    chosen: set[str] = set()
    for forms, _ in sorted(seen.items(), key=lambda item: (-item[1], sorted(item[0]))):
        if len(chosen | forms) <= most:
            chosen |= forms
    return frozenset(chosen)


def compare(
    kernel_name: str, device_name: str, number: int, seed: int, allowed: frozenset[str], deadline: float
) -> Part:
    """One task: draw, run on the executor, run on the device, compare.

    Args:
        kernel_name, device_name: what runs where.
        number: of the task.
        seed: of what is drawn.
        allowed: specialisations that a launch may need.
        deadline: ``time.time()`` after which nothing is begun.
    """
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    from kvproof.harness.devices.ir import IrDevice, forms_of
    from kvproof.kernels.registry import all_kernels
    from kvproof.kernels.shapes import shaped_for

    start = time.perf_counter()
    kernel = all_kernels()[kernel_name]
    part = Part(kernel_name)
    chosen: list[tuple[list[str], bytes, Any]] = []
    for key, case in drawn(kernel_name, seed, DRAWS):
        part.drawn += 1
        with shaped_for(case.shaped_for):
            forms = forms_of(kernel, case.values)
        if forms <= allowed:
            chosen.append((sorted(forms), key, case))
            part.specialisations |= forms
    part.left_out = part.drawn - len(chosen)
    # Tasks begin with different specialisations, so that each is compiled for the device once and not by all.
    chosen.sort(key=lambda item: item[:2])
    turn = number * len(chosen) // 8 % max(len(chosen), 1)
    cases = [(key, case) for _, key, case in chosen[turn:] + chosen[:turn]]
    device = _devices.setdefault(kernel_name, IrDevice())
    for at in range(0, len(cases), BURST):
        if time.time() > deadline or part.failed > TOLERATED:
            break
        _burst(kernel, device_name, device, cases[at : at + BURST], part)
    del cases, chosen
    gc.collect()
    part.seconds = time.perf_counter() - start
    return part


_devices: dict[str, Any] = {}
"""This process's executors by kernel, with what they compiled."""


def _burst(kernel: Any, device_name: str, ir: Any, cases: Sequence[tuple[bytes, Any]], part: Part) -> None:
    from kvproof.harness.check.agreement import agreement

    start = time.perf_counter()
    ones = [_run(ir, kernel, case) for _, case in cases]
    middle = time.perf_counter()
    part.ir_seconds += middle - start
    twos = _on_device(kernel, device_name, [case for _, case in cases])
    part.device_seconds += time.perf_counter() - middle
    for (key, case), one, two in zip(cases, ones, twos, strict=True):
        found = agreement(kernel.contract, case.values, one, two)
        part.known.add(key)
        part.geometries.add(geometry_of(kernel.contract, case))
        part.elements += found.elements
        part.equal += found.equal
        part.bounded += found.bounded
        part.open += found.open
        part.worst = max(part.worst, found.worst)
        if found.differences:
            part.failed += 1
            if len(part.differences) < 3:
                part.differences.append(f"{'; '.join(found.differences)} ({_short(case)})")


def _run(device: Any, kernel: Any, case: Any) -> Any:
    from kvproof.kernels.shapes import shaped_for

    with shaped_for(case.shaped_for):
        return device.run(kernel, case.values)


def _short(case: Any) -> str:
    from kvproof.models.contract import TensorValue

    words = [
        f"{name} {value.dtype}{list(value.shape)}" if isinstance(value, TensorValue) else f"{name}={value}"
        for name, value in case.values.items()
    ]
    return ", ".join(words)[:400]


def _on_device(kernel: Any, device_name: str, cases: Sequence[Any]) -> list[Any]:
    if device_name not in {"cuda", "hip"}:
        from kvproof.harness.devices.registry import find_device

        device = find_device(device_name)
        return [_run(device, kernel, case) for case in cases]
    from kvproof.harness.devices.torch_values import TorchArguments
    from kvproof.kernels.shapes import shaped_for

    # Launched one after the other and fetched afterwards: nothing waits for the GPU in between.
    launched = [TorchArguments(case.values, "cuda") for case in cases]
    for one, case in zip(launched, cases, strict=True):
        with shaped_for(case.shaped_for):
            kernel.load()(**one.arguments)
    return [one.results() for one in launched]


class Subject:
    """A kernel in a campaign: what is known of it, and how much of it is being worked on."""

    def __init__(self, name: str, wanted: int) -> None:
        self.part = Part(name)
        self.wanted = wanted
        self.seen: Counter[frozenset[str]] = Counter()
        self.scouts = SCOUTS
        self.allowed: frozenset[str] = frozenset()
        self.tasks = 0
        self.open = 0
        self.printed = False

    @property
    def expected(self) -> float:
        """Launches that a task compares, as far as is known."""
        finished = self.tasks - self.open
        if finished and self.part.cases:
            return self.part.cases / finished
        of_these = sum(count for forms, count in self.seen.items() if forms <= self.allowed)
        return max(DRAWS * of_these / max(sum(self.seen.values()), 1), 1)

    def work(self) -> float:
        """Seconds of work that nobody has begun; 0 if there is none."""
        missing = self.wanted - self.part.cases - self.open * self.expected
        if self.scouts or missing <= 0 or self.part.failed > TOLERATED:
            return 0
        finished = max(self.tasks - self.open, 1)
        return missing / self.expected * (self.part.seconds / finished or 10)

    def done(self) -> bool:
        """Whether nothing is left to do, and nothing under way."""
        return not self.scouts and not self.open and not self.work()


def campaign(
    names: Sequence[str], device: str, cases: int, seed: int, jobs: int, most: int, seconds: float
) -> dict[str, Part]:
    """Compare kernels on all cores; prints a line a kernel."""
    deadline = time.time() + seconds
    subjects = {name: Subject(name, cases) for name in names}
    # Started anew: a GPU's context does not survive a fork.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        # What is drawn by a scout is not compared: its seeds are others than those of the tasks.
        waiting: dict[Future[Any], Subject] = {
            pool.submit(scout, name, seed + 900_000 + at): subject
            for at in range(SCOUTS)
            for name, subject in subjects.items()
        }
        while waiting:
            ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                _take(waiting.pop(future), future, most)
            while len(waiting) < jobs + 2 and time.time() < deadline:
                subject = max(subjects.values(), key=Subject.work)
                if not subject.work():
                    break
                number, name = subject.tasks, subject.part.kernel
                task = pool.submit(compare, name, device, number, seed + number, subject.allowed, deadline)
                waiting[task] = subject
                subject.tasks += 1
                subject.open += 1
            for subject in subjects.values():
                if not subject.printed and (subject.done() or not waiting):
                    subject.printed = True
                    print(_line(subject.part, cases), flush=True)
    return {name: subject.part for name, subject in subjects.items()}


def _take(subject: Subject, future: Future[Any], most: int) -> None:
    """Count what a task found. One that a lost GPU ended ends no other."""
    scouting = subject.scouts > 0
    if scouting:
        subject.scouts -= 1
    else:
        subject.open -= 1
    try:
        result = future.result()
    except Exception as error:
        subject.part.failed += 1 + TOLERATED // (1 if scouting else 3)
        subject.part.differences.append(f"did not run: {error!r}"[:600])
        return
    if scouting:
        subject.seen += result
        subject.allowed = commonest(subject.seen, most)
    else:
        subject.part.add(result)


def agreed(part: Part, cases: int) -> bool:
    """Whether a kernel agreed on as much as was asked for."""
    return not part.failed and part.cases >= cases and len(part.geometries) >= min(GEOMETRIES, cases // 4)


def _line(part: Part, cases: int) -> str:
    kind = "bit-exact" if part.equal == part.elements else f"worst {part.worst:.3f} bounds apart"
    rate = part.cases / part.ir_seconds if part.ir_seconds else 0
    words = "agrees" if agreed(part, cases) else "DIFFERS" if part.failed else "SHORT"
    more = "".join(f"\n    {text}" for text in part.differences[:3])
    return (
        f"{part.kernel:21} {words:8} {part.cases:6} cases {len(part.geometries):5} geometries {kind:24} "
        f"{part.elements - part.equal:9} of {part.elements:12} elements differ ({part.open} open), "
        f"ir {rate:5.0f}/s, {len(part.specialisations)} forms, {part.left_out} of {part.drawn} left out, "
        f"{part.seconds:.0f} s ({part.ir_seconds:.0f} ir, {part.device_seconds:.0f} device){more}"
    )


def main() -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kernels", nargs="*", help="kernels by name; all by default")
    parser.add_argument("--device", default="cuda", choices=["cuda", "hip", "interpret"])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--forms", type=int, default=40, help="specialisations of a kernel at most")
    parser.add_argument("--seconds", type=float, default=3600, help="begin nothing after so long")
    parser.add_argument("--json", type=Path, help="also write the results to a file")
    given = parser.parse_args()
    from kvproof.harness.devices.registry import find_device
    from kvproof.kernels.registry import all_kernels
    from kvproof.reports import environment
    from kvproof.reports.store import write_atomically

    known = [name for name, kernel in all_kernels().items() if kernel.triton]
    unknown = set(given.kernels) - set(known)
    if unknown:
        parser.error(f"no kernel {sorted(unknown)[0]!r}; known: {', '.join(known)}")
    found = find_device(given.device).probe()
    if not found.available:
        print(f"{given.device} is not here: {found.detail}")
        return 1
    print(f"ir against {given.device}: {found.detail}; {given.cases} cases a kernel, {given.jobs} processes")
    start = time.perf_counter()
    parts = campaign(
        given.kernels or known, given.device, given.cases, given.seed, given.jobs, given.forms, given.seconds
    )
    good = sum(agreed(part, given.cases) for part in parts.values())
    total = sum(part.cases for part in parts.values())
    print(f"{good} of {len(parts)} kernels agree; {total} cases in {time.perf_counter() - start:.0f} s")
    if given.json:
        results = {
            name: {
                **{key: value for key, value in vars(part).items() if key != "known"},
                "cases": part.cases,
                "geometries": len(part.geometries),
                "specialisations": len(part.specialisations),
            }
            for name, part in parts.items()
        }
        data = {
            "device": found.detail,
            "asked": given.cases,
            "seed": given.seed,
            "versions": environment.versions(),
            "kernels": results,
        }
        write_atomically(given.json, json.dumps(data, indent=1) + "\n")
    return 0 if good == len(parts) else 1


if __name__ == "__main__":
    sys.exit(main())
