"""The interpreter's float conversions and matrix product, put right, against ml_dtypes and numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
import triton
import triton.language as tl

from kvproof.harness.devices.access_log import AccessLog
from kvproof.harness.devices.interpret import _launch
from kvproof.harness.devices.interpreter_numbers import from_float, to_float
from kvproof.harness.devices.torch_values import storages_of

OTHERS = {"bf16": ml_dtypes.bfloat16, "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e4b8": ml_dtypes.float8_e4m3fnuz}


@triton.jit
def cast_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))


@triton.jit
def dot_kernel(x_ptr, y_ptr, z_ptr, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(z_ptr + i, tl.dot(tl.load(x_ptr + i), tl.load(y_ptr + i)))


def interpreted(kernel: Any, *tensors: Any, **meta: Any) -> None:
    named = dict(zip(kernel.arg_names, tensors, strict=False))
    _launch(kernel, (1,), tensors, meta, AccessLog(storages_of(named)))


@pytest.mark.parametrize("name", OTHERS)
def test_every_value_decodes_exactly(name: str) -> None:
    bits = np.arange(65536, dtype=np.uint16) if name == "bf16" else np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        other = bits.view(OTHERS[name]).astype(np.float32)
    assert np.array_equal(to_float(bits, name), other, equal_nan=True)


@pytest.mark.parametrize("name", OTHERS)
def test_rounding_is_to_nearest_even(name: str) -> None:
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(50_000) * np.exp2(rng.integers(-12, 7, 50_000))).astype(np.float32)
    ties = np.arange(1, 128, dtype=np.float32) / 16
    values = np.concatenate([values, ties, -ties])
    values = values[np.abs(values) <= 240]
    other = values.astype(OTHERS[name]).view(np.uint16 if name == "bf16" else np.uint8)
    assert np.array_equal(from_float(values, name), other)


@pytest.mark.parametrize(("name", "top"), [("fp8e4nv", 448.0), ("fp8e4b8", 240.0)])
def test_fp8_saturates_and_keeps_nan(name: str, top: float) -> None:
    found = to_float(from_float(np.array([1e9, -np.inf, np.nan, top], np.float32), name), name)
    assert found[[0, 1, 3]].tolist() == [top, -top, top]
    assert np.isnan(found[2])


def test_a_cast_in_a_kernel_rounds() -> None:
    x = torch.tensor([1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, -2.7], dtype=torch.float32)
    y = torch.zeros(4, dtype=torch.bfloat16)
    interpreted(cast_kernel, x, y, N=4)
    assert torch.equal(y, x.to(torch.bfloat16))


def test_a_product_of_bf16_matrices_is_one_of_numbers() -> None:
    rng = np.random.default_rng(1)

    def matrix() -> Any:
        return torch.from_numpy(rng.standard_normal((16, 16)).astype(np.float32)).to(torch.bfloat16)

    x, y, z = matrix(), matrix(), torch.zeros(16, 16)
    interpreted(dot_kernel, x, y, z, N=16)
    wanted: npt.NDArray[Any] = x.float().numpy() @ y.float().numpy()
    assert np.allclose(z.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_without_the_correction_the_interpreter_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once this fails, Triton has been fixed and the correction can go."""
    monkeypatch.setattr("kvproof.harness.devices.interpret.corrections", lambda _builder: [])
    x = torch.tensor([1.0 + 3 * 2**-8], dtype=torch.float32)
    y = torch.zeros(1, dtype=torch.bfloat16)
    interpreted(cast_kernel, x, y, N=1)
    assert not torch.equal(y, x.to(torch.bfloat16))
