"""A tensor to which a contract declares no write may not be written, whatever its role."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("z3")

import triton
import triton.language as tl

from kvproof.harness.prove.kernels import short
from kvproof.harness.prove.kernels.own import check_kernel
from kvproof.harness.prove.kernels.properties import Property
from kvproof.reports.verdict import Status


@triton.jit
def clobber(x_ptr, o_ptr, n, MADE: tl.constexpr):
    t = tl.program_id(0)
    v = tl.load(x_ptr + t)
    tl.store(x_ptr + t, 0, mask=(t < n) if MADE else (t >= n))
    tl.store(o_ptr + t, v)


EACH = {"t": "n"}


def _row(_a, t):
    return t


def _found(tensors, writes, *, made=True):
    contract = short.contract_of(clobber, tensors, writes=writes)
    report = check_kernel(clobber, contract, grid=lambda a: (a.n,), arguments={"MADE": made})
    (result,) = [r for r in report.results if r.property is Property.ADDRESS_MAP]
    assert all(r.verdict.passed for r in report.results if r is not result), report
    return result.verdict.status, [(f.found.buffer, f.found.location.frames[0].line) for f in result.failures]


FIRST = clobber.fn.__code__.co_firstlineno
LINES = {"x": FIRST + 4, "o": FIRST + 5}


@pytest.mark.parametrize("role", ["", "out ", "inout "])
def test_a_store_to_a_tensor_of_which_no_write_is_declared_fails_at_its_line(role):
    tensors = {"x": f"{role}int32[n]", "o": "out int32[n]"}
    status, failures = _found(tensors, short.writes("o", EACH, _row))
    assert (status, failures) == (Status.FAIL, [("x", LINES["x"])])


def test_without_any_declared_write_every_store_fails():
    status, failures = _found({"x": "int32[n]", "o": "out int32[n]"}, ())
    assert (status, failures) == (Status.FAIL, list(LINES.items()))


def test_a_store_that_is_never_made_does_no_harm():
    tensors = {"x": "int32[n]", "o": "out int32[n]"}
    assert _found(tensors, short.writes("o", EACH, _row), made=False) == (Status.PASS, [])


def test_a_write_that_may_be_made_need_not_be():
    tensors = {"x": "inout int32[n]", "o": "out int32[n]"}
    writes = [short.writes("o", EACH, _row), short.may_write("x", EACH, _row)]
    for made in (True, False):
        assert _found(tensors, writes, made=made) == (Status.PASS, [])
