"""Launching on the executor: what ``kernel[grid](...)`` does on a GPU, for torch tensors in host memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.ir.compile import compile_ttir, jit_function, signature_of, specialise
from kvproof.harness.ir.execute import Executable, Report, Segment, Storage, execute, prepare
from kvproof.harness.ir.reader import read_module
from kvproof.harness.ir.target import CUDA_90, Target
from kvproof.models.contract import TensorValue


class Executor:
    """A launch backend that runs kernels from their IR.

    Attributes:
        target: GPU that kernels are compiled for.
        reports: what the launches since the last :meth:`take` showed.
    """

    def __init__(self, target: Target = CUDA_90) -> None:
        self.target = target
        self.reports: list[Report] = []
        self._plans: dict[tuple[Any, ...], tuple[Any, Executable]] = {}
        self._storages: dict[int, Storage] = {}
        self._kept: list[Any] = []
        self._undefined: dict[int, list[tuple[Any, int]]] = {}
        self._arguments: Mapping[int, tuple[int, npt.NDArray[Any], TensorValue]] = {}

    def __call__(self, kernel: Any, grid: Any, *args: Any, **meta: Any) -> None:
        """Run one launch; the tensors change in place.

        Raises:
            CompileError: the kernel does not compile for the target.
            UnsupportedOperation: it holds an operation that the executor does not model.
        """
        specialisation, values = specialise(kernel, args, meta)
        key = (id(kernel), specialisation)
        known = self._plans.get(key)
        if known is None:
            # The kernel is kept with its plan, so that its id stays its own.
            signature, _ = signature_of(kernel, args, meta)
            plan = prepare(read_module(compile_ttir(kernel, signature, self.target).text))
            known = self._plans[key] = (kernel, plan)
        plan = known[1]
        if callable(grid):
            grid = grid({**signature_of(kernel, args, meta)[0].constants, **values})
        x, y, z = (*grid, 1, 1)[:3]
        bound = {
            name: value if type(value) is int or not hasattr(value, "data_ptr") else self.segment(name, value)
            for name, value in values.items()
        }
        self.reports += execute(plan, (x, y, z), bound)

    def segment(self, name: str, tensor: Any) -> Segment:
        """What a pointer to the tensor's first element may touch: the tensor."""
        given = self._arguments.get(id(tensor))
        if given is not None:
            key, data, value = given
            item = data.itemsize
            known = self._storages.get(key)
            if known is None or known.data.size != data.nbytes:
                whole = data.view(np.uint8)
                known = Storage(whole, np.zeros(whole.size, bool) if key in self._undefined else None)
                self._storages[key] = known
            if known.written is not None and self._filled(key):
                known.written = None
            return Segment(name, known, value.offset * item, item, value.shape, value.strides)
        storage = tensor.untyped_storage()
        item = tensor.element_size()
        key = storage.data_ptr()
        known = self._storages.get(key)
        if known is None or known.data.size != storage.nbytes():
            data = storage_bytes(storage)
            known = Storage(data, np.zeros(data.size, bool) if key in self._undefined else None)
            self._storages[key] = known
            # A storage's address identifies it only while something keeps it alive.
            self._kept.append(storage)
        if known.written is not None and self._filled(key):
            known.written = None
        return Segment(name, known, tensor.storage_offset() * item, item, tuple(tensor.shape), tensor.stride())

    def arguments(self, given: Mapping[int, tuple[int, npt.NDArray[Any], TensorValue]]) -> None:
        """Take note of a launcher's tensors, by id: address and array of each one's memory, and its layout."""
        self._arguments = given

    def undefined(self, tensor: Any) -> None:
        """Take the tensor's storage for never written: reading it before a kernel wrote it is reported.

        Once torch itself wrote to it (``fill_``, ``copy_``), all of it counts as written.
        """
        version = 0 if tensor.is_inference() else tensor._version
        self._undefined.setdefault(tensor.untyped_storage().data_ptr(), []).append((tensor, version))

    def _filled(self, key: int) -> bool:
        """Whether torch wrote to a storage since it was taken for never written: views share a count of writes."""
        return any(not t.is_inference() and t._version != before for t, before in self._undefined.get(key, ()))

    def take(self) -> list[Report]:
        """The reports so far; forgets them and the tensors."""
        reports, self.reports = self.reports, []
        self._storages.clear()
        self._undefined.clear()
        self._kept.clear()
        self._arguments = {}
        return reports


class Forms:
    """A launch backend that runs nothing: it keeps which specialisations a launch would be compiled for.

    Attributes:
        seen: each of them, as a text that is the same in every process.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, kernel: Any, _grid: Any, *args: Any, **meta: Any) -> None:
        """Note a launch."""
        signature, _ = signature_of(kernel, args, meta)
        self.seen.add(f"{jit_function(kernel).__name__} {signature.key!r}")


def storage_bytes(storage: Any) -> npt.NDArray[np.uint8]:
    """The bytes of a torch storage in host memory, shared with it; the caller keeps the storage alive."""
    size = storage.nbytes()
    if not size:
        return np.zeros(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * size).from_address(storage.data_ptr()), np.uint8)


_EMPTY = ("empty", "empty_like", "empty_strided", "empty_permuted")
_NEW_EMPTY = ("new_empty", "new_empty_strided")


@contextmanager
def tracking_empty(note: Callable[[Any], None]) -> Iterator[None]:
    """Call ``note`` with every tensor that torch allocates without filling it, by its functions or methods."""
    import torch  # noqa: PLC0415  (an optional package)

    originals = {name: getattr(torch, name) for name in _EMPTY}
    methods = {name: getattr(torch.Tensor, name) for name in _NEW_EMPTY}
    try:
        for name, original in originals.items():
            setattr(torch, name, _noting(original, note))
        for name, original in methods.items():
            setattr(torch.Tensor, name, _noting(original, note))
        yield
    finally:
        for name, original in originals.items():
            setattr(torch, name, original)
        for name, original in methods.items():
            setattr(torch.Tensor, name, original)


def _noting(original: Callable[..., Any], note: Callable[[Any], None]) -> Callable[..., Any]:
    def allocate(*args: Any, **kwargs: Any) -> Any:
        tensor = original(*args, **kwargs)
        note(tensor)
        return tensor

    return allocate
