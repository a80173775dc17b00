"""What the device ``interpret`` cannot do, each a strict expected failure: when one is gone, this file says so."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import numpy as np
import torch
import triton
import triton.language as tl

from kvproof.harness.devices.access_log import AccessLog
from kvproof.harness.devices.interpret import _launch
from kvproof.harness.devices.torch_values import storages_of
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
    strict=True, reason="Triton's interpreter has no inline assembly: keys unpacked by words run on a GPU alone"
)
def test_four_codes_are_unpacked_from_a_word() -> None:
    codes = np.arange(256, dtype=np.uint8)
    tensors = {"words_ptr": torch.from_numpy(codes.view(np.int32)), "out_ptr": torch.empty(256)}
    log = AccessLog(storages_of(tensors))
    _launch(unpack_kernel, (1,), tuple(tensors.values()), {"N": 64}, log)
    np.testing.assert_array_equal(tensors["out_ptr"].numpy(), E4M3_OCP.decode(codes).astype(np.float32))
