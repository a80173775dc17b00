"""Measuring: stopping, interleaving, reading compiled code, searching commits, and what a change can affect."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest

from kvproof.harness.bench import assembly
from kvproof.harness.bench.alternate import Turns, affordable
from kvproof.harness.bench.bisect import search
from kvproof.harness.bench.measure import Batch, CallSampler, Paired, Plan, half_width, interleave, measure
from kvproof.harness.bench.suite import Request
from kvproof.harness.bench.suite import run as run_suite
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.gates import affected, decidable, pairs_for, series_of
from kvproof.harness.cli.policy import Policy, read_policy
from kvproof.harness.cli.steps import Step, details, perform, table
from kvproof.harness.devices.registry import find_device
from kvproof.reports.errors import DamagedReportError, ReportError
from kvproof.reports.history.exchange import from_pytest_benchmark, to_pytest_benchmark
from kvproof.reports.history.run import Run, Times
from kvproof.reports.verdicts.compare import Limits

SASS = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;   /* 0x00000a00ff017b82 */
        /*0010*/               @P1 LDG.E.128 R20, desc[UR6][R8.64] ;
        /*0020*/              @!P0 LDG.E.U8 R20, desc[UR6][R8.64] ;
        /*0030*/                   STG.E desc[UR6][R38.64], R4 ;
        /*0040*/                   LDL.64 R4, [R1] ;
        /*0050*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24 ;
        /*0060*/                   BRA 0x60;
        /*0070*/                   NOP;
"""
GCN = """
	s_load_dwordx4 s[0:3], s[4:5], 0x0
	global_load_dwordx4 v[0:3], v4, s[0:1]
	buffer_load_ubyte v1, v2, s[0:3], 0 offen
	global_store_short v4, v0, s[0:1]
	scratch_store_dword off, v1, s32
	ds_read_b128 v[0:3], v4
	v_mfma_f32_16x16x16_bf16 a[0:3], v[0:1], v[2:3], a[0:3]
	s_cbranch_scc1 .LBB0_2
	s_endpgm
	.section	.AMDGPU.csdata
; codeLenInByte = 88
    .sgpr_count:     33
    .vgpr_count:     49
    .vgpr_spill_count: 1
"""


def test_instructions_of_both_vendors_are_counted() -> None:
    assert assembly.sass(SASS) == {
        "instructions": 7,
        "code bytes": 128,
        "loads": 2,
        "loads of 16 B": 1,
        "loads of 1 B": 1,
        "stores": 1,
        "stores of 4 B": 1,
        "spill instructions": 1,
        "matrix instructions": 1,
        "branches": 1,
    }
    assert assembly.amdgcn(GCN) == {
        "instructions": 9,
        "scalar loads": 1,
        "loads": 2,
        "loads of 16 B": 1,
        "loads of 1 B": 1,
        "stores": 1,
        "stores of 2 B": 1,
        "spill instructions": 1,
        "shared accesses": 1,
        "matrix instructions": 1,
        "branches": 1,
        "vgprs": 49,
        "sgprs": 33,
        "vgpr spills": 1,
        "code bytes": 88,
    }
    usage = " Function k:\n  REG:49 STACK:8 SHARED:1024 LOCAL:0"
    assert assembly.resource_usage(usage) == {"registers": 49, "stack bytes": 8, "local bytes": 0}
    ir = "  %1 = tt.load %0 : f32 loc(#l)\n  %2 = arith.divsi %1, %1\n  tt.store %0, %2\n"
    found = assembly.ttir(ir)
    assert (found["IR operations"], found["IR loads"], found["IR stores"], found["IR divisions"]) == (3, 1, 1, 1)


def test_measuring_stops_when_the_median_is_known_or_the_budget_ends() -> None:
    steady = measure(lambda count: [10.0] * count, Plan(batch=5, fewest=4, most=40))
    assert (steady.settled, len(steady.batches)) == (True, 4)
    rng = random.Random(0)
    wild = measure(lambda count: [rng.uniform(1, 9) for _ in range(count)], Plan(batch=5, fewest=4, most=12))
    assert (wild.settled, len(wild.batches)) == (False, 12)
    assert half_width([1.0, 2.0]) == float("inf")


