"""The benchmark suite over one tree's kernels, in a process of its own: ``python -m kvproof.harness.bench.suite``.

Reads a JSON object from standard input (:class:`Request`) and writes one to the file that it names: times, counts,
and what has no number with the reason. Whose kernels these are is decided by where kvproof is imported from.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvproof.harness.bench.measure import CallSampler, Measured, Plan, measure
from kvproof.kernels.registry import Kernel, all_kernels, resolve
from kvproof.models.contract import TensorValue
from kvproof.reports.history.run import Counts, Missing, Times
from kvproof.reports.store import write_atomically
from kvproof.reports.verdict import Status, Verdict

CHECKED = 2**30
"""Bytes at most of a case that is checked."""

WORKED = 2**32
"""Multiplications and additions of such a case at most, where there is no GPU."""

COPY, MATRIX = "copy bytes a second", "matrix operations a second"
"""Ceilings of a machine, by which a launch's bytes and operations have a least time."""


@dataclass(frozen=True)
class Request:
    """What is to be measured.

    Attributes:
        kind: "offline", "cpu" or "gpu".
        out: file for the answer.
        target: as ``TargetSpec.to_json`` writes it; empty for the kernels of the tree that is imported.
        kernels: only these; all if empty.
        targets: GPUs to compile for.
        cases: cases a kernel at most on a GPU; 0 for all.
        check_seconds: for checking one kernel before it is measured; 0 leaves it out, and every number says so.
        one_case: check the smallest case that is timed only, instead of drawn ones; a foreign function always is.
        kept: folder for listings of binaries.
        seconds: no kernel is begun after so long; 0 for no limit.
        ceilings: of the GPU, by :data:`COPY` and :data:`MATRIX`, if they are known; measured if empty.
    """

    kind: str
    out: str
    target: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kernels: Sequence[str] = ()
    targets: Sequence[str] = ("cuda:90", "hip:gfx942")
    cases: int = 0
    check_seconds: float = 20.0
    one_case: bool = False
    kept: str = ""
    seconds: float = 0.0
    ceilings: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass
class Found:
    """What was measured so far; ``ceilings`` are the GPU's."""

    times: list[Times] = field(default_factory=list[Times])
    counts: list[Counts] = field(default_factory=list[Counts])
    missing: list[Missing] = field(default_factory=list[Missing])
    ceilings: dict[str, float] = field(default_factory=dict[str, float])

    def lacks(self, name: str, verdict: Verdict) -> None:
        """No number for this series."""
        self.missing.append(Missing(name, str(verdict.status), verdict.reason[:300]))

    def fails(self, name: str, error: Exception) -> None:
        """No number for this series, since measuring it failed."""
        self.lacks(name, Verdict(Status.UNKNOWN, f"{type(error).__name__}: {error}"))


def run(request: Request) -> Found:
    """Everything that the request asks for."""
    found, begun = Found(), time.monotonic()
    if request.kind == "cpu":
        _cpu(found, request)
        return found
    if request.kind == "gpu":
        found.ceilings = dict(request.ceilings) or _ceilings()
    for kernel, reason in _offered(request):
        if request.kernels and kernel.name not in request.kernels:
            continue
        if reason:
            found.lacks(kernel.name, Verdict(Status.NOT_RUN, reason))
            continue
        if request.kind == "offline" and not kernel.triton:
            continue
        if request.seconds and time.monotonic() - begun > request.seconds:
            found.lacks(kernel.name, Verdict(Status.NOT_RUN, f"{request.seconds:.0f} s were spent before it"))
            continue
        verdict, result = _checked(kernel, request)
        if verdict.status is Status.FAIL:
            # Of something that is wrong, how fast it is says nothing.
            found.lacks(kernel.name, Verdict(Status.FAIL, f"correctness is red: {verdict.reason}"))
            continue
        if result:
            found.counts.append(Counts(kernel.name, "fuzz", result, check=str(verdict.status)))
        if request.kind == "gpu":
            _gpu(found, kernel, str(verdict.status), request)
        else:
            _offline(found, kernel, str(verdict.status), request)
    return found


def _offered(request: Request) -> Iterator[tuple[Kernel, str]]:
    """Each kernel as the target offers it, or why it does not."""
    if not request.target:
        yield from ((kernel, "") for kernel in all_kernels().values())
        return
    from kvproof.harness.targets.session import Session  # noqa: PLC0415  (absent in older trees)

    session = Session(request.target, "cuda" if request.kind == "gpu" else "ir")
    for name, kernel in all_kernels().items():
        if name not in session.kernels:
            yield kernel, session.reasons.get(name, "not offered")
            continue
        yield _Foreign(kernel, session.kernels[name]), ""


