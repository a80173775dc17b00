"""The packed row's formats against an independent implementation, and its rules one by one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from kvproof.models.floats import BF16_TINY, BF16_UNIT, FP32_UNIT, from_bf16, to_bf16
from kvproof.models.packed_row import (
    E4M3_FNUZ,
    E4M3_OCP,
    NOPE,
    SCALE_AT,
    TILE,
    USED_BYTES,
    Float8,
    pack_rows,
    scale_exponent,
    unpack_rows,
)

INDEPENDENT = {"ocp": ml_dtypes.float8_e4m3fn, "fnuz": ml_dtypes.float8_e4m3fnuz}
BOTH = pytest.mark.parametrize("form", [E4M3_OCP, E4M3_FNUZ], ids=lambda f: f.name)
ALL_BF16 = np.arange(65536, dtype=np.uint16)


def row(**elements: float) -> npt.NDArray[np.float64]:
    """One row of zeros with some elements set: ``row(e0=1.0)``."""
    values = np.zeros((1, NOPE))
    for name, value in elements.items():
        values[0, int(name[1:])] = value
    return values


@BOTH
def test_every_code_decodes_as_elsewhere(form: Float8) -> None:
    codes = np.arange(256, dtype=np.uint8)
    other = codes.view(INDEPENDENT[form.name]).astype(np.float64)
    assert np.array_equal(form.decode(codes), other, equal_nan=True)


@BOTH
def test_every_bf16_encodes_as_elsewhere(form: Float8) -> None:
    values = from_bf16(ALL_BF16)
    with np.errstate(all="ignore"):
        other = values.astype(np.float32).astype(INDEPENDENT[form.name]).view(np.uint8)
    assert np.array_equal(form.encode(values), other)


@BOTH
def test_ties_neighbours_and_overflow_encode_as_elsewhere(form: Float8) -> None:
    places = np.append(form.values[: form.largest_code + 1], 2 * form.max)
    ties = (places[1:] + places[:-1]) / 2
    probes = np.concatenate([places, ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf)]).astype(np.float32)
    probes = np.concatenate([probes, -probes]).astype(np.float32)
    with np.errstate(all="ignore"):
        other = probes.astype(INDEPENDENT[form.name]).view(np.uint8)
    assert np.array_equal(form.encode(probes), other)


def test_overflow_is_nan_and_the_last_tie_is_not() -> None:
    assert E4M3_OCP.encode([464.0, np.nextafter(464.0, 500)]).tolist() == [0x7E, 0x7F]
    assert E4M3_FNUZ.encode([np.nextafter(248.0, 0), 248.0]).tolist() == [0x7F, 0x80]


def test_bf16_rounds_as_elsewhere() -> None:
    rng = np.random.default_rng(7)
    single = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        other = single.astype(ml_dtypes.bfloat16).view(np.uint16)
        values = single.astype(np.float64)
    assert np.array_equal(to_bf16(values), other)


def test_units_are_the_distances_they_say() -> None:
    assert from_bf16(np.array([0x3F81], np.uint16))[0] - 1.0 == BF16_UNIT
    assert from_bf16(np.array([1], np.uint16))[0] == BF16_TINY
    assert np.nextafter(np.float32(1), np.float32(2)) - np.float32(1) == FP32_UNIT


def test_bf16_round_trips() -> None:
    values = from_bf16(ALL_BF16)
    known = ~np.isnan(values)
    assert np.array_equal(to_bf16(values)[known], ALL_BF16[known])


@BOTH
def test_scale_is_the_least_that_fits(form: Float8) -> None:
    magnitudes = from_bf16(np.arange(1, 0x7F80, dtype=np.uint16))
    exponent = scale_exponent(magnitudes, form)
    assert (np.ldexp(magnitudes, -exponent) <= form.max).all()
    assert ((np.ldexp(magnitudes, 1 - exponent) > form.max) | (exponent == -13)).all()


@BOTH
def test_scale_steps_just_past_the_largest_value(form: Float8) -> None:
    past = np.nextafter(form.max, np.inf)
    assert scale_exponent(np.array([form.max, past, 2 * form.max]), form).tolist() == [0, 1, 1]


@BOTH
def test_zero_tile_has_the_least_scale(form: Float8) -> None:
    packed = pack_rows(row(), form)
    assert packed[0, :NOPE].max() == 0
    assert packed[0, SCALE_AT:USED_BYTES].tolist() == [114] * 14
    assert not packed[0, USED_BYTES:].any()
    assert not unpack_rows(packed, form).any()


@BOTH
def test_scales_are_written_twice_and_in_tile_order(form: Float8) -> None:
    tiles = {f"e{t * TILE}": form.max * 2.0**t for t in range(7)}
    packed = pack_rows(row(**tiles), form)
    assert packed[0, SCALE_AT:USED_BYTES].tolist() == [127 + t for t in range(7) for _ in range(2)]


@BOTH
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_element_spoils_only_itself(form: Float8, bad: float) -> None:
    clean, spoiled = row(e0=3.0, e5=-1.5, e70=100.0), row(e0=3.0, e5=-1.5, e9=bad, e70=100.0)
    packed = pack_rows(spoiled, form)
    want = pack_rows(clean, form)
    assert np.isnan(unpack_rows(packed, form)[0, 9])
    assert np.flatnonzero(packed != want).tolist() == [9]


@BOTH
def test_scale_byte_zero_decodes_to_zero(form: Float8) -> None:
    packed = pack_rows(row(e0=3.0, e64=5.0), form)
    packed[0, SCALE_AT] = 0
    values = unpack_rows(packed, form)
    assert values[0, 0] == 0
    assert values[0, 64] == 5.0


@BOTH
def test_round_trip_is_within_half_a_step(form: Float8) -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((64, NOPE)) * np.exp2(rng.integers(-20, 20, (64, 1)))
    back = unpack_rows(pack_rows(values, form), form)
    tiles = np.abs(values).reshape(64, 7, TILE)
    scale = np.exp2(scale_exponent(tiles.max(axis=2), form))
    least = np.repeat(scale, TILE, axis=1) * form.smallest
    assert (np.abs(back - values) <= np.maximum(np.abs(values) * 2.0**-4, least / 2)).all()
