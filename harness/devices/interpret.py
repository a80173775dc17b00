"""Triton's interpreter as a device, in the same process as compiled kernels.

Triton decides at import, by an environment variable, whether its functions are interpreted. Here each
``@triton.jit`` function gets an interpreted *twin* instead, whose globals name the twins of the device
functions that it calls, and Triton's language is patched only while a launch runs.

The interpreter reads and writes raw addresses. Every one is checked against the launch's storages before it is
used, and writes are logged, so that an access outside and two writers of one element are seen, which running
programs one after the other would hide.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kvproof.harness.devices.access_log import AccessLog
from kvproof.harness.devices.base import Availability, DeviceError
from kvproof.harness.devices.interpreter_numbers import corrections
from kvproof.harness.devices.torch_values import TorchArguments, storages_of
from kvproof.kernels.launch import launching_on
from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue


class InterpretDevice:
    """Triton's interpreter on the CPU, in numpy: one device among several, never the oracle.

    Its float conversions and bf16 ``tl.dot`` are replaced (:mod:`~kvproof.harness.devices.interpreter_numbers`).
    """

    name = "interpret"

    def probe(self) -> Availability:
        """Whether torch and triton are installed."""
        try:
            import torch  # noqa: PLC0415
            import triton  # noqa: PLC0415
        except Exception as error:
            return Availability(False, f"needs torch and triton: {error}")
        return Availability(True, f"Triton {triton.__version__} interpreter, torch {torch.__version__}")

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        """Run one launch, program by program.

        Raises:
            AccessError: an access outside every argument, or two writers of one element.
            DeviceError: the launch failed otherwise.
        """
        launched = TorchArguments(values, "cpu")
        log = AccessLog(launched.storages())

        def backend(function: Any, grid: tuple[int, ...], *args: Any, **meta: Any) -> None:
            _launch(function, grid, args, meta, log)

        try:
            with launching_on(backend):
                kernel.load()(**launched.arguments)
        except DeviceError:
            raise
        except Exception as error:
            raise DeviceError(f"{kernel.name} on interpret: {_root(error)!r}") from error
        return launched.results()


def _root(error: BaseException) -> BaseException:
    """The error behind the interpreter's wrappers, one of which is added at every call level."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _launch(
    function: Any, grid: tuple[int, ...], args: tuple[Any, ...], meta: Mapping[str, Any], log: AccessLog
) -> None:
    from triton.runtime import interpreter  # noqa: PLC0415
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    if not isinstance(function, JITFunction):
        raise DeviceError(f"a launch of {type(function).__name__}; only @triton.jit functions can be interpreted")
    names = function.arg_names
    # Options of the compiler (num_warps, ...) are no parameters and mean nothing here.
    bound = inspect.getcallargs(function.fn, *args, **{k: v for k, v in meta.items() if k in names})
    constexprs = {p.name for p in function.params if p.is_constexpr}
    log.begin_launch(storages_of(bound))
    with _interpreting(log), warnings.catch_warnings():
        # numpy warns of integer wrap-around, which is what the device does too.
        warnings.simplefilter("ignore")
        run = _twin(function).rewrite()
        converted = {k: v if k in constexprs else interpreter._implicit_cvt(v) for k, v in bound.items()}
        sizes = (*grid, 1, 1)[:3]
        interpreter.interpreter_builder.set_grid_dim(*sizes)
        for x in range(sizes[0]):
            for y in range(sizes[1]):
                for z in range(sizes[2]):
                    interpreter.interpreter_builder.set_grid_idx(x, y, z)
                    log.program = (x, y, z)
                    run(**converted)
    log.finish_launch()


# ---- twins --------------------------------------------------------------

_twins: dict[int, tuple[Any, Any]] = {}  # id -> (function, which keeps the id from being reused; its twin)


