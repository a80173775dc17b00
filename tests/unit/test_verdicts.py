"""Verdicts of comparisons and histories: exact where they can be, and wrong no more often than they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("ruptures")

from scipy import stats

from kvproof.reports.history.run import ALIKE, Counts, Run, Times
from kvproof.reports.history.series import timelines
from kvproof.reports.verdicts.changes import exact_steps, steps
from kvproof.reports.verdicts.compare import Change, Limits, adjust, fewest_pairs, judge, log_ratios, most_series
from kvproof.reports.verdicts.noise import learned_floor, learned_floors
from kvproof.reports.verdicts.regressions import headline, regressions, worse
from kvproof.reports.verdicts.signed_rank import interval, p_value


@pytest.mark.parametrize("count", [1, 5, 12, 25])
def test_p_values_are_scipys_where_it_has_exact_ones(count: int) -> None:
    values = np.random.default_rng(count).normal(0.3, 1, count)
    assert p_value(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)


def test_ties_and_zeros_are_counted_exactly() -> None:
    # Signs of four equal sizes: sixteen assignments, of which two are as extreme as all alike.
    assert p_value(np.array([1.0, 1.0, 1.0, 1.0, 0.0])) == pytest.approx(2 / 16)
    assert p_value(np.array([1.0, 1.0, 1.0, -1.0])) == pytest.approx(10 / 16)
    assert p_value(np.zeros(5)) == 1.0


def test_p_values_of_coin_flips_are_not_too_small() -> None:
    rng = np.random.default_rng(0)
    sizes = np.round(np.abs(rng.standard_cauchy((4000, 14))), 1)
    found = [p_value(row * rng.choice([-1.0, 1.0], 14)) for row in sizes]
    for level in (0.001, 0.01, 0.1):
        allowed = level * 4000 + 4 * math.sqrt(level * 4000)
        assert sum(p <= level for p in found) <= allowed


def test_the_interval_covers_and_few_pairs_leave_it_open() -> None:
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(1000):
        _, low, high = interval(rng.standard_t(2, 15), 0.95)
        missed += not low <= 0 <= high
    assert missed <= 50 + 3 * math.sqrt(50)
    assert interval(np.array([1.0, 2.0, 3.0]), 0.99)[1:] == (-math.inf, math.inf)


@pytest.mark.parametrize("wrong", [[1.0, math.nan], [math.inf], list(range(1000))])
def test_what_is_no_list_of_differences_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="differences must"):
        p_value(np.array(wrong, np.float64))


def sides(ratio: float, noise: float, blocks: int = 20, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    old = 50 * (1 + noise * rng.standard_normal((blocks, 5)))
    new = 50 * ratio * (1 + noise * rng.standard_normal((blocks, 5)))
    return log_ratios(old.tolist(), new.tolist())


def test_the_four_verdicts() -> None:
    limits = Limits(relevance=0.01)
    pairs = [sides(1.05, 0.005), sides(0.9, 0.005), sides(1.0, 0.002), sides(1.02, 0.08), sides(1.003, 0.001)]
    found = judge(pairs, limits)
    assert [c.change for c in found] == [
        Change.SLOWER,
        Change.FASTER,
        Change.SAME,
        Change.AMBIGUOUS,
        Change.SAME,
    ]
    # Significant and relevant are two questions: the last differs for sure, and nobody cares.
    assert (found[4].significant, found[4].relevant) == (True, False)
    assert found[0].ratio == pytest.approx(0.05, abs=0.01)
    assert "SLOWER: +5" in found[0].words


def test_known_noise_between_runs_raises_the_floor() -> None:
    pair = sides(1.02, 0.002)
    assert judge([pair])[0].change is Change.SLOWER
    assert judge([pair], floors=[0.04])[0].change is Change.SAME
    assert learned_floor([0.01, -0.01]) == 0.0
    assert learned_floor([0.01, -0.01, 0.012, -0.008, 0.011, 0.5]) == pytest.approx(0.0623, rel=0.05)


def test_noise_is_learned_from_comparisons_of_a_version_with_itself_on_the_same_machine() -> None:
    def run(ratio: float, host: str = "here", series: str = "a on ir") -> Run:
        batches = tuple((100.0 * side, 101.0 * side) for _ in range(12) for side in (1.0, ratio))
        return Run(
            "2026-08-11T09:30:00Z",
            "builtin",
            "c",
            device="cpu",
            machine={"host": host},
            times=(Times(series, batches, ALIKE), Times("plain on ir", ((5.0, 5.1),))),
        )

    ratios = [1.01, 0.99, 1.012, 0.992, 1.011]
    floors = learned_floors([run(r) for r in ratios], "here")
    assert floors == {"a on ir": pytest.approx(4 * 1.4826 * 0.01, rel=0.05)}
    assert learned_floors([run(r) for r in ratios[:4]], "here") == {}
    assert learned_floors([run(r) for r in ratios], "elsewhere") == {}
    # Such times are no point of any series.
    names = {series.name for line in timelines([run(r) for r in ratios]) for series in line.series}
    assert names == {"plain on ir"}


def test_many_comparisons_are_controlled_together() -> None:
    assert adjust([0.001, 0.5, 0.9]) == pytest.approx([0.003, 0.75, 0.9])
    assert adjust([]) == []
    # Of twelve pairs the smallest p-value is 0.0005: enough alone, not among three hundred.
    alone = sides(1.05, 0.003, blocks=12)
    assert judge([alone])[0].change is Change.SLOWER
    crowd = judge([alone, *(sides(1.0, 0.003, 12, seed) for seed in range(1, 300))])
    assert crowd[0].change is Change.AMBIGUOUS


@pytest.mark.parametrize(("pairs", "most"), [(10, 0), (11, 10), (12, 20), (13, 40), (14, 81), (18, 1310)])
def test_fewest_pairs_are_those_with_which_one_series_among_all_can_be_slower(pairs: int, most: int) -> None:
    slower, same = np.linspace(0.69, 0.70, pairs), np.linspace(-0.01, 0.0101, pairs)

    def verdict(series: int) -> Change:
        return judge([slower, *[same] * (series - 1)])[0].change

    assert most_series(pairs) == most
    assert verdict(most + 1) is Change.AMBIGUOUS
    assert fewest_pairs(most + 1) > pairs
    if most:
        assert verdict(most) is Change.SLOWER
        assert fewest_pairs(most) <= pairs
    assert fewest_pairs(0) == fewest_pairs(1) == 11
    assert fewest_pairs(1, Limits(alpha=1e-9)) == 31
    assert fewest_pairs(1, Limits(alpha=1e-300)) == 401


def test_batches_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="pairs"):
        log_ratios([[1.0]], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="above zero"):
        log_ratios([[1.0]], [[0.0]])
    assert log_ratios([[1.0, 9.0]], [[2.0, 4.0]], least=True)[0] == pytest.approx(math.log(2))


def history(*levels: tuple[float, int], noise: float = 0.004, seed: int = 3) -> list[float]:
    rng = np.random.default_rng(seed)
    values = np.concatenate([np.full(count, level) for level, count in levels])
    return [float(v) for v in values * np.exp(noise * rng.standard_normal(values.size))]


def test_a_step_is_found_where_it_is_and_outliers_are_none() -> None:
    values = history((100.0, 30), (103.0, 30))
    (step,) = steps(values)
    assert abs(step.index - 30) <= 1
    assert step.ratio == pytest.approx(0.03, abs=0.006)
    values[10], values[45] = 200.0, 60.0
    assert [abs(s.index - 30) <= 1 for s in steps(values)] == [True]
    assert steps(history((100.0, 60))) == []
    assert steps(history((100.0, 30), (100.3, 30))) == []


def test_a_drift_is_no_step_and_neither_is_another_machine() -> None:
    drift = [float(v) for v in 100 * np.exp(np.linspace(0, 0.04, 80)) * np.array(history((1.0, 80), noise=0.003))]
    assert steps(drift) == []
    values, seams = history((100.0, 30), (130.0, 30)), ["a"] * 30 + ["b"] * 30
    assert len(steps(values)) == 1
    assert steps(values, seams) == []
    with pytest.raises(ValueError, match="above zero"):
        steps([1.0, 0.0])


def test_numbers_without_noise_step_wherever_they_differ() -> None:
    assert [(s.index, s.before, s.after) for s in exact_steps([5, 5, 6, 6, 5])] == [(2, 5, 6), (4, 6, 5)]


def runs(slow_from: int) -> list[Run]:
    rng = np.random.default_rng(0)
    found: list[Run] = []
    for place in range(30):
        level = 20.0 * (1.04 if place >= slow_from else 1.0)
        batch = tuple(float(v) for v in level * (1 + 0.003 * rng.standard_normal(8)))
        counts = Counts("k/c", "cuda:90", {"registers": 40 + (place >= 28), "loads": 3 + (place >= 29)})
        when = f"2026-08-{place + 1:02}T00:00:00Z"
        commit = f"{place:040x}"
        times = Times("k/c", (batch,), "flushed")
        found.append(Run(when, "builtin", commit, committed=when, device="H200", times=(times,), counts=(counts,)))
    return found


def test_regressions_name_the_range_and_the_command() -> None:
    (line,) = timelines(reversed(runs(20)))
    found = regressions(line)
    assert [(r.series.metric, r.change) for r in found] == [
        ("loads", Change.AMBIGUOUS),
        ("registers", Change.SLOWER),
        ("time", Change.SLOWER),
    ]
    slower = worse(found)[-1]
    assert int(slower.good.commit, 16) in {18, 19}
    assert int(slower.bad.commit, 16) == int(slower.good.commit, 16) + 1
    assert slower.bisect == (
        f"kvproof bisect k/c {slower.good.commit[:12]} {slower.bad.commit[:12]} --on H200 --metric time"
    )
    assert headline(line, regressions(line, 5), 5).endswith("in the last 5: 1 worse")
    assert headline(line, [], 5).startswith("SAME: builtin")
