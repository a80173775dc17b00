"""The kernels that compute compile for each GPU target as launched, and use what the target has."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvproof.harness.ir.compile import signature_of
from kvproof.kernels.attention_decode.kernel import sparse_attn_v4_paged_decode
from kvproof.kernels.attention_plan import Plan, plan_of, tiles
from kvproof.kernels.attention_prefill.kernel import sparse_attn_v4_paged_prefill
from kvproof.kernels.fp8_pack.kernel import quantize_bf16_to_v4_2buff
from kvproof.kernels.fp8_unpack.kernel import dequantize_v4_2buff_to_bf16
from kvproof.kernels.fused_compress.kernel import fused_compress_attn
from kvproof.kernels.launch import launching_on

TARGETS = {
    "cuda-90": GPUTarget("cuda", 90, 32),
    "hip-gfx942": GPUTarget("hip", "gfx942", 64),
    "hip-gfx950": GPUTarget("hip", "gfx950", 64),
}
SHARED_BYTES = {"cuda-90": 232_448, "hip-gfx942": 65_536, "hip-gfx950": 163_840}
"""Shared memory that a program may have."""

OPTIONS = ("num_warps", "num_stages")
BF16, INT32 = torch.bfloat16, torch.int32


def launches(launcher: Any, **arguments: Any) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """(kernel, arguments, meta) of each launch that a launcher makes; nothing runs."""
    found: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    with launching_on(lambda kernel, _grid, *args, **meta: found.append((kernel, args, meta))):
        launcher(**arguments)
    return found


def compiled(
    target: str, launch: tuple[Any, tuple[Any, ...], dict[str, Any]], unaligned: str = "", **changed: Any
) -> Any:
    """A launch's kernel as that target's launch would specialise it: aligned pointers and strides.

    Args:
        unaligned: arguments whose names have this part are not aligned.
        changed: constants to put in place of those of the launch or of the target.
    """
    kernel, args, meta = launch
    # Conversion instructions are those of NVIDIA GPUs; a launch asks the device that it is on.
    cuda = target.startswith("cuda")
    if "NATIVE" in kernel.arg_names:
        meta["NATIVE"] = cuda and not meta["FNUZ"] and meta.get("PACKED", True)
    words = {
        "WORDS": cuda and meta.get("PACKED") and not meta["FNUZ"],
        "EXTEND_WORDS": cuda and meta.get("EXTEND"),
    }
    meta |= {name: value for name, value in {**words, **changed}.items() if name in kernel.arg_names}
    signature, values = signature_of(kernel, args, {k: v for k, v in meta.items() if k not in OPTIONS})
    kinds = {**signature.types, **dict.fromkeys(signature.constants, "constexpr")}
    exact = {p.name for p in kernel.params if p.do_not_specialize}
    exact |= {name for name in kernel.arg_names if unaligned and unaligned in name}
    aligned = [
        n for n, v in values.items() if n not in exact and (torch.is_tensor(v) or (type(v) is int and v % 16 == 0))
    ]
    names = kernel.arg_names
    source = ASTSource(
        kernel,
        {n: kinds[n] for n in names},
        constexprs=dict(signature.constants),
        attrs={(names.index(n),): [["tt.divisibility", 16]] for n in aligned},
    )
    options = {k: v for k, v in meta.items() if k in OPTIONS}
    return triton.compile(source, target=TARGETS[target], options=options)


def check(target: str, kernel: Any) -> str:
    """The target's assembly, after the last offline stage has been reached within the target's shared memory."""
    asm = kernel.asm
    assert asm["cubin" if target.startswith("cuda") else "hsaco"]
    assert kernel.metadata.shared <= SHARED_BYTES[target]
    return asm["ptx" if target.startswith("cuda") else "amdgcn"]


def pool(packed: bool) -> dict[str, Any]:
    return {
        "unified_kv": torch.zeros(64, 512, dtype=torch.uint8 if packed else BF16),
        "unified_kv_rope": torch.zeros(64, 64, dtype=BF16) if packed else None,
    }


def queries(heads: int) -> dict[str, Any]:
    return {
        "q": torch.zeros(2, heads, 512, dtype=BF16),
        "kv_indices": torch.zeros(96, dtype=INT32),
        "kv_indptr": torch.zeros(3, dtype=INT32),
        "attn_sink": torch.zeros(heads),
        "scale": 512**-0.5,
        "out": torch.zeros(2, heads, 512, dtype=BF16),
    }


def first_plan(target: str, heads: int, packed: bool) -> Plan:
    return tiles(heads, packed=packed, hip=target.startswith("hip"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("packed", [False, True], ids=["bf16", "packed"])
def test_decode_attention(target: str, packed: bool) -> None:
    (launch,) = launches(
        sparse_attn_v4_paged_decode, **queries(16), **pool(packed), plan=first_plan(target, 16, packed)
    )
    text = check(target, compiled(target, launch))
    # 16 heads are a row of small instructions; 64 are the least of a large one.
    assert ("mma.sync" if target.startswith("cuda") else "mfma") in text
    if target.startswith("cuda"):
        assert "cp.async" in text  # keys are gathered ahead, straight to shared memory
        assert ("cvt.rn.f16x2.e4m3x2" in text) is packed


def test_decode_attention_over_many_heads() -> None:
    for packed in (False, True):
        (launch,) = launches(
            sparse_attn_v4_paged_decode, **queries(128), **pool(packed), plan=first_plan("cuda-90", 128, packed)
        )
        text = check("cuda-90", compiled("cuda-90", launch))
        assert "wgmma.mma_async" in text


@pytest.mark.parametrize("target", TARGETS)
def test_split_attention_and_its_merge(target: str) -> None:
    found = launches(
        sparse_attn_v4_paged_decode, **queries(16), **pool(False), splits=4, plan=first_plan(target, 16, False)
    )
    assert [launch[0].__name__ for launch in found] == ["attend_kernel", "merge_kernel"]
    for launch in found:
        check(target, compiled(target, launch))


def prefill(target: str, heads: int, packed: bool, plan: Plan, splits: int = 1) -> Any:
    new = {
        "kv": torch.zeros(32, 512, dtype=BF16),
        "extend_indices": torch.zeros(96, dtype=INT32),
        "extend_indptr": torch.zeros(3, dtype=INT32),
    }
    return launches(
        sparse_attn_v4_paged_prefill, **queries(heads), **pool(packed), **new, plan=plan, splits=splits
    )[0]


@pytest.mark.parametrize("target", ["cuda-90", "hip-gfx942"])
def test_prefill_attention(target: str) -> None:
    check(target, compiled(target, prefill(target, 16, True, first_plan(target, 16, True))))


FORMS = {"words": {"WORDS": True, "FNUZ": False}, "bytes": {"WORDS": False, "FNUZ": False}, "fnuz": {"FNUZ": True}}
"""What a launch over packed rows chooses beside its plan, by what is in them."""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["bf16", *FORMS])
@pytest.mark.parametrize("heads", [16, 128])
@pytest.mark.parametrize("target", TARGETS)
def test_no_plan_needs_more_shared_memory_than_there_is(target: str, heads: int, form: str) -> None:
    hip, packed = target.startswith("hip"), form != "bf16"
    if hip and form == "words":
        form = "bytes"
    seen = set()
    # What is not aligned, by parts of names ("_" is in all); a plan may depend on the pool's planes.
    for unaligned, pool_aligned in (("", True), ("extend", True), ("plane", False), ("rope", False), ("_", False)):
        for few, splits in itertools.product((False, True), (1, 4)):
            plan = plan_of(heads, packed=packed, hip=hip, few=few, aligned=pool_aligned)
            if (key := (unaligned, plan, splits)) in seen or (splits > 1 and plan.block_h > 16):
                continue
            seen.add(key)
            changed = {**FORMS.get(form, {}), "EXTEND_WORDS": not hip and unaligned not in ("extend", "_")}
            if form == "fnuz":
                changed["WORDS"] = False
            kernel = compiled(target, prefill(target, heads, packed, plan, splits), unaligned, **changed)
            assert kernel.metadata.shared <= SHARED_BYTES[target], key
    assert len(seen) >= 5


@pytest.mark.slow
def test_five_tiles_of_packed_rows_that_begin_anywhere_are_too_many() -> None:
    # What the third number of tiles in flight is for; planted as a launch that asks for more than there is.
    plan = plan_of(16, packed=True, hip=False, few=True, aligned=True)
    shared = compiled("cuda-90", prefill("cuda-90", 16, True, plan), "rope").metadata.shared
    assert plan.stages == 5
    assert shared > SHARED_BYTES["cuda-90"]
    assert plan_of(16, packed=True, hip=False, few=True, aligned=False).stages == 3


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("variant", ["ocp", "fnuz"])
def test_packing_and_unpacking(target: str, variant: str) -> None:
    rows = torch.zeros(32, 512, dtype=BF16)
    planes = {"packed": torch.zeros(32, 512, dtype=torch.uint8), "rope": torch.zeros(32, 64, dtype=BF16)}
    (pack,) = launches(quantize_bf16_to_v4_2buff, src=rows, **planes, variant=variant)
    text = check(target, compiled(target, pack))
    native = target.startswith("cuda") and variant == "ocp"
    assert ("cvt.rn.satfinite.e4m3x2" in text) is native
    (unpack,) = launches(dequantize_v4_2buff_to_bf16, **planes, out=rows, variant=variant)
    text = check(target, compiled(target, unpack))
    # Subnormal codes pass through subnormal fp32.
    assert ".ftz" not in text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("ratio", "overlap", "packed"), [(4, True, True), (128, False, False)])
def test_fused_compression(target: str, ratio: int, overlap: bool, packed: bool) -> None:
    dim = 1024 if overlap else 512
    ring = 2 * ratio if overlap else ratio
    found = launches(
        fused_compress_attn,
        kv=torch.zeros(4, dim),
        score=torch.zeros(4, dim),
        ape=torch.zeros(ratio, dim),
        kv_state=torch.zeros(2, ring, dim),
        score_state=torch.zeros(2, ring, dim),
        compress_plan=torch.zeros(4, 4, dtype=INT32),
        state_slot_mapping=torch.zeros(4, dtype=INT32),
        rms_weight=torch.zeros(512),
        cos=torch.zeros(512, 32, dtype=BF16),
        sin=torch.zeros(512, 32, dtype=BF16),
        block_tables=torch.zeros(4, 16, dtype=INT32),
        pool=torch.zeros(64, 512, dtype=torch.uint8 if packed else BF16),
        pool_rope=torch.zeros(64, 64, dtype=BF16) if packed else None,
        envelope_rows=16,
        block_rows=2,
        blocks=4,
        ratio=ratio,
        overlap=overlap,
        rms_eps=1e-6,
    )
    # Over 128 positions one launch pools and another goes on.
    assert len(found) == (1 if overlap else 2)
    for launch in found:
        check(target, compiled(target, launch))