def _twin(function: Any) -> Any:
    """The interpreted twin of a ``@triton.jit`` function."""
    from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    known = _twins.get(id(function))
    if known is not None:
        return known[1]

    class Twin(InterpretedFunction):
        # The base class patches Triton's language at every call of a device function, and leaves it patched.
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self.rewrite()(*args, **kwargs)

    raw = function.fn
    scope = dict(raw.__globals__)
    copy = types.FunctionType(raw.__code__, scope, raw.__name__, raw.__defaults__, raw.__closure__)
    copy.__kwdefaults__, copy.__annotations__, copy.__qualname__ = (
        raw.__kwdefaults__,
        raw.__annotations__,
        raw.__qualname__,
    )
    twin = Twin(copy)
    _twins[id(function)] = (function, twin)
    # After the twin is known, so that mutual references end.
    for name, value in list(scope.items()):
        if isinstance(value, JITFunction):
            scope[name] = _twin(value)
    return twin


# ---- Triton's language --------------------------------------------------

_Patch = tuple[Any, str, Any]  # owner, attribute, value
_MISSING = object()
_patches: list[_Patch] = []


def _owners() -> list[Any]:
    """Modules and classes of Triton's language that interpreting changes."""
    import triton.language as tl  # noqa: PLC0415

    modules = [m for m in vars(tl).values() if inspect.ismodule(m) and m.__name__.startswith("triton.language")]
    owners: list[Any] = [tl, *dict.fromkeys(modules)]
    classes = [c for c in vars(tl.core).values() if inspect.isclass(c) and c.__module__ == tl.core.__name__]
    return [*owners, *dict.fromkeys(classes)]


def _language_patches() -> list[_Patch]:
    """What interpreting changes in Triton's language, found once by letting Triton patch it."""
    import triton.language as tl  # noqa: PLC0415
    from triton.runtime import interpreter  # noqa: PLC0415
    from triton.runtime.jit import JITFunction  # noqa: PLC0415

    if _patches:
        return _patches
    owners = _owners()
    before = [dict(vars(owner)) for owner in owners]
    probe = types.FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
    found: list[_Patch] = []
    try:
        interpreter._patch_lang(probe)
        for owner, old in zip(owners, before, strict=True):
            found.extend((owner, k, v) for k, v in vars(owner).items() if old.get(k, _MISSING) is not v)
    finally:
        for owner, old in zip(owners, before, strict=True):
            for name, value in list(vars(owner).items()):
                if name not in old:
                    delattr(owner, name)
                elif old[name] is not value:
                    setattr(owner, name, old[name])
    patched = {(id(owner), name) for owner, name, _ in found}
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if isinstance(value, JITFunction) and (id(owner), name) not in patched:
                twin = _twin(value)
                found.append((owner, name, _method(twin) if inspect.isclass(owner) else twin))
    _patches.extend(found)
    return _patches


def _method(twin: Any) -> Callable[..., Any]:
    """As a function, a twin on a class binds its object like any method."""

    def method(*args: Any, **kwargs: Any) -> Any:
        return twin(*args, **kwargs)

    return method


@contextmanager
def _interpreting(log: AccessLog) -> Iterator[None]:
    """Triton's language interpreted, and its memory accesses sent through ``log``."""
    from triton import knobs  # noqa: PLC0415
    from triton.runtime import interpreter  # noqa: PLC0415

    builder = interpreter.interpreter_builder
    patches = [
        *_language_patches(),
        # Set past the descriptor, which would export it to the environment of every child process.
        *[(builder, name, log.guard(getattr(builder, name))) for name in log.GUARDED],
        *corrections(builder),
    ]
    # A correction takes the place of what Triton's own patching does.
    patches = list({(id(owner), name): (owner, name, value) for owner, name, value in patches}.values())
    former = [(owner, name, vars(owner).get(name, _MISSING)) for owner, name, _ in patches]
    former_knob = knobs.runtime.__dict__.get("interpret", _MISSING)
    try:
        for owner, name, value in patches:
            setattr(owner, name, value)
        knobs.runtime.__dict__["interpret"] = True
        yield
    finally:
        for owner, name, value in reversed(former):
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        if former_knob is _MISSING:
            knobs.runtime.__dict__.pop("interpret", None)
        else:
            knobs.runtime.__dict__["interpret"] = former_knob