def test_interleaving_draws_the_order_and_renews_before_each_batch() -> None:
    told: list[str] = []

    class Side:
        def __init__(self, name: str) -> None:
            self.name = name

        def renew(self) -> None:
            told.append(f"renew {self.name}")

        def __call__(self, count: int) -> list[float]:
            told.append(self.name)
            return [10.0 if self.name == "old" else 11.0] * count

    paired = interleave(Side("old"), Side("new"), 1, Plan(batch=2, fewest=12, most=12, spread=0.0))
    assert len(paired.old) == len(paired.new) == len(paired.new_first) == 12
    assert set(paired.new_first) == {True, False}
    # Both warm up first; then each pair: renewed and sampled in the drawn order.
    pairs = told[2:]
    for place, new_first in enumerate(paired.new_first):
        first, second = ("new", "old") if new_first else ("old", "new")
        assert pairs[4 * place : 4 * place + 4] == [f"renew {first}", first, f"renew {second}", second]
    assert {batch.samples for batch in paired.new} == {(11.0, 11.0)}


def test_a_short_call_is_repeated_within_a_sample() -> None:
    calls: list[int] = []
    sampler = CallSampler(lambda: calls.append(1), repeats=7)
    before = len(calls)
    assert len(sampler(3)) == 3
    assert len(calls) - before == 21


@pytest.mark.parametrize("first", range(1, 20))
def test_a_search_finds_the_first_commit(first: int) -> None:
    commits = [str(i) for i in range(1, 20)]
    found = search(commits, "0", lambda commit: 10.0 if int(commit) < first else 12.0)
    assert found.first == str(first)
    assert found.unsure == []
    assert len(found.measured) <= 8


def test_a_search_leaves_out_commits_without_a_number_and_says_so() -> None:
    commits = [str(i) for i in range(1, 20)]
    without = {"9", "10", "11"}
    found = search(commits, "0", lambda c: None if c in without else 10.0 if int(c) < 12 else 12.0)
    assert (found.first, found.unsure) == ("12", ["9", "10", "11"])
    with pytest.raises(ReportError, match="same number"):
        search(commits, "0", lambda _: 1.0)
    with pytest.raises(ReportError, match="19 has no number"):
        search(commits, "0", lambda c: None if c == "19" else 1.0)


def test_a_fingerprint_is_that_of_the_inputs() -> None:
    pytest.importorskip("torch")
    from kvproof.harness.bench.offline import fingerprint
    from kvproof.kernels.registry import all_kernels, resolve

    for name in ("decode_indices", "hca_head"):
        cases = resolve(all_kernels()[name].cases)
        first, second = list(cases())[:2]
        # Made twice, so that no object is the same one.
        assert fingerprint(cases()[first].values) == fingerprint(cases()[first].values)
        assert fingerprint(cases()[first].values) != fingerprint(cases()[second].values)


def test_what_a_change_can_affect() -> None:
    kernels = ["a", "b"]
    assert affected(["kernels/a/kernel.py", "README.md"], kernels) == ["a"]
    assert affected(["kernels/launch.py"], kernels) == ["a", "b"]
    assert affected(["models/index.py"], kernels) == ["a", "b"]
    assert affected(["docs/x.md", "harness/ir/target.py"], kernels) == []


def test_series_that_a_change_can_affect() -> None:
    assert series_of(["hca_head"], ["kernels/hca_head/kernel.py"]) == ["hca_head on ir"]
    layouts = series_of([], ["models/index.py"])
    assert layouts
    assert all(name.startswith("layout ") for name in layouts)
    assert series_of([], ["docs/x.md"]) == []


def turns(series: int, pairs: int) -> Turns:
    batches = (Batch((1.0,)),) * pairs
    return Turns({f"s{number}": Paired(batches, batches, (True,) * pairs) for number in range(series)}, {})


def test_series_that_the_pairs_cannot_decide_are_named() -> None:
    limits = Limits()
    assert [pairs_for(series, limits) for series in (1, 81, 82, 1000)] == [14, 14, 15, 18]
    assert decidable(turns(10, 11), 14, limits) == ([f"s{number}" for number in range(10)], [])
    names, notes = decidable(turns(12, 11), 14, limits)
    assert names == [f"s{number}" for number in range(10)]
    assert notes[0] == "NOT_RUN: s10: undecided: 11 of 14 pairs of processes fitted; 12 series need 12."
    assert len(notes) == 2
    names, notes = decidable(turns(2, 6), 14, limits)
    assert (names, len(notes)) == ([], 2)
    assert "2 series need 11, and one 11" in notes[1]


def test_series_that_do_not_fit_into_the_time_are_left_out_by_name() -> None:
    series = ["layout v4-flash", "layout v4-pro", "no such series"]
    chosen, without = affordable(None, series, seconds=600.0)
    assert chosen == series[:2]
    assert "no such series" in without["no such series"]
    chosen, without = affordable(None, series[:2], seconds=0.001)
    assert chosen == []
    assert "of 0 s in all" in without["layout v4-flash"]


