"""The corpus: every right kernel passes, every wrong one is reported where it is wrong and seen to be so."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("z3")

from kvproof.harness.ir.target import CUDA_90, HIP_GFX942
from kvproof.harness.prove.kernels.own import check_kernel
from kvproof.harness.prove.kernels.properties import Property
from kvproof.reports.verdict import Status

HERE = Path(__file__).resolve().parent


def _corpus():
    spec = importlib.util.spec_from_file_location("ir_corpus", HERE / "corpus.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["ir_corpus"] = module
    spec.loader.exec_module(module)
    return module


CORPUS = _corpus()
SOURCE = (HERE / "corpus.py").read_text().splitlines()
PAIRS = {pair.name: pair for pair in CORPUS.PAIRS}


def _check(pair, *, bad, target=CUDA_90):
    return check_kernel(
        pair.kernel, pair.contract, grid=pair.grid, arguments={**pair.arguments, "BAD": bad}, target=target
    )


def test_the_corpus_is_as_large_as_it_says():
    assert len(PAIRS) == len(CORPUS.PAIRS)
    assert 2 * len(PAIRS) >= 120
    assert sum(pair.bears_contract for pair in PAIRS.values()) >= len(PAIRS) // 2
    assert {p for pair in PAIRS.values() for p in pair.breaks} == {str(p) for p in Property}


@pytest.mark.parametrize("name", PAIRS)
def test_a_right_kernel_passes(name):
    pair = PAIRS[name]
    report = _check(pair, bad=False)
    undecided = {str(r.property) for r in report.results if not r.verdict.passed}
    assert undecided <= set(pair.abstains), str(report)
    assert not any(r.verdict.status is Status.FAIL for r in report.results), str(report)
    if pair.bears_contract:
        assert report.passed, str(report)


@pytest.mark.parametrize("name", PAIRS)
def test_a_wrong_kernel_is_reported_at_its_line_and_seen_to_be_wrong(name):
    pair = PAIRS[name]
    report = _check(pair, bad=True)
    failed = {str(r.property) for r in report.results if r.verdict.status is Status.FAIL}
    assert pair.breaks[0] in failed, str(report)
    assert failed <= set(pair.breaks), str(report)
    shown = [f for f in report.failures if f.status is Status.FAIL]
    # Each counterexample is within the contract, and running the kernel on it shows the failure; one is too large.
    assert all(f.witness is not None or "would take" in f.seen or "too long" in f.seen for f in shown), str(report)
    frames = [f for one in shown for where in (one.found.location, one.found.other) if where for f in where.frames]
    assert any(frame.file.endswith("corpus.py") and "# fault" in SOURCE[frame.line - 1] for frame in frames)


@pytest.mark.parametrize("name", ["chunks", "loop_sum", "paged_or", "record", "row_mul"])
def test_the_other_vendor_gets_the_same_verdicts(name):
    pair = PAIRS[name]
    assert _check(pair, bad=False, target=HIP_GFX942).passed
    assert pair.breaks[0] in {
        str(r.property)
        for r in _check(pair, bad=True, target=HIP_GFX942).results
        if r.verdict.status is Status.FAIL
    }


def test_the_limit_of_a_32_bit_offset_is_the_number_of_rows_that_fit():
    (result,) = [r for r in _check(PAIRS["row_mul"], bad=True).results if r.property is Property.NO_WRAP]
    (failure,) = result.failures
    # 512 elements a row: row 4,194,304 is the first whose offset does not fit.
    assert (failure.limit.quantity, failure.limit.most) == ("rows", 4_194_304)


def test_a_counterexample_is_the_smallest():
    (failure,) = [
        f for f in _check(PAIRS["copy_to_end"], bad=True).failures if f.found.property is Property.IN_BOUNDS
    ]
    assert failure.witness.numbers == {"n": 1}
