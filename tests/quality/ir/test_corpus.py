"""The corpus of small kernels: every right one passes, every wrong one is reported where it is wrong."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("z3")

import triton
import triton.language as tl

from kvproof.harness.ir.target import HIP_GFX942
from kvproof.harness.prove.kernels.own import check_kernel
from kvproof.harness.prove.kernels.properties import Property
from kvproof.models.contract import Clause, Contract, Index, Tensor
from kvproof.reports.verdict import Status

HERE = Path(__file__).resolve().parent


def _module():
    spec = importlib.util.spec_from_file_location("ir_corpus_report", HERE / "corpus_report.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["ir_corpus_report"] = module
    spec.loader.exec_module(module)
    return module


REPORT = _module()
ALL, SOURCES = REPORT.load()
PAIRS = {pair.name: pair for pair in ALL}
# One of each kind, and all that are written against the checker, in every run; the whole with the long tests.
QUICK = {
    pair.kind: pair.name for pair in reversed(ALL) if pair.name not in {"chunks", "chunk_rows", "scaled_mask"}
}
EACH = [name if name in QUICK.values() else pytest.param(name, marks=pytest.mark.slow) for name in PAIRS]


def test_the_corpus_is_as_large_as_it_says():
    assert len(PAIRS) == len(ALL)
    assert 2 * len(PAIRS) >= 180
    assert sum(pair.bears_contract for pair in ALL) >= len(ALL) // 2
    assert {p for pair in ALL for p in pair.breaks} == {str(p) for p in Property}
    # Each wrong twin has its line.
    for pair in ALL:
        assert (
            "# fault"
            in (HERE / SOURCE_OF[pair.name]).read_text().split(f"def {pair.name}(")[1].split("\npair(")[0]
        )


SOURCE_OF = {
    pair.name: next(file for file, lines in SOURCES.items() if any(f"def {pair.name}(" in line for line in lines))
    for pair in ALL
}


def test_the_table_in_the_documents_is_that_of_this_corpus():
    text = REPORT.DOCS.read_text(encoding="utf-8")
    shown = text.split(REPORT.BEGIN)[1].split(REPORT.END)[0].strip().splitlines()
    # What the two tests below hold every pair to.
    assert shown == REPORT.table(ALL, dict.fromkeys(PAIRS, ("passes", "found")))


@pytest.mark.parametrize("name", EACH)
def test_a_right_kernel_passes(name):
    report = REPORT.examine(PAIRS[name], bad=False)
    assert REPORT.right(PAIRS[name], report) == "passes", str(report)


@pytest.mark.parametrize("name", EACH)
def test_a_wrong_kernel_is_reported_at_its_line_and_seen_to_be_wrong(name):
    report = REPORT.examine(PAIRS[name], bad=True)
    assert REPORT.wrong(PAIRS[name], report, SOURCES) == "found", str(report)


@pytest.mark.parametrize("name", ["loop_sum", "paged_or", "record", "row_mul"])
def test_the_other_vendor_gets_the_same_verdicts(name):
    pair = PAIRS[name]
    assert REPORT.right(pair, REPORT.examine(pair, bad=False, target=HIP_GFX942)) == "passes"
    assert REPORT.wrong(pair, REPORT.examine(pair, bad=True, target=HIP_GFX942), SOURCES) == "found"


def test_the_limit_of_a_32_bit_offset_is_the_number_of_rows_that_fit():
    report = REPORT.examine(PAIRS["row_mul"], bad=True)
    (result,) = [r for r in report.results if r.property is Property.NO_WRAP]
    (failure,) = result.failures
    # 512 elements a row: row 4,194,304 is the first whose offset does not fit.
    assert (failure.limit.quantity, failure.limit.most) == ("rows", 4_194_304)


def test_a_counterexample_is_the_smallest():
    (failure,) = [
        f
        for f in REPORT.examine(PAIRS["copy_to_end"], bad=True).failures
        if f.found.property is Property.IN_BOUNDS
    ]
    assert failure.witness.numbers == {"n": 1}


# ---- what is outside the model is never PASS ---------------------------------------------------

OUT = Tensor("out", "fp32", ("n",), "", role="inout")
anywhere = sys.modules["ir_corpus"].anywhere
CELLS = Contract("cells", "", (OUT,), (), (), (anywhere(OUT),))


def _status(kernel, contract=CELLS, **arguments):
    report = check_kernel(kernel, contract, grid=lambda a: (a.n,), arguments=arguments)
    assert not report.passed, str(report)
    return {str(r.property): r.verdict.status for r in report.results}


@triton.jit
def by_descriptor(out, n):
    block = tl.make_tensor_descriptor(out, shape=[n * 2], strides=[1], block_shape=[16])
    block.store([n], tl.zeros((16,), tl.float32))


def test_a_store_that_is_no_store_operation_is_unsupported():
    assert set(_status(by_descriptor).values()) == {Status.UNSUPPORTED}


@triton.jit
def by_assembly(out, n):
    tl.inline_asm_elementwise(
        "st.global.b32 [$1], 0;", "=r,l", [out.to(tl.int64)], dtype=tl.int32, is_pure=False, pack=1
    )


def test_assembly_with_effects_is_unsupported():
    assert Status.UNSUPPORTED in _status(by_assembly).values()


@triton.jit
def scanned(out, n):
    i = tl.cumsum(tl.arange(0, 16), 0)
    tl.store(out + tl.program_id(0) + i, 1.0)


def test_an_address_from_a_scan_is_not_proved():
    assert _status(scanned)["in bounds"] in {Status.UNKNOWN, Status.FAIL}


@triton.jit
def long_loop(out, n):
    i = 0
    while i < n:
        tl.store(out + i, 1.0)
        i += 1


def test_a_pass_of_an_unrolled_loop_says_how_far_it_was_unrolled():
    report = check_kernel(long_loop, CELLS, grid=lambda _: (1,), arguments={})
    assert report.passed
    assert any("4 rounds of the loop at" in bound for bound in report.verdict.bounds)


@triton.jit
def plain(out, n):
    tl.store(out + tl.program_id(0), 1.0)


def test_clauses_that_contradict_each_other_prove_nothing():
    clauses = (Clause("few", "", lambda a: a.n <= 3), Clause("many", "", lambda a: a.n >= 4))
    contract = Contract("cells", "", CELLS.arguments, clauses, (), CELLS.accesses)
    assert set(_status(plain, contract).values()) == {Status.UNSUPPORTED}


@triton.jit
def chosen_tensor(x, out, n, which):
    at = x if which > 0 else out
    tl.store(at + tl.program_id(0), 1.0)


@pytest.mark.parametrize(("extent", "wanted"), [("n", Status.PASS), ("m", Status.FAIL)])
def test_a_pointer_into_one_of_two_tensors_is_followed_into_both(extent, wanted):
    x = Tensor("x", "fp32", (extent,), "", role="inout")
    contract = Contract("cells", "", (x, OUT), (), (), (anywhere(x), *CELLS.accesses))
    report = check_kernel(chosen_tensor, contract, grid=lambda a: (a.n,), arguments={"which": "n"})
    statuses = {str(r.property): r.verdict.status for r in report.results}
    assert statuses["in bounds"] is wanted, str(report)


@triton.jit
def wider(x, out, n):
    at = (x + tl.program_id(0)).to(tl.pointer_type(tl.int64))
    tl.store(out + tl.program_id(0), tl.load(at).to(tl.float32))


def test_an_access_that_begins_inside_and_ends_outside_is_seen_to_be_wrong():
    contract = Contract("cells", "", (Tensor("x", "int32", ("n",), ""), OUT), (), (), CELLS.accesses)
    report = check_kernel(wider, contract, grid=lambda a: (a.n,), arguments={})
    (failure,) = report.failures
    assert (failure.status, failure.found.property) == (Status.FAIL, Property.IN_BOUNDS), str(report)
    assert failure.witness.numbers == {"n": 1}


@triton.jit
def loaded_pointer(table, out, n):
    at = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(at, 1.0)


def test_a_pointer_from_memory_is_unsupported():
    contract = Contract("cells", "", (Tensor("table", "int64", ("n",), ""), OUT), (), (), CELLS.accesses)
    assert Status.UNSUPPORTED in _status(loaded_pointer, contract).values()


def test_each_clause_is_needed():
    """Without the clause that keeps indices in range, or destinations apart, the same kernel fails."""
    pair = PAIRS["row_mul"]
    for name, expected in (("dest in range", "in bounds"), ("dest distinct", "one writer a cell")):
        kept = tuple(clause for clause in pair.contract.requires if clause.name != name)
        weaker = Contract("corpus", "", pair.contract.arguments, kept, (), pair.contract.accesses)
        report = check_kernel(pair.kernel, weaker, grid=pair.grid, arguments={**pair.arguments, "BAD": False})
        assert expected in {str(r.property) for r in report.results if r.verdict.status is Status.FAIL}, str(
            report
        )


def test_indices_are_not_assumed_to_be_distinct_from_a_clause_about_neighbours():
    pair = PAIRS["row_mul"]
    neighbours = Clause(
        "neighbours differ", "", lambda a, t: a.dest[t] != a.dest[t + 1], (Index("t", stop=lambda a: a.T - 1),)
    )
    kept = tuple(clause for clause in pair.contract.requires if clause.name != "dest distinct")
    weaker = Contract("corpus", "", pair.contract.arguments, (*kept, neighbours), (), pair.contract.accesses)
    report = check_kernel(pair.kernel, weaker, grid=pair.grid, arguments={**pair.arguments, "BAD": False})
    statuses = {str(r.property): r.verdict.status for r in report.results}
    assert statuses["one writer a cell"] is Status.FAIL, str(report)
