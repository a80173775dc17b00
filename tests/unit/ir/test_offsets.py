"""Element offsets in 32 bits: each planted one is found at its line, and none of its widened neighbours."""

from __future__ import annotations

import inspect

import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from kvproof.harness.ir.compile import Signature, compile_ttir  # noqa: E402
from kvproof.harness.ir.offsets import NarrowOffset, narrow_offsets  # noqa: E402
from kvproof.harness.ir.reader import read_module  # noqa: E402
from kvproof.harness.ir.target import CUDA_90, HIP_GFX942  # noqa: E402

TYPES = {"x": "*fp32", "rows": "*i32", "stride": "i32"}


@triton.jit
def narrow(x, rows, stride):
    row = tl.load(rows + tl.program_id(0))
    tl.store(x + row * stride, 1.0)


@triton.jit
def wide(x, rows, stride):
    row = tl.load(rows + tl.program_id(0))
    tl.store(x + row.to(tl.int64) * stride, 1.0)


@triton.jit
def widened_after(x, rows, stride):
    row = tl.load(rows + tl.program_id(0))
    tl.store(x + (row * stride).to(tl.int64), 1.0)


@triton.jit
def in_a_loop(x, rows, stride):
    for n in range(stride):
        at = n * stride
        tl.store(x + at, 1.0)


@triton.jit
def row_below_a_wide_product(x, rows, stride):
    row = tl.load(rows) * 7 + 1
    tl.store(x + row.to(tl.int64) * stride, 1.0)


@triton.jit
def lanes(x, rows, stride):
    lane = tl.arange(0, 64)
    tl.store(x + lane * 512 + (stride % 128) * 64, 1.0)


@triton.jit
def chosen(x, rows, stride):
    row = tl.load(rows)
    at = tl.where(row > 3, row * stride, 0)
    tl.store(x + at, 1.0)


def found(kernel) -> list[NarrowOffset]:
    both = []
    for target in (CUDA_90, HIP_GFX942):
        module = read_module(compile_ttir(kernel, Signature(TYPES, {}), target).text)
        both.append(narrow_offsets(module, {kernel.__name__: tuple(TYPES)}))
    assert [(n.places[0].line, n.argument) for n in both[0]] == [(n.places[0].line, n.argument) for n in both[1]]
    return both[0]


@pytest.mark.parametrize("kernel", [narrow, widened_after, in_a_loop, chosen])
def test_a_product_in_32_bits_is_found_at_its_line(kernel) -> None:
    (one,) = found(kernel)
    lines, start = inspect.getsourcelines(kernel.fn)
    assert "* stride" in lines[one.places[0].line - start]
    assert one.argument == "x"
    assert one.access == "store"
    assert one.factors.endswith("* stride")


@pytest.mark.parametrize("kernel", [wide, row_below_a_wide_product, lanes])
def test_a_wide_one_and_one_that_always_fits_raise_no_alarm(kernel) -> None:
    assert found(kernel) == []
