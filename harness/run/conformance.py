"""Holding a project's own function to a contract, from that project's tests. See :mod:`kvproof.conformance`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvproof.harness.devices.base import Availability, Device
from kvproof.harness.devices.registry import find_device
from kvproof.harness.ir.compile import CompileError, compile_ttir
from kvproof.harness.ir.offsets import narrow_offsets
from kvproof.harness.ir.reader import read_module
from kvproof.harness.ir.reader.cursor import ReadError
from kvproof.harness.run.targets import passed
from kvproof.harness.run.trial import Trial, find_causes
from kvproof.harness.targets.contracts import all_contracts, all_properties
from kvproof.harness.targets.guards import guarded, unguarded
from kvproof.harness.targets.launches import Recording, recording
from kvproof.harness.targets.loading import Bound, NotOffered, bound_to, structured
from kvproof.harness.targets.profile import Adapter, Entry, Narrowing
from kvproof.harness.targets.session import TargetKernel
from kvproof.models.contract import TensorValue
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.reports.verdict import Verdict

WIDE = ("pool", "kv_state", "score_state", "cache", "unified_kv", "k_cache")
"""Tensors of serving size: an element offset into one does not fit 32 bits."""


class ConformanceError(AssertionError):
    """A function does not keep its contract. The message has every cause with its smallest input."""


class NotCheckedError(RuntimeError):
    """Nothing can be said of a function: it does not fit its contract's arguments, or too few cases ran."""


@dataclass(frozen=True)
class Conformance:
    """What a check that passed rests on.

    Attributes:
        contract: its name.
        device: where it ran.
        cases: cases that ran.
        verdict: PASS, with its bounds and what no case had.
    """

    contract: str
    device: str
    cases: int
    verdict: Verdict


class _Types:
    """The project's own types, given as classes."""

    def __init__(self, types: Mapping[str, Callable[..., Any]]) -> None:
        self.types = types

    def convert(self, kind: str, value: Any) -> Any:
        """A structured argument as the project's type; as it is where none is given."""
        return structured(self.types[kind], kind, value) if kind in self.types else value


