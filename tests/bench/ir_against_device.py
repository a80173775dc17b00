"""The executor of compiled IR against a GPU: drawn launches of every kernel, every buffer compared whole.

Run ``python tests/bench/ir_against_device.py --device cuda --cases 10000``. Cases are drawn beforehand; then the
executor runs them, then the device, then all elements of all buffers are compared bit by bit. Floats that a
contract gives a bound for may differ, as long as both sides are within it. A worker takes a part of one kernel's
cases.

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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GEOMETRIES = 24
BURST = 32
"""Launches before their results are fetched: processes that share a GPU take turns; each should be worth it."""

PARTS: Mapping[str, int] = {
    "split_attention": 8,
    "prefill_indices": 4,
    "attention_prefill": 4,
    "attention_decode": 4,
    "fused_compress": 12,
}
"""Tasks that a kernel's cases are split into; 2 of a kernel that is not named here."""


@dataclass
class Part:
    """What one task found.

    Attributes:
        kernel: its kernel.
        cases: launches compared.
        left_out: launches drawn but not run, since they would have needed one more specialisation.
        geometries: digests of the layouts that they had.
        specialisations: compiled forms.
        elements, equal, bounded, open, worst: see :class:`~kvproof.harness.check.agreement.Agreement`.
        differences: what did not agree, at most a few.
        failed: how many launches did not agree.
        ir_seconds, device_seconds, seconds: times of the two sides and of the whole.
    """

    kernel: str
    cases: int = 0
    left_out: int = 0
    geometries: set[str] = field(default_factory=set)
    specialisations: int = 0
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

    def add(self, other: Part) -> None:
        """Count another part of the same kernel too."""
        self.geometries |= other.geometries
        self.worst = max(self.worst, other.worst)
        self.differences += other.differences
        self.specialisations = max(self.specialisations, other.specialisations)
        for name in ("cases", "left_out", "elements", "equal", "bounded", "open", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("ir_seconds", "device_seconds", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def drawn(kernel: str, seed: int, count: int) -> Iterator[Any]:
    """Cases of a kernel, no two the same; a seed draws the same ones."""
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
            yield case


def _digest(case: Any) -> bytes:
    from kvproof.models.contract import TensorValue

    whole = hashlib.sha256()
    for name, value in case.values.items():
        if isinstance(value, TensorValue):
            whole.update(f"{name} {value.dtype} {value.shape} {value.strides} {value.offset}".encode())
            whole.update(value.storage.tobytes())
        else:
            whole.update(f"{name} {value}".encode())
    return whole.digest()


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


def compare(kernel_name: str, device_name: str, seed: int, count: int, most: int, deadline: float) -> Part:
    """One task: draw, run on the executor, run on the device, compare.

    Args:
        kernel_name, device_name: what runs where.
        seed: of what is drawn.
        count: launches to compare.
        most: specialisations to compile.
        deadline: ``time.time()`` after which nothing is begun.
    """
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    from kvproof.kernels.registry import all_kernels

    start = time.perf_counter()
    kernel = all_kernels()[kernel_name]
    part = Part(kernel_name)
    rounds = 0
    seen = _Ir(kernel, most)
    while part.cases < count and rounds < 8 and time.time() < deadline:
        wanted = count - part.cases
        # Some of what is drawn repeats, or is left out.
        cases = list(drawn(kernel_name, seed * 100 + rounds, wanted + wanted // 8 + 8))
        rounds += 1
        for at in range(0, len(cases), BURST):
            if part.cases >= count or time.time() > deadline:
                break
            _burst(kernel, device_name, seen, cases[at : at + BURST][: count - part.cases], part)
            if part.failed > 50:
                return part
        del cases
        gc.collect()
    part.specialisations = len(seen.allowed)
    part.seconds = time.perf_counter() - start
    return part


class _Ir:
    """The executor, which leaves out what needs a specialisation that its first cases did not."""

    def __init__(self, kernel: Any, most: int) -> None:
        from kvproof.harness.devices.ir import IrDevice

        self.kernel = kernel
        self.device = IrDevice()
        self.allowed: set[Any] = set()
        # All tasks of a kernel look at the same cases first, so that each form is compiled for all of them.
        for case in drawn(kernel.name, 0, 4 * most):
            if len(self.allowed) < most:
                self.device.run(kernel, case.values)
                self.allowed |= self.device.used()

    def run(self, case: Any) -> Any:
        """The result; None if the case needs another specialisation."""
        result = self.device.run(self.kernel, case.values)
        return result if self.device.used() <= self.allowed else None


def _burst(kernel: Any, device_name: str, ir: _Ir, cases: Sequence[Any], part: Part) -> None:
    from kvproof.harness.check.agreement import agreement

    start = time.perf_counter()
    ran = [(case, ir.run(case)) for case in cases]
    middle = time.perf_counter()
    part.ir_seconds += middle - start
    part.left_out += sum(result is None for _, result in ran)
    ran = [(case, result) for case, result in ran if result is not None]
    others = _on_device(kernel, device_name, [case for case, _ in ran])
    part.device_seconds += time.perf_counter() - middle
    for (case, one), two in zip(ran, others, strict=True):
        found = agreement(kernel.contract, case.values, one, two)
        part.cases += 1
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
        return [device.run(kernel, case.values) for case in cases]
    from kvproof.harness.devices.torch_values import TorchArguments

    # Launched one after the other and fetched afterwards: nothing waits for the GPU in between.
    launched = [TorchArguments(case.values, "cuda") for case in cases]
    for one in launched:
        kernel.load()(**one.arguments)
    return [one.results() for one in launched]


def campaign(
    names: Sequence[str], device: str, cases: int, seed: int, jobs: int, most: int, seconds: float
) -> dict[str, Part]:
    """Compare kernels on all cores; prints a line a kernel."""
    deadline = time.time() + seconds
    found = {name: Part(name) for name in names}
    open_parts: dict[str, int] = {}
    tasks: list[tuple[str, int, int]] = []
    for name in sorted(names, key=lambda n: -PARTS.get(n, 2)):
        parts = min(PARTS.get(name, 2), max(cases // 100, 1))
        open_parts[name] = parts
        tasks += [(name, p, cases // parts + (p < cases % parts)) for p in range(parts)]
    # Started anew: a GPU's context does not survive a fork.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting: dict[Future[Part], str] = {
            pool.submit(compare, name, device, seed + 1000 * p, count, most, deadline): name
            for name, p, count in tasks
        }
        for future in as_completed(waiting):
            name = waiting[future]
            try:
                found[name].add(future.result())
            except Exception as error:  # a lost GPU ends one task, not the others
                found[name].failed += 1
                found[name].differences.append(f"did not run: {error!r}"[:600])
            open_parts[name] -= 1
            if not open_parts[name]:
                print(_line(found[name], cases), flush=True)
    return found


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
        f"ir {rate:5.0f}/s, {part.specialisations} forms, {part.left_out} left out, {part.seconds:.0f} s{more}"
    )


def main() -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kernels", nargs="*", help="kernels by name; all by default")
    parser.add_argument("--device", default="cuda", choices=["cuda", "hip", "interpret"])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--forms", type=int, default=24, help="specialisations of a kernel at most")
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
        results = {name: {**vars(part), "geometries": len(part.geometries)} for name, part in parts.items()}
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
