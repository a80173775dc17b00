"""From a ``@triton.jit`` function to TTIR text, for any GPU, on a machine that has none.

Only the first stage of Triton's pipeline runs: it needs no ptxas, no lld and no driver, and takes some
ten milliseconds. The text is taken after that stage, where dead checks are gone and callees are inlined.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kvproof.harness.ir.target import CUDA_90, Target


class CompileError(RuntimeError):
    """A kernel did not compile; the message holds the compiler's."""


@dataclass(frozen=True)
class Signature:
    """What a kernel is specialised for.

    Attributes:
        types: Triton type of each run-time parameter by name ("*bf16", "i32"), in order.
        constants: value of each compile-time parameter by name.
    """

    types: Mapping[str, str]
    constants: Mapping[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal specialisations."""
        constants = tuple(
            [
                (name, type(value), value if type(value) in _PLAIN else _exact(value))
                for name, value in self.constants.items()
            ]
        )
        return (tuple(self.types.items()), constants)


_PLAIN = frozenset({int, bool, str, type(None)})
"""Types of which equal values are the same constant. (1, 1.0 and True are equal, and are not: hence the types.)"""


def _exact(value: Any) -> Any:
    """What is equal for constants that a compiler takes for the same: a float's bits, each element of a tuple."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, (tuple, list)):
        return tuple((type(each), _exact(each)) for each in cast("Sequence[Any]", value))
    if type(value).__name__ == "constexpr":
        return (type(value.value), _exact(value.value))
    return value


@dataclass(frozen=True)
class CompiledKernel:
    """The TTIR of one specialisation.

    Attributes:
        name: the kernel's function name.
        signature: what it was specialised for.
        target: GPU.
        text: TTIR with locations.
        arguments: names of the run-time parameters, in the order of the IR function's arguments.
        triton: version that compiled it.
    """

    name: str
    signature: Signature
    target: Target
    text: str
    arguments: tuple[str, ...]
    triton: str


def jit_function(kernel: Any) -> Any:
    """The ``JITFunction`` below autotuners, heuristics and the interpreter's wrapper.

    Raises:
        CompileError: not a Triton kernel.
    """
    from triton.runtime.jit import JITFunction  # noqa: PLC0415  (an optional package)

    inner = kernel
    while not isinstance(inner, JITFunction):
        if type(inner).__name__ == "InterpretedFunction":
            return JITFunction(inner.fn)
        if not hasattr(inner, "fn"):
            raise CompileError(f"{kernel!r} is not a @triton.jit function")
        inner = inner.fn
    return inner


_INT_TYPES = ((-(2**31), 2**31, "i32"), (-(2**63), 2**63, "i64"), (2**63, 2**64, "u64"))


def _scalar_type(name: str, value: Any) -> str:
    if type(value) is int and -(2**31) <= value < 2**31:
        return "i32"
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, float):
        return "fp32"
    if isinstance(value, int):
        for low, stop, kind in _INT_TYPES:
            if low <= value < stop:
                return kind
    raise CompileError(f"argument {name} is {value!r}; allowed: a tensor, int, float, bool or None")


def signature_of(kernel: Any, args: Sequence[Any], meta: Mapping[str, Any]) -> tuple[Signature, dict[str, Any]]:
    """What Triton would specialise a launch for, and its run-time arguments by name.

    As on a device, an integer 1 becomes a constant unless the parameter says otherwise, and so does None.

    Args:
        kernel: ``@triton.jit`` function.
        args, meta: as launched; tensors need ``data_ptr()`` and ``dtype``.

    Raises:
        CompileError: no Triton kernel, or an argument that cannot be passed to one.
    """
    function = jit_function(kernel)
    given = dict(zip(function.arg_names, args, strict=False))
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, constant, specialised, stated, default in _parameters(function):
        value = given.get(name, meta.get(name, default))
        if value is _MISSING:
            raise CompileError(f"{function.__name__}: argument {name} is missing")
        if constant or value is None or (specialised and type(value) is int and value == 1):
            constants[name] = value
            continue
        values[name] = value
        if stated:
            types[name] = stated
        elif (dtype := getattr(value, "dtype", None)) is not None:
            types[name] = _pointer_type(dtype)
        else:
            types[name] = _scalar_type(name, value)
    return Signature(types, constants), values


