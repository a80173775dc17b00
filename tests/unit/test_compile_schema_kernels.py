"""The paged cache's kernels and the split attention compile for each GPU target on a machine that has none."""

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
SHARED_BYTES = {"cuda-90": 232_448, "hip-gfx942": 65_536, "hip-gfx950": 163_840}
"""Shared memory that one program may have."""

PAGE = "kvproof.kernels.page_{}.kernel:page_{}_kernel"
RECORDS = {"BLOCK_DATA": 1024, "BLOCK_SCALE": 8, "ROWS": 8, "DATA": 576, "SCALE": 8}
BYTES = dict.fromkeys(("data_ptr", "scales_ptr", "cache_ptr", "xo_ptr"), "*u8")
KINDS = {
    "append": {**BYTES, "slots_ptr": "*i64"},
    "gather": BYTES,
    "split": {
        **BYTES,
        **dict.fromkeys(("q_ptr", "kv_ptr", "part_ptr"), "*bf16"),
        **dict.fromkeys(("sink_ptr", "pstat_ptr", "out_ptr", "scale"), "*fp32"),
        **dict.fromkeys(("srdy_ptr", "crdy_ptr"), "*i64"),
        "scale": "fp32",
    },
}


def compiled(reference: str, kind: str, constants: dict[str, int], target: str) -> Any:
    function = resolve(reference)
    names = function.arg_names
    kinds = {n: KINDS[kind].get(n, "*i32" if n.endswith("_ptr") else "i32") for n in names}
    kinds.update(dict.fromkeys(constants, "constexpr"))
    free = {"n", "first_task", "tokens", "chunks", "most_keys", "num_rows", "tag", "polls", "entries", "scale"}
    aligned = [i for i, n in enumerate(names) if kinds[n] != "constexpr" and n not in free]
    source = ASTSource(
        function, kinds, constexprs=constants, attrs={(i,): [["tt.divisibility", 16]] for i in aligned}
    )
    return triton.compile(source, target=TARGETS[target])


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("kind", ["append", "gather"])
@pytest.mark.parametrize("target", TARGETS)
def test_page_kernels_compile(target: str, kind: str, interleaved: int) -> None:
    asm = compiled(PAGE.format(kind, kind), kind, {**RECORDS, "INTERLEAVED": interleaved}, target).asm
    assert asm["ptx" if target.startswith("cuda") else "amdgcn"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("heads", [16, 32])
def test_split_attention_compiles_and_fits(target: str, heads: int) -> None:
    constants = {
        "H": heads,
        "D": 512,
        "CHUNK": 128,
        "BLOCK_K": 32,
        "BLOCK_C": 16,
        "FNUZ": 0,
        "NATIVE": int(target.startswith("cuda")),
    }
    done = compiled("kvproof.kernels.split_attention.kernel:split_attention_kernel", "split", constants, target)
    assert done.asm["ptx" if target.startswith("cuda") else "amdgcn"]
    assert done.metadata.shared <= SHARED_BYTES[target]


def test_a_flag_is_one_64_bit_store_with_release() -> None:
    constants = {"H": 16, "D": 512, "CHUNK": 64, "BLOCK_K": 32, "BLOCK_C": 16, "FNUZ": 0, "NATIVE": 1}
    done = compiled("kvproof.kernels.split_attention.kernel:split_attention_kernel", "split", constants, "cuda-90")
    stores = [line for line in done.asm["ptx"].splitlines() if "atom" in line and "exch" in line]
    assert len(stores) == 2
    assert all("release" in line and "b64" in line for line in stores)
