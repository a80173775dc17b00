"""Every kernel compiles for each GPU target on a machine that has none."""

from __future__ import annotations

from typing import Any

import pytest

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from kvproof.kernels.registry import resolve  # noqa: E402

TARGETS = {
    "cuda-90": GPUTarget("cuda", 90, 32),
    "hip-gfx942": GPUTarget("hip", "gfx942", 64),
    "hip-gfx950": GPUTarget("hip", "gfx950", 64),
}
POINTERS = {"kv_ptr": "*bf16", "pool_ptr": "*bf16", "out_ptr": "*i64"}
KERNELS: dict[str, dict[str, int]] = {
    "kvproof.kernels.row_index.kernel:window_row_probe": {"BLOCK": 128},
    "kvproof.kernels.row_index.kernel:compress_row_probe": {"BLOCK": 128},
    "kvproof.kernels.row_index.kernel:row_offset_probe": {"BLOCK": 128},
    "kvproof.kernels.window_write.kernel:window_write_kernel": {"D": 512, "BLOCK_D": 512, "ROWS": 4},
}


def compiled(reference: str, target: str) -> Any:
    function = resolve(reference)
    constants = KERNELS[reference]
    names = function.arg_names
    kinds = {n: POINTERS.get(n, "*i32") if n.endswith("_ptr") else "i32" for n in names}
    kinds.update(dict.fromkeys(constants, "constexpr"))
    # As a launch with aligned pointers and strides specialises them.
    aligned = [i for i, n in enumerate(names) if n in {"kv_ptr", "pool_ptr", "kv_stride", "pool_stride"}]
    source = ASTSource(
        function, kinds, constexprs=constants, attrs={(i,): [["tt.divisibility", 16]] for i in aligned}
    )
    return triton.compile(source, target=TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reference", KERNELS)
def test_compiles(reference: str, target: str) -> None:
    asm = compiled(reference, target).asm
    assert "tt.func public" in asm["ttir"]
    assert asm["ptx" if target.startswith("cuda") else "amdgcn"]


@pytest.mark.parametrize("target", TARGETS)
def test_window_write_moves_16_bytes_a_thread(target: str) -> None:
    asm = compiled("kvproof.kernels.window_write.kernel:window_write_kernel", target).asm
    text = asm["ptx" if target.startswith("cuda") else "amdgcn"]
    store = "st.global.v4.b32" if target.startswith("cuda") else "global_store_dwordx4"
    stores = [line for line in text.splitlines() if "st.global" in line or "global_store" in line]
    assert stores
    assert all(store in line for line in stores)
