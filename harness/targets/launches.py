"""Launches of foreign Triton kernels, ``kernel[grid](...)``, sent to whoever runs them here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kvproof.harness.ir.compile import CompileError, Signature, signature_of
from kvproof.kernels.launch import current_backend

launched: dict[str, dict[tuple[Any, ...], Signature]] = {}
"""Signatures of each kernel that was launched in this process, by its name and their key, the latest last."""


@dataclass
class Recording:
    """What was launched while it was open.

    Attributes:
        kernels: function and signature of each specialisation, once, however often it was launched before.
        problems: kernels of which the specialisation cannot be told, and why.
    """

    kernels: dict[tuple[Any, ...], tuple[Any, Signature]] = field(
        default_factory=dict[tuple[Any, ...], tuple[Any, Signature]]
    )
    problems: dict[str, str] = field(default_factory=dict[str, str])


_open: list[Recording] = []


@contextmanager
def recording() -> Iterator[Recording]:
    """Within: every launch under :func:`redirected` is recorded, on a real device as well."""
    found = Recording()
    _open.append(found)
    try:
        yield found
    finally:
        _open[:] = [one for one in _open if one is not found]


def _note(function: Any, args: tuple[Any, ...], meta: Mapping[str, Any]) -> None:
    """Note a launch.

    Raises:
        CompileError: what it is specialised for cannot be told.
    """
    name = f"{function.fn.__module__}:{function.fn.__qualname__}"
    try:
        signature = signature_of(function, args, meta)[0]
    except CompileError as error:
        for one in _open:
            one.problems[name] = str(error)
        raise
    known = launched.setdefault(name, {})
    known.pop(signature.key, None)
    known[signature.key] = signature
    for one in _open:
        # By identity: functions that a factory makes share their name. The value keeps the function alive.
        one.kernels.setdefault((id(function), signature.key), (function, signature))


@contextmanager
def redirected() -> Iterator[None]:
    """Within: ``kernel[grid](...)`` goes to the launch backend of :mod:`kvproof.kernels.launch`, if one is set.

    A wrapper that chooses a configuration (autotuner, heuristics) is given its first one: results must not depend
    on the choice.
    """
    from triton.runtime import jit  # noqa: PLC0415

    interface: Any = jit.KernelInterface
    original = interface.__getitem__

    def getitem(kernel: Any, grid: Any) -> Callable[..., Any]:
        backend = current_backend()
        if backend is None:
            return _recorded(kernel, _without_foreign_options(original(kernel, grid)))

        def launch(*args: Any, **meta: Any) -> None:
            function, given = _configured(kernel, args, meta)
            sizes: Any = grid({**_by_name(function, args), **given}) if callable(grid) else grid
            if isinstance(sizes, int):
                sizes = (sizes,)
            _note(function, args, given)
            if 0 not in sizes:
                backend(function, tuple(int(size) for size in sizes), *args, **given)

        return launch

    interface.__getitem__ = getitem
    try:
        with _taken_for_gpu_tensors():
            yield
    finally:
        interface.__getitem__ = original


def _recorded(kernel: Any, launch: Callable[..., Any]) -> Callable[..., Any]:
    """The launch on a real device, noted if somebody records."""

    def run(*args: Any, **meta: Any) -> Any:
        if _open:
            # The device decides what it runs; the recording says what could not be told of it.
            with suppress(CompileError):
                function, given = _configured(kernel, args, meta)
                _note(function, args, given)
        return launch(*args, **meta)

    return run


AMD_OPTIONS = ("waves_per_eu", "matrix_instr_nonkdim", "kpack")
"""Launch options that only Triton's AMD back end knows, and that change no result."""


def _without_foreign_options(launch: Callable[..., Any]) -> Callable[..., Any]:
    """The launch without options of the other vendor's back end, which this one's refuses."""
    import torch  # noqa: PLC0415

    if torch.version.hip:
        return launch
    return lambda *args, **meta: launch(*args, **{k: v for k, v in meta.items() if k not in AMD_OPTIONS})


@contextmanager
def _taken_for_gpu_tensors() -> Iterator[None]:
    """Within: a tensor in host memory says that it is a GPU's, where a backend stands in for the GPU.

    Launchers refuse other tensors, and ask nothing else of them.
    """
    import torch  # noqa: PLC0415

    if current_backend() is None:
        yield
        return
    kind: Any = torch.Tensor
    kind.is_cuda = property(lambda _tensor: True)
    try:
        yield
    finally:
        del kind.is_cuda


def _configured(kernel: Any, args: tuple[Any, ...], meta: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The ``@triton.jit`` function below the wrappers, and the arguments that they would add."""
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    given = dict(meta)
    while not isinstance(kernel, JITFunction):
        if hasattr(kernel, "configs"):
            first = kernel.configs[0]
            given = {**first.kwargs, **given}
        elif hasattr(kernel, "values"):
            named = {**_by_name(kernel, args), **given}
            given |= {name: value(named) for name, value in kernel.values.items()}
        kernel = kernel.fn
    return kernel, given


def _by_name(kernel: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(kernel.arg_names, args, strict=False))
