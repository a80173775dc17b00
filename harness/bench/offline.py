"""Deterministic companions of times: what the offline compilers make of each kernel's launches, for both vendors.

They need no GPU and no quiet machine, and are the same on every run: a change in one is a change of the code.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvproof.harness.bench import assembly
from kvproof.harness.ir.compile import signature_of
from kvproof.harness.ir.target import Target
from kvproof.kernels.launch import launching_on
from kvproof.models.contract import TensorValue
from kvproof.reports.store import write_atomically

# Named here once more, since the cases of a tree of another time may be of another form than what inputs.py reads.
_TYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
_TOOLS = Path("backends", "nvidia", "bin")


@dataclass(frozen=True)
class Launched:
    """One launch that a launcher made: nothing ran."""

    kernel: Any
    args: tuple[Any, ...]
    meta: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The kernel's function name."""
        return self.kernel.fn.__name__


def fingerprint(values: Mapping[str, Any]) -> str:
    """Eight hex digits that change when the inputs of a case do: types, shapes, strides and scalars."""
    parts: list[str] = []
    for name, value in sorted(values.items()):
        if isinstance(value, TensorValue):
            parts.append(f"{name}:{value.dtype}{list(value.shape)}{list(value.strides)}")
        elif hasattr(value, "__dict__") or dataclasses.is_dataclass(value):
            # By what it holds: the text of an object without one of its own has its address in it.
            parts.append(f"{name}:{re.sub(r' at 0x[0-9a-f]+', '', repr(sorted(vars(value).items())))}")
        else:
            parts.append(f"{name}:{value!r}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def on_host(values: Mapping[str, Any]) -> dict[str, Any]:
    """A case's arguments as tensors over its own arrays: nothing is copied, since nothing runs."""
    return {name: _tensor(v) if isinstance(v, TensorValue) else v for name, v in values.items()}


def _tensor(value: TensorValue) -> torch.Tensor:
    carrier = {"bf16": np.int16, "fp8": np.uint8}.get(value.dtype)
    flat = torch.from_numpy(value.storage if carrier is None else value.storage.view(carrier))
    flat = flat.view(_TYPES[value.dtype]) if carrier is not None else flat
    return torch.as_strided(flat, value.shape, value.strides, value.offset)


def launches(launcher: Callable[..., Any], arguments: Mapping[str, Any], target: Target) -> list[Launched]:
    """The launches that a launcher makes of these arguments on a GPU of this vendor; none runs."""
    found: list[Launched] = []

    def note(kernel: Any, _grid: Any, *args: Any, **meta: Any) -> None:
        found.append(Launched(kernel, args, meta))

    with _as_on(target), launching_on(note):
        launcher(**arguments)
    return found


@contextmanager
def _as_on(target: Target) -> Iterator[None]:
    """Launchers that ask which GPU they are on are told the target's vendor."""
    hip = torch.version.hip
    modules = [module for module in list(sys.modules.values()) if hasattr(module, "has_native_e4m3")]
    asked = [(module, module.has_native_e4m3) for module in modules]
    # torch declares the version final; a launcher reads it at each launch.
    setattr(torch.version, "hip", "offline" if target.backend == "hip" else None)  # noqa: B010
    for module, _ in asked:
        module.has_native_e4m3 = lambda *_: target.backend == "cuda"  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        setattr(torch.version, "hip", hip)  # noqa: B010
        for module, original in asked:
            module.has_native_e4m3 = original  # pyright: ignore[reportAttributeAccessIssue]


def compile_launch(launch: Launched, target: Target) -> Any:
    """A launch's kernel, compiled to the end as that GPU's launch would specialise it, pointers aligned."""
    import triton  # noqa: PLC0415  (an optional package)
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415

    kernel = launch.kernel
    names = kernel.arg_names
    options = {key: value for key, value in launch.meta.items() if key not in names}
    signature, values = signature_of(kernel, launch.args, {k: v for k, v in launch.meta.items() if k in names})
    kinds = {**signature.types, **dict.fromkeys(signature.constants, "constexpr")}
    exact = {p.name for p in kernel.params if p.do_not_specialize or p.do_not_specialize_on_alignment}
    aligned = [name for name, value in values.items() if name not in exact and _divides_16(value)]
    source = ASTSource(
        kernel,
        {name: kinds[name] for name in names},
        constexprs=dict(signature.constants),
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    arch = int(target.arch) if target.backend == "cuda" else target.arch
    return triton.compile(source, target=GPUTarget(target.backend, arch, target.warp_size), options=options)


def _divides_16(value: Any) -> bool:
    if hasattr(value, "data_ptr"):
        # Host arrays lie where they lie; a GPU's allocator aligns to far more, so only the view's offset counts.
        return value.storage_offset() * value.element_size() % 16 == 0
    return type(value) is int and value % 16 == 0


def counts(compiled: Any, target: Target, kept: Path | None = None) -> dict[str, int]:
    """What compiled code holds, by metric.

    Args:
        compiled: by :func:`compile_launch`.
        target: what for.
        kept: folder in which listings of binaries are kept, since taking one costs half a second; None for none.
    """
    found = {"shared bytes": int(compiled.metadata.shared), "warps": int(compiled.metadata.num_warps)}
    found |= assembly.ttir(compiled.asm["ttir"])
    if target.backend == "hip":
        return found | assembly.amdgcn(compiled.asm["amdgcn"])
    binary: bytes = compiled.asm["cubin"]
    usage, listing = _listing(binary, "usage", kept), _listing(binary, "sass", kept)
    return found | assembly.resource_usage(usage) | assembly.sass(listing)


_OPTIONS = {"usage": "--dump-resource-usage", "sass": "-sass"}


def _listing(binary: bytes, kind: str, kept: Path | None) -> str:
    path = kept / f"{hashlib.sha256(binary).hexdigest()[:24]}.{kind}" if kept else None
    if path and path.is_file():
        return path.read_text(encoding="utf-8")
    import triton  # noqa: PLC0415  (an optional package)

    tool = Path(triton.__file__).parent / _TOOLS / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(binary)
        done = subprocess.run(  # noqa: S603  (the compiler's own tool)
            [str(tool), _OPTIONS[kind], str(file)], capture_output=True, text=True, timeout=60, check=True
        )
    if path:
        write_atomically(path, done.stdout)
    return done.stdout


def chosen(names: Sequence[str]) -> list[str]:
    """The cases that are compiled of a kernel: its smallest and its last."""
    return list(dict.fromkeys((names[0], names[-1])))
