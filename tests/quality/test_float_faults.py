"""Faults planted in copies of the kernels that compute: each is found by its property and shrunk."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.check.codec import case_from_json
from kvproof.harness.check.differential import CaseFailed, check_case
from kvproof.harness.devices.registry import find_device
from kvproof.harness.run.fuzz import fuzz_kernel
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.reports.verdict import Status

Edit = tuple[str, str]

MODULES = {
    "fp8_pack": ("fp8_parts", "fp8_pack.kernel"),
    "fp8_unpack": ("fp8_parts", "fp8_unpack.kernel"),
    "attention_decode": (
        "attention_keys",
        "attention_core",
        "attention_kernels",
        "attention_many",
        "attention_plan",
        "attention_launch",
        "attention_decode.kernel",
    ),
    "fused_compress": ("fp8_parts", "fused_compress.device", "fused_compress.kernel"),
}
"""Modules that are copied for each kernel; a later one may import an earlier one, the last has the launcher."""


def planted(folder: Path, fault: str, kernel: str, edits: Mapping[str, Sequence[Edit]]) -> Kernel:
    """A copy of a kernel under other module names, with some of its text replaced.

    Args:
        folder: where the copy is written.
        fault: name of the fault, unique in the process.
        kernel: which kernel.
        edits: by module, (text, replacement) pairs; each text must occur exactly once.
    """
    renamed: dict[str, str] = {}
    assert set(edits) <= set(MODULES[kernel])
    for part in MODULES[kernel]:
        source = importlib.util.find_spec(f"kvproof.kernels.{part}")
        assert source is not None
        assert source.origin is not None
        text = Path(source.origin).read_text(encoding="utf-8")
        for old, new in edits.get(part, ()):
            assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {part}"
            text = text.replace(old, new)
        for earlier, name in renamed.items():
            text = text.replace(f"kvproof.kernels.{earlier} ", f"{name} ")
        name = f"planted_{fault}_{part.replace('.', '_')}"
        path = folder / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        renamed[part] = name
    original = all_kernels()[kernel]
    launcher = original.launcher.partition(":")[2]
    return replace(original, launcher=f"{renamed[MODULES[kernel][-1]]}:{launcher}")


@dataclass(frozen=True)
class Fault:
    """A planted fault and what must be found.

    Attributes:
        kernel: whose property finds it.
        edits: what is changed, by module.
        message: part of the finding's message.
        smallest: the shrunk case: argument -> what it must be (a shape, for a tensor of rows).
        kind: kind of the failure.
    """

    kernel: str
    edits: Mapping[str, Sequence[Edit]]
    message: str
    smallest: Mapping[str, Any]
    kind: str = "content"


DEVICE = "ir"
ONE_TOKEN = {"q": (1, 1, 512)}

FAULTS: dict[str, Fault] = {
    # F18: masked lanes read row 0 and multiply by 0.
    "poisoned null row": Fault(
        "attention_decode",
        {
            "attention_core": [
                (
                    "            row, live, plane_ptr, plane_stride,",
                    "            tl.where(live, row, 0), row == row, plane_ptr, plane_stride,",
                ),
            ]
        },
        "token 0 over 1 entries",
        {**ONE_TOKEN, "kv_indptr": [0, 1]},
    ),
    # F13: the view's rows are taken to be 512 elements apart.
    "dense stride assumed": Fault(
        "attention_decode",
        {"attention_launch": [("        keys.rows.stride(0),\n", "        WIDTH,\n")]},
        "plane_ptr: element 512 of a view of shape (2, 512)",
        {**ONE_TOKEN, "unified_kv": (2, 512), "kv_indptr": [0, 1]},
        kind="out of bounds",
    ),
    "entry past the plane": Fault(
        "attention_decode",
        {"attention_core": [("live = (row >= 0) & (row < rows)", "live = row >= 0")]},
        "plane_ptr: element 512 of a view of shape (1, 512)",
        {**ONE_TOKEN, "kv_indptr": [0, 1], "kv_indices": [1]},
        kind="out of bounds",
    ),
    "last key dropped": Fault(
        "attention_decode",
        {"attention_core": [("mask=at < stop, other=-1", "mask=at < stop - 1, other=-1")]},
        "token 0 over 1 entries",
        {**ONE_TOKEN, "kv_indptr": [0, 1], "kv_indices": [0], "unified_kv": (1, 512)},
    ),
    "sink forgotten": Fault(
        "attention_decode",
        {"attention_core": [("tl.fma(total, own, tl.exp2(sink - base))", "total * own")]},
        "token 0 over 1 entries",
        {**ONE_TOKEN, "kv_indptr": [0, 1]},
    ),
    "earlier tiles forgotten": Fault(
        "attention_decode",
        {"attention_core": [("return tl.fma(tile, take, before * keep)", "return tile * take")]},
        "token 0 over 65 entries",
        {**ONE_TOKEN, "kv_indptr": [0, 65]},
    ),
    "sums of many heads keep their scale": Fault(
        "attention_decode",
        {"attention_many": [("tl.dot(weights, k1, c1 * keep[:, None])", "tl.dot(weights, k1, c1)")]},
        "token 0 over",
        {"q": (1, 17, 512)},
    ),
    "scratch of two tokens meets": Fault(
        "attention_decode",
        {"attention_core": [("first // BLOCK_N + token", "first // BLOCK_N")]},
        "",
        {"q": (2, 1, 512), "splits": 2},
        kind="",
    ),
    # F20: scales once each instead of twice.
    "scales packed otherwise": Fault(
        "fp8_pack",
        {"fp8_parts": [("+ 448 + (2 * tile)[None, :]", "+ 448 + tile[None, :]")]},
        "row 0 of src, packed",
        {"src": (1, 512)},
        kind="",
    ),
    # F14: padding is written over the scales.
    "padding over scales": Fault(
        "fp8_pack",
        {"fp8_parts": [("(place >= 14)", "(place >= 13)")]},
        "written by two stores of one program",
        {"src": (1, 512)},
        kind="collision",
    ),
    "ties away from zero": Fault(
        "fp8_pack",
        {"fp8_parts": [("(bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20", "(bits + 0x80000) >> 20")]},
        "row 0 of src, packed",
        {"src": (1, 512)},
    ),
    "scale a step late": Fault(
        "fp8_pack",
        {"fp8_parts": [("0x0FFFFF if FNUZ else 0x1FFFFF", "0x0FFFFF if FNUZ else 0x1EFFFF")]},
        "row 0 of src, packed",
        {"src": (1, 512)},
    ),
    "NaN sets the scale": Fault(
        "fp8_pack",
        {"fp8_parts": [("tl.max(finite_or_zero(size), axis=2)", "tl.max(size, axis=2)")]},
        "row 0 of src, packed",
        {"src": (1, 512)},
    ),
    "subnormals flushed": Fault(
        "fp8_unpack",
        {
            "fp8_parts": [
                (
                    "bits = tl.where((wide & mask) == nan, 0x7FC00000, bits)",
                    "bits = tl.where((wide & mask) == nan, 0x7FC00000, tl.where((wide & 0x78) == 0, 0, bits))",
                )
            ]
        },
        "row 0 of packed, unpacked",
        {"packed": (1, 512)},
    ),
    # F10: what an earlier forward left in the ring is not used.
    "resumed without its state": Fault(
        "fused_compress",
        {"fused_compress.device": [("old = seen & (k < window)", "old = seen & (k < 0)")]},
        "entry 0 of sequence 0",
        {"kv": (1, 1024), "kv_state": (1, 8, 1024)},
    ),
    # F16: positions before the request's first are read from the slot, where its last owner's are.
    "inherited state": Fault(
        "fused_compress",
        {
            "fused_compress.device": [
                ("seen = (at >= 0) & (k < K)", "seen = k < K"),
                ("place = (at % ring)[:, None]", "place = ((at + ring) % ring)[:, None]"),
            ]
        },
        "entry 0 of sequence 0",
        {"kv": (1, 1024)},
    ),
    "halves of a row swapped": Fault(
        "fused_compress",
        {
            "fused_compress.device": [
                ("tl.where(k >= RATIO, 512, 0)", "tl.where(k >= RATIO, 0, K // RATIO * 512 - 512)")
            ]
        },
        "entry 0 of sequence 0",
        {"kv": (1, 1024)},
    ),
    "columns pooled by one program": Fault(
        "fused_compress",
        {"fused_compress.device": [("first_column = tl.program_id(1) * COLUMNS", "first_column = 0")]},
        "pooled_ptr: storage element 0 is written by programs (0, 0, 0) and (0, 1, 0)",
        {"kv": (1, 512)},
        kind="collision",
    ),
    "angle of the last position": Fault(
        "fused_compress",
        {"fused_compress.device": [("entry * RATIO, angle_stride", "pos, angle_stride")]},
        "entry 0 of sequence 0",
        {"kv": (1, 1024)},
    ),
    # F05: a block id past the pool's blocks.
    "no block bound": Fault(
        "fused_compress",
        {"fused_compress.device": [(" & (block < blocks) & (row < pool_rows)", "")]},
        "",
        {"compress_plan": (1, 4), "state_slot_mapping": [0]},
        kind="",
    ),
}


def told(launch: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a stored launch, short: lists for vectors, shapes for what has more dimensions."""
    short: dict[str, Any] = {}
    for name, value in launch["values"].items():
        if isinstance(value, dict) and "shape" in value:
            vector = len(value["shape"]) == 1 and "bits" in value
            short[name] = value["bits"] if vector else tuple(value["shape"])
        else:
            short[name] = value
    return short