def test_series_on_a_gpu_are_named_and_refused_where_there_is_none() -> None:
    pytest.importorskip("torch")
    from kvproof.harness.bench.gpu_series import gpu_series

    names = gpu_series(["hca_head"])
    assert names == ["hca_head/b1-q1-c8192 on gpu", "hca_head/b512-q1-c131072 on gpu"]
    if find_device("cuda").probe().available or find_device("hip").probe().available:
        pytest.skip("a GPU is here")
    _, without = affordable(None, names[:1], seconds=600.0)
    assert list(without) == names[:1]
    assert "Error" in without[names[0]]


def test_kernels_that_no_time_is_left_for_are_named() -> None:
    found = run_suite(Request("offline", "", kernels=["row_index", "hca_head"], seconds=1e-9))
    assert {(m.name, m.status) for m in found.missing} == {("row_index", "NOT_RUN"), ("hca_head", "NOT_RUN")}
    assert not found.counts


def test_a_policy_is_read_and_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "kvproof.toml"
    assert read_policy(path) == Policy()
    path.write_text('[bench]\nrelevance = 0.02\n[nightly]\nfail_on = ["FAIL"]\n', encoding="utf-8")
    assert read_policy(path) == Policy(relevance=0.02, fail_on=("FAIL",))
    for text, named in (
        ("[bench]\nrelevance = 2\n", "bench.relevance"),
        ("[bench]\nfast = 1\n", "bench.fast"),
        ("[night]\nlast = 1\n", "'night'"),
        ('[nightly]\nfail_on = ["RED"]\n', "nightly.fail_on"),
        ("[nightly]\nlast = 0\n", "nightly.last"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=named):
            read_policy(path)


def test_steps_of_a_night_keep_their_verdicts(tmp_path: Path) -> None:
    source = Path(sys.modules["kvproof"].__file__ or "").parents[1]
    absent = perform(Step("dreaming", ("dream",)), tmp_path)
    wrong = perform(Step("layout", ("layout", "no-such-model")), tmp_path, source)
    good = perform(Step("layout", ("layout", "v4-flash")), tmp_path, source)
    slow = perform(
        Step("sleep", ("timeit", "-n1", "-r1", "import time; time.sleep(60)"), 1.0, module=True), tmp_path
    )
    assert [o.verdict for o in (absent, wrong, good, slow)] == ["NOT_RUN", "UNKNOWN", "PASS", "UNKNOWN"]
    assert "no-such-model" in wrong.reason
    assert slow.reason == "ended after 1 s"
    lines = table([absent, wrong, good])
    assert lines[2].startswith("| dreaming | NOT_RUN | 0 |")
    assert any("$ kvproof layout no-such-model" in line for line in details([absent, wrong, good]))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="NOT_RUN: reads /proc")
def test_what_a_step_started_ends_with_it(tmp_path: Path) -> None:
    child = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    code = f"import subprocess, sys; p = subprocess.Popen({child}); print(p.pid, flush=True); p.wait()"
    done = perform(Step("parent", ("timeit", "-n1", "-r1", code), 3.0, module=True), tmp_path)
    assert done.verdict == "UNKNOWN"
    state = Path(f"/proc/{int(done.output[-1])}/stat")

    def ended() -> bool:
        # Ended and not yet collected counts as ended.
        try:
            return state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    # It was killed; on a busy machine that takes effect when it next runs. It would sleep for a minute.
    for _ in range(100):
        if ended():
            break
        time.sleep(0.1)
    assert ended()


def test_times_go_through_pytest_benchmarks_form() -> None:
    times = Times("k/c", ((10.0, 11.0), (12.0, 13.0)), "flushed", check="PASS", mhz=(1980.0,))
    run = Run("2026-08-11T09:30:00Z", "builtin", "a" * 40, device="H200", times=(times,), machine={"host": "here"})
    data = to_pytest_benchmark([run])
    assert data["benchmarks"][0]["stats"]["median"] == pytest.approx(11.5e-6)
    back = from_pytest_benchmark(data, "builtin", "H200")
    assert back.times[0].samples == [10.0, 11.0, 12.0, 13.0]
    assert (back.commit, back.machine["host"], back.times[0].mode) == ("a" * 40, "here", "flushed")
    with pytest.raises(DamagedReportError):
        from_pytest_benchmark({"benchmarks": []}, "builtin")
