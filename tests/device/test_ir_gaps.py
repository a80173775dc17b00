"""What the device ``ir`` cannot do, each a strict expected failure: when one is gone, this file says so."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import numpy as np
import torch
import triton
import triton.language as tl

from kvproof.harness.ir.launch import Executor
from kvproof.kernels.attention_keys import four_values
from kvproof.models.packed_row import E4M3_OCP


@triton.jit
def unpack_kernel(words_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x0, x1, x2, x3 = four_values(tl.load(words_ptr + i))
    tl.store(out_ptr + 4 * i, x0)
    tl.store(out_ptr + 4 * i + 1, x1)
    tl.store(out_ptr + 4 * i + 2, x2)
    tl.store(out_ptr + 4 * i + 3, x3)


@pytest.mark.xfail(
    strict=True,
    reason="machine instructions in the IR are text to the executor: keys unpacked by words run on a GPU",
)
def test_four_codes_are_unpacked_from_a_word() -> None:
    codes = np.arange(256, dtype=np.uint8)
    out = torch.full((256,), -1.0)
    executor = Executor()
    executor(unpack_kernel, (1,), torch.from_numpy(codes.view(np.int32)), out, N=64)
    assert executor.take() == []
    np.testing.assert_array_equal(out.numpy(), E4M3_OCP.decode(codes).astype(np.float32))