def specialise(kernel: Any, args: Sequence[Any], meta: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What is equal only for launches of a kernel with equal signatures, and the run-time arguments by name.

    Arguments and errors as of :func:`signature_of`, in a fraction of its time: it runs at every launch.
    """
    key: list[Any] = []
    values: dict[str, Any] = {}
    count = len(args)
    for i, (name, constant, specialised, _, default) in enumerate(_parameters(kernel)):
        value = args[i] if i < count else meta.get(name, default)
        kind = type(value)
        if value is _MISSING:
            raise CompileError(f"{jit_function(kernel).__name__}: argument {name} is missing")
        if constant:
            key += (kind, value if kind in _PLAIN else _exact(value))
        elif value is None or (kind is int and value == 1 and specialised):
            key.append(value)
        else:
            values[name] = value
            dtype = None if kind is int else getattr(value, "dtype", None)
            key.append(_scalar_type(name, value) if dtype is None else dtype)
    return tuple(key), values


_MISSING = object()


@functools.lru_cache(maxsize=512)
def _parameters(kernel: Any) -> tuple[tuple[str, bool, bool, str, Any], ...]:
    """Of each parameter: name, whether compile-time, whether an integer 1 is, stated type, default."""
    function = jit_function(kernel)
    return tuple(
        (
            p.name,
            p.is_constexpr,
            not p.do_not_specialize,
            p.annotation_type,
            p.default if p.has_default else _MISSING,
        )
        for p in function.params
    )


@functools.lru_cache(maxsize=64)
def _pointer_type(dtype: Any) -> str:
    from triton._utils import canonicalize_dtype  # noqa: PLC0415  (an optional package)

    return "*" + canonicalize_dtype(dtype)


_texts: dict[tuple[Any, ...], CompiledKernel] = {}


def compile_ttir(kernel: Any, signature: Signature, target: Target = CUDA_90, **options: Any) -> CompiledKernel:
    """Compile one specialisation to TTIR. Remembered within the process.

    Args:
        kernel: ``@triton.jit`` function.
        signature: types and constants of its parameters.
        target: GPU to compile for.
        options: compiler options of the back end (``debug=True`` adds Triton's own overflow asserts).

    Raises:
        CompileError: Triton refused the kernel.
    """
    function = jit_function(kernel)
    key = (function.cache_key, signature.key, str(target), tuple(sorted(options.items())))
    if key not in _texts:
        _texts[key] = _compile(function, signature, target, options)
    return _texts[key]


def _compile(function: Any, signature: Signature, target: Target, options: Mapping[str, Any]) -> CompiledKernel:
    import triton  # noqa: PLC0415  (an optional package)
    from triton._C.libtriton import ir  # noqa: PLC0415
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource, make_backend  # noqa: PLC0415

    missing = set(function.arg_names) - set(signature.types) - set(signature.constants)
    if missing:
        raise CompileError(f"{function.__name__}: no type or value for {', '.join(sorted(missing))}")
    unknown = (set(signature.types) | set(signature.constants)) - set(function.arg_names)
    if unknown:
        raise CompileError(f"{function.__name__} has no parameter {', '.join(sorted(unknown))}")
    types = {name: signature.types.get(name, "constexpr") for name in function.arg_names}
    arch = int(target.arch) if target.backend == "cuda" else target.arch
    gpu = GPUTarget(target.backend, arch, target.warp_size)
    source: Any = ASTSource(function, types, dict(signature.constants))
    try:
        backend: Any = make_backend(gpu)
        parsed = backend.parse_options(dict(options))
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        codegen = (parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)
        wants_target = "target" in inspect.signature(source.make_ir).parameters
        module = source.make_ir(gpu, *codegen) if wants_target else source.make_ir(*codegen)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, parsed, source.language)
        module = stages["ttir"](module, {})
        text = str(module)
    except Exception as error:
        raise CompileError(f"{function.__name__} for {target}: {error}") from error
    arguments = tuple(name for name in function.arg_names if name in signature.types)
    return CompiledKernel(function.__name__, signature, target, text, arguments, triton.__version__)


def source_key(kernel: Any) -> str:
    """Hash of the kernel's source and of every device function and global that it uses."""
    return hashlib.sha256(jit_function(kernel).cache_key.encode()).hexdigest()[:16]
