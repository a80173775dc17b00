"""The interpreter as a device: it runs twins, leaves Triton as it was, and sees every stray access."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import importlib.util  # noqa: E402

import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from kvproof.harness.devices.base import AccessError, DeviceError  # noqa: E402
from kvproof.harness.devices.interpret import InterpretDevice  # noqa: E402
from kvproof.kernels.registry import Kernel, resolve  # noqa: E402
from kvproof.models.contract import Contract, Tensor, TensorValue, contiguous  # noqa: E402

HEADER = """
import triton
import triton.language as tl
from kvproof.kernels.launch import launch
"""


@pytest.fixture
def kernel_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kernel]:
    """Makes a kernel of a launcher ``run(x, out)`` from source text."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, source: str) -> Kernel:
        (tmp_path / f"{name}.py").write_text(HEADER + textwrap.dedent(source))
        contract = Contract(
            name,
            "",
            (
                Tensor("x", ("int32", "fp32", "bf16"), ("n",), ""),
                Tensor("out", ("int32", "fp32", "bf16"), ("m",), "", role="inout", strides="any"),
            ),
            (),
            (),
            (),
        )
        return Kernel(name, contract, f"{name}:run", (), "", "")

    return make


def run(kernel: Kernel, x: TensorValue, out: TensorValue) -> Any:
    return InterpretDevice().run(kernel, {"x": x, "out": out})


COPY = """
@triton.jit
def twice(value):
    return value + value

@triton.jit
def copy(x_ptr, out_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr + i + SHIFT, twice(v), mask=i < n)

def run(x, out):
    launch(copy, (triton.cdiv(x.shape[0], 4),), x, out, x.shape[0], SHIFT={shift}, BLOCK=4, num_warps=1)
"""


def test_device_functions_are_interpreted(kernel_of: Callable[..., Kernel]) -> None:
    x, out = contiguous("int32", range(6)), contiguous("int32", [9] * 7)
    after = run(kernel_of("copy_plain", COPY.format(shift=0)), x, out)
    assert after["out"].array.tolist() == [0, 2, 4, 6, 8, 10, 9]
    assert after["x"].array.tolist() == x.array.tolist()
    assert out.array.tolist() == [9] * 7  # what went in stays as it was


@pytest.mark.parametrize(("shift", "element"), [(2, 7), (-1, -1)])
def test_a_store_outside_every_argument_is_refused(
    kernel_of: Callable[..., Kernel], shift: int, element: int
) -> None:
    kernel = kernel_of(f"copy_shift{shift}".replace("-", "m"), COPY.format(shift=shift))
    with pytest.raises(AccessError) as caught:
        run(kernel, contiguous("int32", range(6)), contiguous("int32", [9] * 7))
    assert (caught.value.kind, caught.value.tensor, caught.value.element) == ("out of bounds", "out", element)


def test_the_last_element_is_still_inside(kernel_of: Callable[..., Kernel]) -> None:
    after = run(
        kernel_of("copy_shift1", COPY.format(shift=1)), contiguous("int32", range(6)), contiguous("int32", [9] * 7)
    )
    assert after["out"].array.tolist() == [9, 0, 2, 4, 6, 8, 10]


ONTO = """
@triton.jit
def onto(x_ptr, out_ptr, STEP: tl.constexpr, LANES: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, LANES)
    v = tl.load(x_ptr + p * LANES + i)
    tl.store(out_ptr + p * STEP + {lane}, v)

def run(x, out):
    launch(onto, (2,), x, out, STEP={step}, LANES=2)
"""


@pytest.mark.parametrize(
    ("step", "lane", "programs"),
    [("1", "i", ((0, 0, 0), (1, 0, 0))), ("2", "i // 2", ((0, 0, 0),))],
)
def test_two_writers_of_one_element_are_found(
    kernel_of: Callable[..., Kernel], step: str, lane: str, programs: Any
) -> None:
    kernel = kernel_of(f"onto{step}", ONTO.format(step=step, lane=lane))
    with pytest.raises(AccessError) as caught:
        run(kernel, contiguous("int32", [1, 2, 3, 4]), contiguous("int32", [0] * 5))
    assert (caught.value.kind, caught.value.tensor) == ("collision", "out")
    assert caught.value.programs == programs


