"""The executor of compiled IR as a device: no GPU, all programs and lanes at once, every access checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvproof.harness.devices.base import AccessError, Availability, DeviceError
from kvproof.harness.devices.torch_values import TorchArguments
from kvproof.harness.ir.execute import Kind, Report
from kvproof.harness.ir.launch import Executor, Forms, tracking_empty
from kvproof.harness.ir.target import CUDA_90, Target
from kvproof.kernels.launch import launching_on
from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue


class IrDevice:
    """Runs each launch from the IR that Triton compiles for a GPU that need not be here.

    Integers wrap as on the GPU. Accesses are checked against each tensor's own view, so a gap between its
    rows is outside, which no other device sees.

    Args:
        target: the GPU that kernels are compiled for.
    """

    name = "ir"

    def __init__(self, target: Target = CUDA_90) -> None:
        self._executor = Executor(target)

    def probe(self) -> Availability:
        """Whether torch and triton are installed."""
        try:
            import torch  # noqa: PLC0415
            import triton  # noqa: PLC0415
        except Exception as error:
            return Availability(False, f"needs torch and triton: {error}")
        detail = f"TTIR of Triton {triton.__version__} for {self._executor.target}, torch {torch.__version__}"
        return Availability(True, detail)

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        """Run one launch.

        Raises:
            AccessError: an access outside a tensor, a collision, or a read of memory that nothing wrote.
            DeviceError: the launch failed otherwise.
        """
        launched = TorchArguments(values, "cpu")
        executor = self._executor
        executor.arguments(launched.shared())
        try:
            for name in _undefined(kernel, values):
                executor.undefined(launched.arguments[name])
            with launching_on(executor), tracking_empty(executor.undefined):
                kernel.load()(**launched.arguments)
            reports = executor.reports
        except Exception as error:
            raise DeviceError(f"{kernel.name} on ir: {error!r}") from error
        finally:
            executor.take()
        raise_first(reports)
        return launched.results()


def forms_of(kernel: Kernel, values: Mapping[str, Any]) -> frozenset[str]:
    """The specialisations that a launch needs; nothing is compiled, and no kernel runs.

    Raises:
        DeviceError: the launcher refuses the values.
    """
    forms = Forms()
    try:
        with launching_on(forms):
            kernel.load()(**TorchArguments(values, "cpu").arguments)
    except Exception as error:
        raise DeviceError(f"{kernel.name}: {error!r}") from error
    return frozenset(forms.seen)


def _undefined(kernel: Kernel, values: Mapping[str, Any]) -> Iterable[str]:
    """Outputs that hold nothing before the launch: of role "out", with a storage of their own."""
    inputs = {
        id(values[t.name].storage)
        for t in kernel.contract.tensors
        if t.role != "out" and isinstance(values[t.name], TensorValue)
    }
    for tensor in kernel.contract.tensors:
        value = values[tensor.name]
        if tensor.role == "out" and isinstance(value, TensorValue) and id(value.storage) not in inputs:
            yield tensor.name


def is_fault(report: Report) -> bool:
    """Whether a report means that the launch is wrong. Lanes of one program that agree on a value do no harm."""
    harmless = report.kind is Kind.COLLISION and report.same_value and len(report.programs) == 1
    return not harmless


def raise_first(reports: Iterable[Report]) -> None:
    """Raise for the first fault, if there is one.

    Raises:
        AccessError: of the kind that the report has.
        DeviceError: an assertion, or a loop without end.
    """
    for report in reports:
        if not is_fault(report):
            continue
        if report.kind in {Kind.ASSERTION, Kind.ENDLESS}:
            raise DeviceError(str(report))
        kind = "collision" if report.kind is Kind.COLLISION else str(report.kind)
        raise AccessError(kind, report.buffer, report.element, report.programs, str(report))