class _Guarded:
    """A device in this process; on a GPU every storage lies between guard elements."""

    def __init__(self, device: Device) -> None:
        self.device, self.name = device, device.name

    def probe(self) -> Availability:
        """Whether the device is here."""
        return self.device.probe()

    def run(self, kernel: Any, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        """Run one launch."""
        if self.name in {"ir", "interpret"}:
            return self.device.run(kernel, values)
        inside = guarded(values)
        return unguarded(values, inside, self.device.run(kernel, inside))


def check(
    function: Callable[..., Any],
    contract: str,
    *,
    rename: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    drop: Sequence[str] = (),
    returns: Sequence[str] = (),
    types: Mapping[str, Callable[..., Any]] | None = None,
    adapter: Adapter | None = None,
    narrowings: Sequence[Narrowing] = (),
    tolerated: bool = True,
    device: str = "auto",
    config: str = "",
    cases: int = 200,
    seconds: float = 20.0,
    seed: int = 0,
    wide: Sequence[str] = WIDE,
    causes: int = 3,
    shrink_seconds: float = 20.0,
) -> Conformance:
    """Hold a function to a contract on drawn cases, and its compiled kernels to 64-bit offsets.

    Args:
        function: the function. It takes the contract's arguments by name, as torch tensors.
        contract: name of the contract ("window_write"), as in the README's table of kernels.
        rename: contract's argument -> the function's, where they differ.
        constants: further arguments, always the same.
        drop: contract's arguments that it does not take, and need not.
        returns: contract's outputs that it returns instead of filling, in order.
        types: name of a models/ type ("WindowParams", "UnifiedPoolGeometry") -> the project's, which is called
            with the same fields by name; without it the function gets kvproof's own object.
        adapter: ``adapter(call, given, types)``, for what a call by name cannot express.
        narrowings: input that the contract allows and this function does not take; such cases are left out and
            named in the result.
        tolerated: also check what the contract tolerates: stale ids, sentinels, padding.
        device: "cuda", "hip", "ir" (compiled IR, no GPU needed), "interpret", or "auto": a GPU if there is one,
            else "ir".
        config: name of a real configuration whose layout the cases have; by default any layout is drawn.
        cases, seconds: when to stop, whichever comes first.
        seed: seed of everything drawn.
        wide: tensors into which an element offset computed in 32 bits is a fault.
        causes: stop after so many causes.
        shrink_seconds: time for making a failing case small.

    Returns:
        What the PASS rests on.

    Raises:
        ConformanceError: the function does not keep the contract.
        NotCheckedError: its arguments do not fit, the device is absent, or too few cases ran.
        ValueError: no such contract or configuration.
    """
    kernels, properties = all_contracts(), all_properties()
    if contract not in properties:
        raise ValueError(f"contract is {contract!r}; allowed: {', '.join(properties)}")
    if config and config not in CONFIGS:
        raise ValueError(f"config is {config!r}; allowed: {', '.join(CONFIGS)}")
    if not callable(function):
        raise NotCheckedError(f"function is {function!r}; allowed: something that can be called")
    entry = Entry(
        contract,
        getattr(function, "__name__", "function"),
        rename=rename or {},
        constants=constants or {},
        drop=tuple(drop),
        returns=tuple(returns),
        passes=() if adapter is not None else None,
        adapter=adapter,
        narrowings=tuple(narrowings),
    )
    bound = _bound(function, entry, contract)
    where = _Guarded(_device(device))
    kernel: Any = TargetKernel(contract, kernels[contract].contract, bound, _Types(types or {}))
    subject = CONFIGS[config] if config else None
    trial = Trial(kernel, where, properties[contract], subject, entry, tolerated=tolerated)
    with recording() as launches:
        hunt = find_causes(
            trial,
            budget_seconds=seconds,
            seed=seed,
            case_target=cases,
            most_causes=causes,
            shrink_seconds=shrink_seconds,
        )
    faults = [
        f"{failure.message}\n    smallest input: {_input(failure.case)}\n    in {trial.known[failure.cause]} cases"
        for failure in hunt.failures
    ]
    narrow, untold = _narrow(launches, wide)
    faults += narrow
    if faults:
        head = f"{entry.function} does not keep the contract {contract!r} on {where.name}:"
        raise ConformanceError("\n".join([head, *(f"  {n}. {fault}" for n, fault in enumerate(faults, 1))]))
    if untold:
        raise NotCheckedError(f"{entry.function}, contract {contract!r}: {'; '.join(untold)}")
    verdict = passed(trial.ran, hunt.events, properties[contract].needs, trial)
    if not verdict.passed:
        raise NotCheckedError(
            f"{entry.function}, contract {contract!r}: {verdict.reason}; give more seconds or cases"
        )
    return Conformance(contract, where.name, trial.ran, verdict)


def _device(name: str) -> Device:
    found = find_device("ir") if name == "auto" and not find_device().name.startswith(("cuda", "hip")) else None
    found = found or find_device(name)
    state = found.probe()
    if not state.available:
        raise NotCheckedError(f"device {found.name} is not here: {state.detail}")
    return found


def _bound(function: Callable[..., Any], entry: Entry, contract: str) -> Bound:
    if entry.adapter is not None:
        return Bound(entry, function, {})
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise NotCheckedError(
            f"{entry.function} tells no signature: {error}; allowed: a Python function"
        ) from None
    try:
        return bound_to(function, entry, all_contracts()[contract].contract)
    except NotOffered as reason:
        raise NotCheckedError(f"{reason} (signature: {signature})") from None


def _narrow(launches: Recording, wide: Sequence[str]) -> tuple[list[str], list[str]]:
    """Offsets in 32 bits into tensors of serving size, in every specialisation that this check has launched.

    Returns:
        The faults, each place once, and the kernels of which nothing can be told, with the reason.
    """
    found: dict[tuple[str, str, str], str] = {}
    untold = [f"the offsets of {name} cannot be told: {why}" for name, why in launches.problems.items()]
    for function, signature in launches.kernels.values():
        names = {function.__name__: tuple(n for n in function.arg_names if n in signature.types)}
        try:
            offsets = narrow_offsets(read_module(compile_ttir(function, signature).text), names)
        except (CompileError, ReadError) as error:
            untold.append(f"the offsets of {function.__name__} cannot be told: {error}")
            continue
        for narrow in offsets:
            if any(narrow.argument in {tensor, f"{tensor}_ptr"} for tensor in wide):
                place = f"{narrow.places[0].file}:{narrow.places[0].line}" if narrow.places else "an unknown place"
                found.setdefault(
                    (narrow.access, narrow.argument, place),
                    f"offset in 32 bits: the {narrow.access} through {narrow.argument} at {place} multiplies "
                    f"{narrow.factors} before widening; it wraps in a pool of serving size",
                )
    return list(found.values()), list(dict.fromkeys(untold))


def _input(case: Mapping[str, Any]) -> str:
    """A case in one line: small tensors by their elements, large ones by their shape."""
    parts: list[str] = []
    for name, value in case["values"].items():
        if isinstance(value, dict) and "tensor" in value:
            bits = value.get("bits")
            shown = bits if bits is not None and len(bits) <= 16 else f"shape {value['shape']}"
            parts.append(f"{name} {value['tensor']} {shown}")
        elif isinstance(value, dict):
            parts.append(f"{name} {json.dumps({k: v for k, v in value.items() if k != 'type'})}")
        else:
            parts.append(f"{name} {value}")
    return ", ".join(parts)
