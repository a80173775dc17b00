"""Launching on the executor: what ``kernel[grid](...)`` does on a GPU, for torch tensors in host memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.ir.compile import compile_ttir, jit_function, signature_of
from kvproof.harness.ir.execute import Executable, Report, Segment, Storage, execute, prepare
from kvproof.harness.ir.reader import read_module
from kvproof.harness.ir.target import CUDA_90, Target


class Executor:
    """A launch backend that runs kernels from their IR.

    Attributes:
        target: GPU that kernels are compiled for.
        reports: what the launches since the last :meth:`take` showed.
    """

    def __init__(self, target: Target = CUDA_90) -> None:
        self.target = target
        self.reports: list[Report] = []
        self._plans: dict[tuple[Any, ...], Executable] = {}
        self._storages: dict[int, Storage] = {}
        self._kept: list[Any] = []
        self._undefined: dict[int, Any] = {}

    def __call__(self, kernel: Any, grid: Any, *args: Any, **meta: Any) -> None:
        """Run one launch; the tensors change in place.

        Raises:
            CompileError: the kernel does not compile for the target.
            UnsupportedOperation: it holds an operation that the executor does not model.
        """
        signature, values = signature_of(kernel, args, meta)
        key = (id(jit_function(kernel)), signature.key)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = prepare(read_module(compile_ttir(kernel, signature, self.target).text))
        if callable(grid):
            grid = grid({**signature.constants, **values})
        x, y, z = (*grid, 1, 1)[:3]
        bound = {
            name: self.segment(name, value) if hasattr(value, "data_ptr") else value
            for name, value in values.items()
        }
        self.reports += execute(plan, (x, y, z), bound)

    def segment(self, name: str, tensor: Any) -> Segment:
        """What a pointer to the tensor's first element may touch: the tensor."""
        storage = tensor.untyped_storage()
        item = tensor.element_size()
        key = storage.data_ptr()
        known = self._storages.get(key)
        if known is None or known.data.size != storage.nbytes():
            data = storage_bytes(tensor)
            known = Storage(data, np.zeros(data.size, bool) if key in self._undefined else None)
            self._storages[key] = known
            # A storage's address identifies it only while something keeps it alive.
            self._kept.append(storage)
        return Segment(name, known, tensor.storage_offset() * item, item, tuple(tensor.shape), tensor.stride())

    def undefined(self, tensor: Any) -> None:
        """Take the tensor's storage for never written: reading it before a kernel wrote it is reported."""
        storage = tensor.untyped_storage()
        self._undefined[storage.data_ptr()] = storage

    def take(self) -> list[Report]:
        """The reports so far; forgets them and the tensors."""
        reports, self.reports = self.reports, []
        self._storages.clear()
        self._undefined.clear()
        self._kept.clear()
        return reports


def storage_bytes(tensor: Any) -> npt.NDArray[np.uint8]:
    """The bytes of the tensor's whole storage, shared with torch."""
    import torch  # noqa: PLC0415  (an optional package)

    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return flat.numpy()


@contextmanager
def tracking_empty(note: Callable[[Any], None]) -> Iterator[None]:
    """Call ``note`` with every tensor that torch allocates without filling it."""
    from torch.overrides import TorchFunctionMode  # noqa: PLC0415  (an optional package)

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if getattr(func, "__name__", "") in {"empty", "empty_like", "new_empty", "empty_strided"}:
                note(result)
            return result

    with Mode():
        yield
