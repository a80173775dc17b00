"""Attention: independence to the last bit, its specification against plain loops, and what launchers refuse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.harness.devices.interpret import InterpretDevice
from kvproof.kernels.attention_checks import check_apart
from kvproof.kernels.attention_decode.kernel import sparse_attn_v4_paged_decode
from kvproof.kernels.attention_decode.spec import Source, attention
from kvproof.kernels.attention_plan import tiles
from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import TensorValue, bind, contiguous, within_bound
from kvproof.models.floats import from_bf16, to_bf16
from kvproof.models.packed_row import E4M3_OCP, NOPE, WIDTH, pack_rows

DEVICE = InterpretDevice()
ROWS = 40
LENGTHS = (70, 0, 3, 130)
PLANES = pytest.mark.parametrize("packed", [False, True], ids=["bf16", "packed"])
Bits = npt.NDArray[np.uint16]


def numbers(shape: tuple[int, ...], seed: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def decode_case(packed: bool, heads: int = 3, splits: int = 1) -> dict[str, Any]:
    """Four tokens with slices of 70, 0, 3 and 130 entries over 40 rows."""
    kv = numbers((ROWS, WIDTH), 1)
    bounds = np.concatenate([[0], np.cumsum(LENGTHS)])
    return {
        "q": contiguous("bf16", to_bf16(numbers((len(LENGTHS), heads, WIDTH), 2))),
        "unified_kv": (
            contiguous("uint8", pack_rows(kv[:, :NOPE], E4M3_OCP)) if packed else contiguous("bf16", to_bf16(kv))
        ),
        "kv_indices": contiguous("int32", np.random.default_rng(3).integers(0, ROWS, bounds[-1])),
        "kv_indptr": contiguous("int32", bounds),
        "attn_sink": contiguous("fp32", numbers((heads,), 4)),
        "scale": WIDTH**-0.5,
        "out": contiguous("bf16", np.full((len(LENGTHS), heads, WIDTH), 0x1234)),
        "unified_kv_rope": contiguous("bf16", to_bf16(kv[:, NOPE:])) if packed else None,
        "variant": "ocp",
        "splits": splits,
    }


def attend(values: Mapping[str, Any], kernel: str = "attention_decode") -> Bits:
    return DEVICE.run(all_kernels()[kernel], values)["out"].array.copy()


def of_tokens(case: Mapping[str, Any], tokens: list[int]) -> dict[str, Any]:
    """The same launch with some of its tokens, in this order."""
    bounds, entries = case["kv_indptr"].array, case["kv_indices"].array
    slices = [entries[bounds[t] : bounds[t + 1]] for t in tokens]
    heads = case["q"].shape[1]
    return {
        **case,
        "q": contiguous("bf16", case["q"].array[tokens]),
        "kv_indices": contiguous("int32", np.concatenate([*slices, np.zeros(0)])),
        "kv_indptr": contiguous("int32", np.concatenate([[0], np.cumsum([len(s) for s in slices])])),
        "out": contiguous("bf16", np.full((len(tokens), heads, WIDTH), 0x1234)),
    }


@PLANES
@pytest.mark.parametrize("splits", [2, 3, 7, 32])
def test_no_bit_depends_on_the_number_of_splits(packed: bool, splits: int) -> None:
    assert np.array_equal(attend(decode_case(packed, splits=splits)), attend(decode_case(packed)))


@PLANES
@pytest.mark.parametrize("tokens", [[0], [3], [3, 2, 1, 0], [2, 0, 2]], ids=str)
def test_no_bit_depends_on_the_batch(packed: bool, tokens: list[int]) -> None:
    whole = decode_case(packed)
    for splits in (1, 2):
        part = {**of_tokens(whole, tokens), "splits": splits}
        assert np.array_equal(attend(part), attend(whole)[tokens])


def test_no_bit_depends_on_padding() -> None:
    """A larger bucket: padded tokens with empty slices behind, and stale entries past the last slice."""
    case = decode_case(packed=False)
    bounds, entries = case["kv_indptr"].array, case["kv_indices"].array
    padded = {
        **case,
        "q": contiguous("bf16", np.concatenate([case["q"].array, np.full((4, 3, WIDTH), 0x7FC0)])),
        "kv_indices": contiguous("int32", np.concatenate([entries, np.full(100, 2**31 - 1)])),
        "kv_indptr": contiguous("int32", np.concatenate([bounds, np.full(4, bounds[-1])])),
        "out": contiguous("bf16", np.full((8, 3, WIDTH), 0x1234)),
    }
    result = attend(padded)
    assert np.array_equal(result[:4], attend(case))
    assert not result[4:].any()


@PLANES
def test_no_bit_depends_on_where_rows_lie(packed: bool) -> None:
    """Rows permuted in the plane, and the plane a view with rows further apart: entries say where they are."""
    case = decode_case(packed)
    order = np.random.default_rng(9).permutation(ROWS)
    plane: TensorValue = case["unified_kv"]
    wide = np.full((ROWS, WIDTH + 48), 0xFF, plane.array.dtype)
    wide[order, :WIDTH] = plane.array
    moved = {
        **case,
        "unified_kv": TensorValue(plane.dtype, wide.reshape(-1), plane.shape, (WIDTH + 48, 1)),
        "kv_indices": contiguous("int32", order[case["kv_indices"].array]),
    }
    if packed:
        rope = np.zeros((ROWS, 64), np.uint16)
        rope[order] = case["unified_kv_rope"].array
        moved["unified_kv_rope"] = contiguous("bf16", rope)
    assert np.array_equal(attend(moved), attend(case))


@pytest.mark.parametrize("packed", [False, True], ids=["bf16", "packed"])
@pytest.mark.parametrize(("heads", "kept"), [(16, 1), (66, 17)])
def test_no_bit_of_a_head_depends_on_the_others(heads: int, kept: int, packed: bool) -> None:
    # Many heads are another kernel's than few.
    case = decode_case(packed=packed, heads=heads)
    last = {
        **case,
        "q": contiguous("bf16", case["q"].array[:, -kept:]),
        "attn_sink": contiguous("fp32", case["attn_sink"].array[-kept:]),
        "out": contiguous("bf16", np.zeros((4, kept, WIDTH), np.uint16)),
    }
    assert np.array_equal(attend(case)[:, -kept:], attend(last))


def test_many_heads_are_not_split() -> None:
    case = decode_case(packed=True, heads=17)
    assert np.array_equal(attend({**case, "splits": 7}), attend(case))


def test_an_entry_that_lists_no_row_is_as_none() -> None:
    case = decode_case(packed=False)
    entries = case["kv_indices"].array.copy()
    entries[[5, 69, 72]] = [-1, ROWS, -(2**31)]
    dead = {**case, "kv_indices": contiguous("int32", entries)}
    arguments = bind(all_kernels()["attention_decode"].contract, dead)
    source = Source(dead["unified_kv"].array, None, "ocp", arguments.kv_indices, arguments.kv_indptr)
    wanted = attention(dead["q"].array, range(4), [source], dead["attn_sink"].array, dead["scale"])
    assert within_bound(from_bf16(attend(dead)), wanted).all()


def test_prefill_without_new_rows_is_decode() -> None:
    case = decode_case(packed=False)
    none = {
        "kv": contiguous("bf16", np.full((1, WIDTH), 0x7FC0)),
        "extend_indices": contiguous("int32", np.zeros(0)),
        "extend_indptr": contiguous("int32", np.zeros(5)),
    }
    assert np.array_equal(attend({**case, **none}, "attention_prefill"), attend(case))


def test_prefill_over_new_rows_alone_is_decode_over_them() -> None:
    case = decode_case(packed=False)
    moved = {
        "kv": case["unified_kv"],
        "extend_indices": case["kv_indices"],
        "extend_indptr": case["kv_indptr"],
        "kv_indices": contiguous("int32", np.zeros(0)),
        "kv_indptr": contiguous("int32", np.zeros(5)),
    }
    for splits in (1, 3):
        assert np.array_equal(attend({**case, **moved, "splits": splits}, "attention_prefill"), attend(case))


# ---- the specification --------------------------------------------------


def test_the_specification_agrees_with_plain_loops() -> None:
    case = decode_case(packed=False, heads=2)
    kv, q = from_bf16(case["unified_kv"].array), from_bf16(case["q"].array)
    sink, scale = case["attn_sink"].array.astype(float), case["scale"]
    bounds, entries = case["kv_indptr"].array.astype(int), case["kv_indices"].array.astype(int)
    source = Source(case["unified_kv"].array, None, "ocp", entries, bounds)
    found = attention(case["q"].array, [0, 2], [source], case["attn_sink"].array, scale)
    for at, token in enumerate((0, 2)):
        for head in range(2):
            rows = [kv[e] for e in entries[bounds[token] : bounds[token + 1]]]
            scores = [scale * math.fsum(a * b for a, b in zip(row, q[token, head], strict=True)) for row in rows]
            total = math.fsum([*map(math.exp, scores), math.exp(sink[head])])
            for column in (0, 447, 511):
                wanted = math.fsum(math.exp(s) * row[column] for s, row in zip(scores, rows, strict=True)) / total
                assert found.exact[at, head, column] == pytest.approx(wanted, rel=1e-12, abs=1e-14)


def test_the_bound_says_something() -> None:
    """A bound as wide as the values would accept anything: here it stays under 3 % of their spread."""
    case = decode_case(packed=False)
    arguments = bind(all_kernels()["attention_decode"].contract, case)
    wanted = all_kernels()["attention_decode"].contract.writes[0].bound
    assert wanted is not None
    found = wanted(arguments, np.array([0, 2, 3]))
    assert found.error.max() < 0.03 * np.abs(from_bf16(case["unified_kv"].array)).mean()
    one_key_less = wanted(
        bind(
            all_kernels()["attention_decode"].contract,
            {**case, "kv_indptr": contiguous("int32", [0, 69, 70, 72, 202])},
        ),
        np.array([0, 2]),
    )
    assert not within_bound(one_key_less.exact[1], type(found)(found.exact[1], found.error[1])).all()


def test_an_empty_slice_gives_zero_and_no_leeway() -> None:
    case = decode_case(packed=False)
    arguments = bind(all_kernels()["attention_decode"].contract, case)
    bound = all_kernels()["attention_decode"].contract.writes[0].bound
    assert bound is not None
    found = bound(arguments, np.array([1]))
    assert not found.exact.any()
    assert not found.error.any()


# ---- plans and launchers ------------------------------------------------


@PLANES
@pytest.mark.parametrize("hip", [False, True], ids=["cuda", "hip"])
def test_tiles_of_keys_depend_on_heads_and_planes_alone(packed: bool, hip: bool) -> None:
    for heads in (1, 8, 16, 17, 32, 64, 128):
        plan = tiles(heads, packed=packed, hip=hip)
        assert plan.block_n in {32, 64}
        assert plan.block_h & (plan.block_h - 1) == 0
        assert plan == tiles(heads, packed=packed, hip=hip)


def good() -> dict[str, Any]:
    return {
        "q": torch.zeros(2, 4, 512, dtype=torch.bfloat16),
        "unified_kv": torch.zeros(8, 512, dtype=torch.bfloat16),
        "kv_indices": torch.zeros(6, dtype=torch.int32),
        "kv_indptr": torch.zeros(3, dtype=torch.int32),
        "attn_sink": torch.zeros(4),
        "scale": 1.0,
        "out": torch.zeros(2, 4, 512, dtype=torch.bfloat16),
    }


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("q", torch.zeros(2, 4, 512), TypeError, "q must be bfloat16"),
        ("q", torch.zeros(2, 4, 256, dtype=torch.bfloat16), ValueError, "q must have shape"),
        ("q", torch.zeros(2, 4, 1024, dtype=torch.bfloat16)[:, :, ::2], ValueError, "q must have contiguous"),
        ("unified_kv", torch.zeros(8, 512), TypeError, "unified_kv must be bfloat16"),
        ("unified_kv", torch.zeros(512, 8, dtype=torch.bfloat16).T, ValueError, "unified_kv must have contiguous"),
        ("kv_indices", torch.zeros(6, dtype=torch.int64), TypeError, "kv_indices must be int32"),
        ("kv_indptr", torch.zeros(2, dtype=torch.int32), ValueError, "kv_indptr must have at least 3 elements"),
        ("attn_sink", torch.zeros(5), ValueError, "attn_sink must have shape"),
        ("out", torch.zeros(1, 4, 512, dtype=torch.bfloat16).expand(2, 4, 512), ValueError, "heads that overlap"),
        ("out", torch.zeros(2, 1, 512, dtype=torch.bfloat16).expand(2, 4, 512), ValueError, "heads that overlap"),
        ("unified_kv_rope", torch.zeros(8, 64, dtype=torch.bfloat16), TypeError, "unified_kv must be uint8"),
        ("variant", "e5m2", ValueError, "variant must be one of ocp, fnuz"),
        ("splits", 33, ValueError, "splits must be an integer from 0 to 32"),
        ("splits", -1, ValueError, "splits must be an integer from 0 to 32"),
    ],
)
def test_the_launcher_refuses(name: str, value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sparse_attn_v4_paged_decode(**{**good(), name: value})


@pytest.mark.parametrize("shape", [(2, 4, 512), (1, 4, 512), (2, 1, 512)])
def test_a_result_may_lie_token_after_token_or_head_after_head(shape: tuple[int, ...]) -> None:
    check_apart("out", torch.zeros(shape))
    check_apart("out", torch.zeros(shape[1], shape[0], 512).transpose(0, 1))
    check_apart("out", torch.zeros(2 * shape[0], shape[1], 700)[::2, :, :512])


def test_the_launcher_takes_no_tokens() -> None:
    none = {**good(), "q": good()["q"][:0], "out": good()["out"][:0]}
    sparse_attn_v4_paged_decode(**none)  # launches nothing: without a backend, a launch on the CPU would fail