class _Foreign(Kernel):
    """A target's function under the name, contract and cases of the kernel of ours that it is held to."""

    def __init__(self, ours: Kernel, theirs: Any) -> None:
        super().__init__(ours.name, ours.contract, ours.launcher, ours.triton, ours.cases, ours.summary)
        object.__setattr__(self, "theirs", theirs)

    def load(self) -> Callable[..., Any]:
        """The target's function."""
        return vars(self)["theirs"].load()


def _checked(kernel: Kernel, request: Request) -> tuple[Verdict, dict[str, int]]:
    """Whether the kernel does what its contract says, and how many cases and events that took."""
    if not request.check_seconds:
        return Verdict(Status.NOT_RUN, "this run was told not to check"), {}
    try:
        from kvproof.harness.devices.registry import find_device  # noqa: PLC0415  (needs torch)

        device = find_device("cuda" if request.kind == "gpu" else "ir")
        if request.one_case or isinstance(kernel, _Foreign):
            return _agrees(kernel, device), {}
        from kvproof.harness.run.fuzz import fuzz_kernel  # noqa: PLC0415  (needs hypothesis)

        result = fuzz_kernel(kernel, device, budget_seconds=request.check_seconds, until_needs=True)
    except Exception as error:
        return Verdict(Status.UNKNOWN, f"could not be checked: {type(error).__name__}: {error}"), {}
    return result.verdict, {"cases": result.cases, **{f"event {k}": v for k, v in result.events.items()}}


def _agrees(kernel: Kernel, device: Any) -> Verdict:
    """Whether a function changes what its contract says, on the smallest case that is timed."""
    from kvproof.harness.check.differential import CaseFailed, check_case  # noqa: PLC0415
    from kvproof.properties.strategies.cases import Case, all_kernel_properties  # noqa: PLC0415

    cases = resolve(kernel.cases)()
    case = cases[next(iter(cases))]
    values, work = case.values, getattr(case, "operations", 0)
    size = sum(v.storage.nbytes for v in values.values() if isinstance(v, TensorValue))
    if size > CHECKED:
        return Verdict(Status.NOT_RUN, f"the smallest case has {size:,} bytes; at most {CHECKED:,} are checked")
    if device.name == "ir" and work > WORKED:
        reason = f"the smallest case has {work:,} operations; at most {WORKED:,} are done without a GPU"
        return Verdict(Status.NOT_RUN, reason)
    try:
        check_case(kernel, device, Case(values), all_kernel_properties()[kernel.name].explain)
    except CaseFailed as failure:
        return Verdict(Status.FAIL, f"{failure.kind}: {failure}")
    return Verdict(Status.PASS, bounds=("one case",))


def _offline(found: Found, kernel: Kernel, check: str, request: Request) -> None:
    from kvproof.harness.bench.offline import (  # noqa: PLC0415  (needs torch)
        chosen,
        compile_launch,
        counts,
        fingerprint,
        launches,
        on_host,
    )
    from kvproof.harness.ir.target import parse_target  # noqa: PLC0415

    kept = Path(request.kept) if request.kept else None
    cases = resolve(kernel.cases)()
    for name in chosen(list(cases)):
        for text in request.targets:
            target, series = parse_target(text), f"{kernel.name}/{name}"
            try:
                values = cases[name].values
                made = launches(kernel.load(), on_host(values), target)
                if not made:
                    found.lacks(f"{series} {text}", Verdict(Status.NOT_RUN, "it launches no Triton kernel"))
                seen: set[str] = set()
                for launch in made:
                    label = series if len({one.name for one in made}) == 1 else f"{series}/{launch.name}"
                    if label not in seen:
                        seen.add(label)
                        measured = counts(compile_launch(launch, target), target, kept)
                        found.counts.append(Counts(label, text, measured, fingerprint(values), check))
            except Exception as error:
                found.fails(f"{series} {text}", error)
    gc.collect()