def test_neighbouring_writers_are_no_collision(kernel_of: Callable[..., Kernel]) -> None:
    kernel = kernel_of("onto_apart", ONTO.format(step="2", lane="i"))
    after = run(kernel, contiguous("int32", [1, 2, 3, 4]), contiguous("int32", [0] * 5))
    assert after["out"].array.tolist() == [1, 2, 3, 4, 0]


LIBRARY = """
@triton.jit
def library(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i, mask=i < n, other=0.0)
    total = tl.sum(v, axis=0) + v.sum(axis=0) + tl.max(v, axis=0)
    tl.store(out_ptr, total + tl.cdiv(n, 4))

def run(x, out):
    launch(library, (1,), x, out, x.shape[0], BLOCK=8)
"""


def test_the_standard_library_of_triton_is_interpreted(kernel_of: Callable[..., Kernel]) -> None:
    x = contiguous("fp32", [1, 2, 3, 4, 5])
    after = run(kernel_of("library", LIBRARY), x, contiguous("fp32", [0]))
    assert after["out"].array.tolist() == [15 + 15 + 5 + 2]


def test_compiling_works_before_between_and_after(kernel_of: Callable[..., Kernel]) -> None:
    kernel = kernel_of("library_mixed", LIBRARY)
    function = resolve("library_mixed:library")
    before = {name: vars(tl)[name] for name in ("load", "sum", "max", "range", "reduce")}

    def text() -> str:
        source = ASTSource(
            function, {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 8}
        )
        return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"]

    first = text()
    for _ in range(2):
        run(kernel, contiguous("fp32", [1]), contiguous("fp32", [0]))
        assert text() == first
    assert {name: vars(tl)[name] for name in before} == before
    assert "TRITON_INTERPRET" not in os.environ
    assert triton.knobs.runtime.interpret is False


def test_triton_is_restored_after_a_failure(kernel_of: Callable[..., Kernel]) -> None:
    load = tl.load
    with pytest.raises(AccessError):
        run(kernel_of("copy_far", COPY.format(shift=99)), contiguous("int32", [1]), contiguous("int32", [1]))
    assert tl.load is load


def test_a_launcher_that_raises_is_a_device_error(kernel_of: Callable[..., Kernel]) -> None:
    kernel = kernel_of("raises", "def run(x, out):\n    raise ValueError('x must be even')\n")
    with pytest.raises(DeviceError, match="x must be even"):
        run(kernel, contiguous("int32", [1]), contiguous("int32", [1]))


BITS = """
@triton.jit
def bits(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))

def run(x, out):
    launch(bits, (1,), x, out, BLOCK=4)
"""


@pytest.mark.parametrize(
    ("dtype", "patterns"),
    [("bf16", [0x7FC1, 0xFF80, 0x8000, 0x7F81]), ("fp32", [0x7FC00001, 0xFF800000, 0x80000000, 0x7F800001])],
)
def test_bits_travel_unchanged(kernel_of: Callable[..., Kernel], dtype: str, patterns: list[int]) -> None:
    # Quiet and signalling NaN, -inf, -0.
    raw = np.array(patterns, np.uint16 if dtype == "bf16" else np.uint32)
    storage = raw if dtype == "bf16" else raw.view(np.float32)
    x = TensorValue(dtype, storage, (4,), (1,))
    after = run(kernel_of(f"bits_{dtype}", BITS), x, TensorValue(dtype, np.zeros_like(storage), (4,), (1,)))
    assert after["out"].storage.view(raw.dtype).tolist() == patterns


def test_tensors_that_share_a_storage_share_it_on_the_device(kernel_of: Callable[..., Kernel]) -> None:
    storage = np.arange(8, dtype=np.int32)
    x, out = TensorValue("int32", storage, (4,), (1,)), TensorValue("int32", storage, (4,), (1,), 4)
    after = run(kernel_of("shared", BITS), x, out)
    assert after["x"].storage.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_probe_names_the_releases() -> None:
    found = InterpretDevice().probe()
    assert found.available
    assert triton.__version__ in found.detail
    assert importlib.util.find_spec("triton") is not None
