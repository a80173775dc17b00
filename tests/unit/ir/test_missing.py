"""A contract that lacks a clause: the report names the weakest of the usual ones that would do."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("z3")

import triton
import triton.language as tl

from kvproof.harness.prove.kernels import short
from kvproof.harness.prove.kernels.own import check_kernel


@triton.jit
def scattered(dest, out, BAD: tl.constexpr):
    t = tl.program_id(0)
    tl.store(out + tl.load(dest + t) + BAD, t)


@triton.jit
def sliced(ends, out, cells):
    t = tl.program_id(0)
    first, last = tl.load(ends + t), tl.load(ends + t + 1)
    tl.store(out + cells - 1 - (last - first), t, mask=last - first < cells)


@triton.jit
def followed(pos, out):
    t = tl.program_id(0)
    tl.store(out + t + tl.load(pos + t + 1) - tl.load(pos + t) - 1, t)


@triton.jit
def copied(x, out):
    t = tl.program_id(0)
    tl.store(out + t, tl.load(x + t))


def _missing(kernel, tensors, property_name, requires=(), grid=lambda a: (a.n,), **arguments):
    out = short.may_write("out", {"row": tensors["out"].split("[")[1].rstrip("]")}, row=lambda _a, i: i)
    contract = short.contract_of(kernel, tensors, requires=requires, writes=out)
    report = check_kernel(kernel, contract, grid=grid, arguments=arguments)
    return [f.missing for f in report.failures if str(f.found.property) == property_name]


SCATTER = {"dest": "int32[n]", "out": "inout int32[m]"}


@pytest.mark.parametrize(
    ("requires", "wanted"),
    [
        ((), "0 <= dest[i] < m"),
        ((short.at_least("dest", 0),), "dest[i] < m"),
        ((short.at_least("dest", 0), short.at_most("dest", "m")), "dest[i] < m"),
        ((short.below("dest", "m"),), "dest[i] >= 0"),
    ],
)
def test_a_range(requires, wanted):
    assert _missing(scattered, SCATTER, "in bounds", requires, BAD=0) == [wanted]


def test_distinct_elements():
    requires = (short.between("dest", 0, "m"),)
    assert _missing(scattered, SCATTER, "one writer a cell", requires, BAD=0) == [
        "dest[i] != dest[j] unless negative"
    ]


def test_an_order():
    tensors = {"ends": "int32[bounds]", "out": "inout int32[cells]"}
    requires = (short.between("ends", 0, "cells"),)
    found = _missing(sliced, tensors, "in bounds", requires, grid=lambda a: (a.bounds - 1,))
    assert found == ["ends[i] <= ends[i + 1]"]


def test_consecutive_elements():
    tensors = {"pos": "int32[n]", "out": "inout int32[n]"}
    found = _missing(followed, tensors, "in bounds", (short.between("pos", 0, "n"),), grid=lambda a: (a.n - 1,))
    assert found == ["pos[i + 1] == pos[i] + 1"]


def test_an_extent():
    tensors = {"x": "int32[n]", "out": "inout int32[m]"}
    assert _missing(copied, tensors, "in bounds") == ["n <= m"]


def test_with_the_clause_nothing_fails():
    contract = short.contract_of(
        scattered,
        SCATTER,
        requires=(short.between("dest", 0, "m"), short.distinct("dest")),
        writes=short.writes("out", {"t": "n"}, row=lambda a, t: a.dest[t]),
    )
    report = check_kernel(scattered, contract, grid=lambda a: (a.n,), arguments={"BAD": 0})
    assert report.passed, report


def test_a_fault_that_no_clause_excludes_is_not_explained():
    requires = (short.between("dest", 0, "m"), short.distinct("dest"))
    # One row further than it says: what clause would exclude that is none of the usual.
    (found,) = _missing(scattered, SCATTER, "in bounds", requires, BAD=1)
    assert found == ""


@pytest.mark.parametrize("text", ["bf16", "bf17[T]", "bf16[T", "in bf16[T]"])
def test_a_tensor_that_is_no_tensor_is_refused(text):
    with pytest.raises(ValueError, match="allowed: "):
        short.tensor_of("x", text)


def test_a_clause_about_no_tensor_is_refused():
    with pytest.raises(ValueError, match="speaks of tensor 'y'; allowed: dest, out"):
        short.contract_of(scattered, SCATTER, requires=(short.distinct("y"),))


def test_rows_are_apart_where_the_kernel_takes_a_stride():
    @triton.jit
    def strided(x, x_stride, out):
        tl.store(out, tl.load(x + x_stride))

    contract = short.contract_of(strided, {"x": "bf16[T, 64]", "out": "out bf16[T, 64]"})
    assert {t.name: (t.strides, t.role) for t in contract.tensors} == {
        "x": ("rows", "in"),
        "out": ("contiguous", "out"),
    }