def _gpu(found: Found, kernel: Kernel, check: str, request: Request) -> None:
    import torch  # noqa: PLC0415

    from kvproof.harness.bench.clocks import gpu_clock  # noqa: PLC0415
    from kvproof.harness.bench.gpu_samples import GraphSampler, flush_buffer  # noqa: PLC0415
    from kvproof.harness.bench.inputs import on_device  # noqa: PLC0415
    from kvproof.harness.bench.offline import fingerprint  # noqa: PLC0415

    clock, flush = gpu_clock(), flush_buffer()
    cases = resolve(kernel.cases)()
    for name in _spread(list(cases), request.cases):
        series = f"{kernel.name}/{name}"
        try:
            case = cases[name]
            launcher = kernel.load()
            if not kernel.triton:
                arguments = on_device(kernel, case, "cpu")
                measured = measure(CallSampler(lambda f=launcher, a=arguments: f(**a)), Plan(seconds=1.0))
                mode = "host"
            else:
                inputs = [on_device(kernel, case, "cuda") for _ in range(2)]
                sampler = GraphSampler([lambda f=launcher, a=a: f(**a) for a in inputs], flush)
                measured, mode = measure(sampler, Plan(seconds=1.0), clock), sampler.mode
            bound = _bound(case, found.ceilings) if kernel.triton else None
            found.times.append(_times(series, measured, mode, fingerprint(case.values), check, bound))
        except Exception as error:
            found.fails(series, error)
        gc.collect()
        torch.cuda.empty_cache()


def _ceilings() -> dict[str, float]:
    """What the GPU that is here can do at best; empty if that cannot be measured."""
    import torch  # noqa: PLC0415

    from kvproof.harness.bench.ceilings import measure_machine  # noqa: PLC0415
    from kvproof.harness.bench.timing import GraphTimer  # noqa: PLC0415

    try:
        machine = measure_machine(GraphTimer(replays=20))
    except Exception as error:
        print(f"ceilings were not measured: {type(error).__name__}: {error}", file=sys.stderr)
        return {}
    finally:
        gc.collect()
        torch.cuda.empty_cache()
    return {COPY: machine.copy, MATRIX: machine.matrix}


def _bound(case: Any, ceilings: Mapping[str, float]) -> float | None:
    """Microseconds that a launch takes at least: the bytes that it must move, copied, or its operations done."""
    if not ceilings:
        return None
    # Cases of older trees declare bytes only.
    seconds = max(case.bytes_moved / ceilings[COPY], getattr(case, "operations", 0) / ceilings[MATRIX])
    return float(f"{seconds * 1e6:.6g}")


def _spread(names: Sequence[str], most: int) -> list[str]:
    """So many of the cases, from the first to the last."""
    if not most or len(names) <= most:
        return list(names)
    places = [round(i * (len(names) - 1) / max(most - 1, 1)) for i in range(most)]
    return [names[place] for place in dict.fromkeys(places)]


def _cpu(found: Found, request: Request) -> None:
    from kvproof.harness.bench.cpu_series import cpu_series  # noqa: PLC0415

    red: dict[str, Verdict] = {}
    for kernel in all_kernels().values():
        if not request.kernels or kernel.name in request.kernels:
            red[kernel.name], _ = _checked(kernel, request)
    for name, make in cpu_series().items():
        kernel = name.split(" ")[0]
        if request.kernels and kernel not in request.kernels:
            continue
        verdict = red.get(kernel, Verdict(Status.PASS))
        if verdict.status is Status.FAIL:
            found.lacks(name, Verdict(Status.FAIL, f"correctness is red: {verdict.reason}"))
            continue
        try:
            measured = measure(CallSampler(make()), Plan(batch=5, fewest=6, most=12, spread=0.02, seconds=2.0))
            found.times.append(_times(name, measured, "host", "", str(verdict.status)))
        except Exception as error:
            found.fails(name, error)


def _times(name: str, measured: Measured, mode: str, case: str, check: str, bound: float | None = None) -> Times:
    return Times(
        name,
        tuple(tuple(round(s, 4) for s in batch.samples) for batch in measured.batches),
        mode,
        case,
        check,
        measured.settled,
        tuple(batch.reading.mhz for batch in measured.batches),
        tuple(batch.reading.celsius for batch in measured.batches),
        bound,
    )


def main() -> None:
    """Do what standard input asks."""
    begun = time.monotonic()
    request = Request(**json.load(sys.stdin))
    found = run(request)
    lists = {"times": found.times, "counts": found.counts, "missing": found.missing}
    answer: dict[str, Any] = {key: [dataclasses.asdict(item) for item in value] for key, value in lists.items()}
    answer["ceilings"] = found.ceilings
    answer["seconds"] = round(time.monotonic() - begun, 1)
    write_atomically(Path(request.out), json.dumps(answer))


if __name__ == "__main__":
    main()