# Found as well by `make slow`, which has the time.
LONG = (
    "sums of many heads keep their scale",
    "columns pooled by one program",
    "halves of a row swapped",
    "inherited state",
    "resumed without its state",
    "dense stride assumed",
    "entry past the plane",
)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in FAULTS])
def test_fault_is_found_and_shrunk(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    kernel = planted(tmp_path, name.replace(" ", "_"), fault.kernel, fault.edits)
    device = find_device(DEVICE)
    result = fuzz_kernel(kernel, device, budget_seconds=60, seed=0)

    assert result.verdict.status is Status.FAIL
    (finding,) = result.findings
    assert finding.message.startswith(fault.kind)
    assert fault.message in finding.message
    found = told(finding.case["launch"])
    assert {argument: found[argument] for argument in fault.smallest} == dict(fault.smallest)

    # The stored case fails with the fault, alone, and does not fail without it.
    case = case_from_json(finding.case["launch"])
    with pytest.raises(CaseFailed):
        check_case(kernel, device, case)
    check_case(all_kernels()[fault.kernel], device, case)


@pytest.mark.fuzz
@pytest.mark.parametrize("kernel", MODULES)
def test_copies_without_a_fault_pass(kernel: str, tmp_path: Path) -> None:
    copy = planted(tmp_path, f"none_{kernel}", kernel, {})
    result = fuzz_kernel(copy, find_device(DEVICE), budget_seconds=60, seed=0, case_target=30)
    assert result.findings == ()
    assert result.cases == 30


def test_an_edit_that_does_not_apply_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"occurs 0 times in fp8_pack\.kernel"):
        planted(tmp_path, "stale", "fp8_pack", {"fp8_pack.kernel": [("no such text", "")]})


def test_the_table_in_the_documents_has_every_fault() -> None:
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    for name, fault in FAULTS.items():
        assert f"| {name} | `{fault.kernel}` |" in text
