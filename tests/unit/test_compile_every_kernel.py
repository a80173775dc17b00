"""Each launch of each kernel's smallest production case compiles to machine code for each GPU target.

The last stage that can be done offline is the last there is: a cubin for NVIDIA (Triton brings ptxas), an hsaco
for AMD (Triton links it). Kernels whose compiled form other tests look into are left to those.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvproof.harness.devices.torch_values import TorchArguments
from kvproof.harness.ir.compile import signature_of
from kvproof.kernels.launch import launching_on
from kvproof.kernels.registry import all_kernels, resolve

TARGETS = {
    "cuda-90": (GPUTarget("cuda", 90, 32), "cubin", 232_448),
    "hip-gfx942": (GPUTarget("hip", "gfx942", 64), "hsaco", 65_536),
    "hip-gfx950": (GPUTarget("hip", "gfx950", 64), "hsaco", 163_840),
}
"""By name: the target, its last offline stage, and the bytes of shared memory that a program may have."""

ELSEWHERE = {
    "attention_decode": ("test_compile_float_kernels.py", "sparse_attn_v4_paged_decode"),
    "attention_prefill": ("test_compile_float_kernels.py", "sparse_attn_v4_paged_prefill"),
    "fp8_pack": ("test_compile_float_kernels.py", "quantize_bf16_to_v4_2buff"),
    "fp8_unpack": ("test_compile_float_kernels.py", "dequantize_v4_2buff_to_bf16"),
    "fused_compress": ("test_compile_float_kernels.py", "fused_compress_attn"),
    "page_append": ("test_compile_schema_kernels.py", "page_{}_kernel"),
    "page_gather": ("test_compile_schema_kernels.py", "page_{}_kernel"),
    "row_index": ("test_compile_offline.py", "window_row_probe"),
    "split_attention": ("test_compile_schema_kernels.py", "split_attention_kernel"),
    "window_write": ("test_compile_offline.py", "window_write_kernel"),
}
"""Kernels that another test file compiles for the same targets, and what names them there."""

OPTIONS = ("num_warps", "num_stages")
KERNELS = [name for name, kernel in all_kernels().items() if kernel.triton and name not in ELSEWHERE]


def launches(name: str) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """(kernel, arguments, meta) of each launch of a kernel's smallest case; nothing runs."""
    kernel = all_kernels()[name]
    cases = resolve(kernel.cases)()
    found: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    with launching_on(lambda function, _grid, *args, **meta: found.append((function, args, meta))):
        kernel.load()(**TorchArguments(cases[next(iter(cases))].values, "cpu").arguments)
    return found


def machine_code(target: str, function: Any, args: tuple[Any, ...], meta: dict[str, Any]) -> bytes:
    """What a launch compiles to, specialised as one with aligned pointers and strides."""
    signature, values = signature_of(function, args, {k: v for k, v in meta.items() if k not in OPTIONS})
    kinds = {**signature.types, **dict.fromkeys(signature.constants, "constexpr")}
    exact = {p.name for p in function.params if p.do_not_specialize}
    names = function.arg_names
    aligned = [
        n for n, v in values.items() if n not in exact and (torch.is_tensor(v) or (type(v) is int and v % 16 == 0))
    ]
    source = ASTSource(
        function,
        {n: kinds[n] for n in names},
        constexprs=dict(signature.constants),
        attrs={(names.index(n),): [["tt.divisibility", 16]] for n in aligned},
    )
    gpu, last, shared = TARGETS[target]
    options = {k: v for k, v in meta.items() if k in OPTIONS}
    kernel = triton.compile(source, target=gpu, options=options)
    assert kernel.metadata.shared <= shared
    return kernel.asm[last]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_launch_compiles_to_machine_code(name: str, target: str) -> None:
    found = launches(name)
    assert found
    for function, args, meta in found:
        assert machine_code(target, function, args, meta)[:4] == b"\x7fELF"


def test_the_other_kernels_are_compiled_elsewhere(request: pytest.FixtureRequest) -> None:
    for name, (file, text) in ELSEWHERE.items():
        assert name in all_kernels()
        assert text in (request.path.parent / file).read_text(encoding="utf-8"), (name, file)
