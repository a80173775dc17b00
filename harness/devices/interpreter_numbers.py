"""Float conversions and ``tl.dot`` of Triton's interpreter, put right.

As released (3.6 to 3.9), the interpreter truncates fp32 to bf16 where every GPU rounds, gets bf16 subnormals
and fp8 conversions wrong, and multiplies bf16 matrices as if their bit patterns were numbers. A kernel of real
models would differ from its specification on nearly every element, and so nothing about it could be learnt
here. These are its replacements while a launch is interpreted; everything else stays Triton's.

fp32 to fp8 saturates, as the conversion instruction of NVIDIA GPUs does. A scalar as a loop's bound fails with
numpy 2.4 in Triton 3.6; here it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.packed_row import E4M3_FNUZ, E4M3_OCP, Float8

FLOAT8: dict[str, Float8] = {"fp8e4nv": E4M3_OCP, "fp8e4b8": E4M3_FNUZ}
"""fp8 types by Triton's names. Others keep Triton's conversion."""

NATIVE: dict[str, type[np.floating[Any]]] = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


def _known(name: str) -> bool:
    return name in NATIVE or name in FLOAT8 or name == "bf16"


def to_float(data: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Numbers behind an interpreter array of a float type, exactly (fp32, or fp64 for fp64)."""
    if name in NATIVE:
        return data if name == "fp64" else data.astype(np.float32)
    if name == "bf16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return FLOAT8[name].decode(data.view(np.uint8)).astype(np.float32)


def from_float(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Numbers as an interpreter array of a float type, rounded to nearest, ties to even."""
    if name in NATIVE:
        return values.astype(NATIVE[name])
    if name == "bf16":
        bits = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
        return np.where(np.isnan(values), (bits >> 16) | np.uint32(0x40), rounded).astype(np.uint16)
    form = FLOAT8[name]
    clipped = np.where(np.isnan(values), values, np.clip(values, -form.max, form.max))
    return form.encode(clipped)


def corrections(builder: Any) -> list[tuple[Any, str, Callable[..., Any]]]:
    """(owner, attribute, replacement) for the interpreter's builder."""
    import triton.language as tl  # noqa: PLC0415
    from triton._C.libtriton import ir  # noqa: PLC0415
    from triton.runtime.interpreter import TensorHandle  # noqa: PLC0415

    cast, to_fp, dot = builder.cast_impl, builder.create_fp_to_fp, builder.create_dot

    def converted(source: Any, target: Any) -> Any | None:
        """``source`` as another float type; None where Triton's own conversion is meant."""
        given, wanted = source.dtype.scalar, target.scalar
        if not (_known(given.name) and _known(wanted.name)):
            return None
        return TensorHandle(from_float(to_float(source.data, given.name), wanted.name), wanted)

    def cast_impl(source: Any, target: Any) -> Any:
        found = converted(source, target)
        return cast(source, target) if found is None else found

    def create_fp_to_fp(source: Any, target: Any, rounding_mode: Any) -> Any:
        nearest = rounding_mode is None or rounding_mode == ir.ROUNDING_MODE.RTNE
        found = converted(source, target) if nearest else None
        return to_fp(source, target, rounding_mode) if found is None else found

    def create_dot(a: Any, b: Any, d: Any, *options: Any) -> Any:
        names = a.dtype.scalar.name, b.dtype.scalar.name
        if all(name in NATIVE for name in names) or not all(_known(name) for name in names):
            return dot(a, b, d, *options)
        product = np.matmul(to_float(a.data, names[0]), to_float(b.data, names[1]), dtype=d.data.dtype)
        return TensorHandle(product + d.data, d.dtype.scalar)

    def as_index(scalar: Any) -> int:
        return int(np.asarray(scalar.handle.data).reshape(()))

    return [
        (tl.tensor, "__index__", as_index),
        (builder, "cast_impl", cast_impl),
        (builder, "create_fp_to_fp", create_fp_to_fp),
        (builder, "create_dot", create_dot),
    ]
