"""Change points on generated histories: precision and recall of this rule, of Otava's, and of simple ones.

    python tests/bench/change_points.py [--histories N] [--otava PYTHON] [--write]

Otava pins its numpy and brings cloud clients, so it runs in an environment of its own: PYTHON is that one's.
A reported step counts as found if it lies within three runs of a true one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from alarms import write

from kvproof.reports.verdicts.changes import noise_of, steps

RUNS = 240
NEAR = 3
SIZES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.10, 0.20)
RELEVANCE = 0.003
Rng = np.random.Generator
Rule = Callable[[Sequence[float]], list[int]]


@dataclass(frozen=True)
class History:
    """A generated history.

    Attributes:
        kind: what disturbs it.
        values: one a run.
        true: (first run after it, size) of each planted step.
    """

    kind: str
    values: list[float]
    true: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])


def made(kind: str, rng: Rng) -> History:
    """A history with up to three steps and the disturbance of this kind; noise of half a percent."""
    count = RUNS
    places = sorted(
        int(p) for p in rng.choice(np.arange(20, count - 20, 25), int(rng.integers(0, 4)), replace=False)
    )
    sizes = [float(rng.choice(SIZES)) * float(rng.choice([-1.0, 1.0])) for _ in places]
    level = np.zeros(count)
    for place, size in zip(places, sizes, strict=True):
        level[place:] += np.log1p(size)
    noise = 0.005 * rng.standard_normal(count)
    if kind == "skewed":
        noise = 0.005 * (rng.lognormal(0, 0.7, count) - 1.2)
    elif kind == "outliers":
        noise += np.where(rng.random(count) < 0.04, rng.uniform(0.05, 0.6, count), 0)
    elif kind == "drift":
        noise += np.linspace(0, float(rng.uniform(-0.05, 0.05)), count)
    elif kind == "bimodal":
        noise += 0.02 * (rng.random(count) < 0.3)
    elif kind == "correlated":
        shocks = 0.003 * rng.standard_normal(count)
        for i in range(1, count):
            shocks[i] += 0.6 * shocks[i - 1]
        noise = shocks
    values = np.exp(level + noise)
    true = list(zip(places, sizes, strict=True))
    if kind == "gaps":
        keep = np.sort(rng.choice(count, int(0.7 * count), replace=False))
        true = [(int(np.searchsorted(keep, place)), size) for place, size in true]
        values = values[keep]
    return History(kind, [float(v) * 50 for v in values], true)


KINDS = ("normal", "skewed", "outliers", "drift", "bimodal", "correlated", "gaps")


def ours(values: Sequence[float]) -> list[int]:
    """This project's rule."""
    return [step.index for step in steps(values, relevance=RELEVANCE)]


def plain_ruptures(values: Sequence[float]) -> list[int]:
    """The same library with the usual price of a step, and no question asked of what it proposes."""
    import ruptures

    logs = np.log(np.asarray(values))
    price = 2 * noise_of(logs) ** 2 * np.log(logs.size)
    return ruptures.KernelCPD(kernel="linear", min_size=2).fit(logs.reshape(-1, 1)).predict(pen=price)[:-1]


def compare_fail(percent: float) -> Rule:
    """Each run against the one before, as pytest-benchmark's --benchmark-compare-fail=mean:N% does; both ways."""
    return lambda values: [i for i in range(1, len(values)) if abs(values[i] / values[i - 1] - 1) * 100 > percent]


def three_sigma(values: Sequence[float]) -> list[int]:
    """Further than three standard deviations from the mean of the last twenty runs; then it starts anew."""
    found: list[int] = []
    begin = 0
    for i in range(len(values)):
        past = np.asarray(values[max(begin, i - 20) : i])
        if past.size >= 8 and abs(values[i] - past.mean()) > 3 * past.std(ddof=1):
            found.append(i)
            begin = i
    return found


RULES: Mapping[str, Rule] = {
    "kvproof": ours,
    "ruptures, plain": plain_ruptures,
    "compare-fail 5%": compare_fail(5),
    "compare-fail 2%": compare_fail(2),
    "3 sigma of the last 20": three_sigma,
}

OTAVA = """
import json, sys
from otava.analysis import compute_change_points
answers = []
for values in json.load(sys.stdin):
    points, _ = compute_change_points(values, window_len=50, max_pvalue=0.001, min_magnitude=float(sys.argv[1]))
    answers.append([int(p.index) for p in points])
json.dump(answers, sys.stdout)
"""


def otava(histories: Sequence[History], python: str) -> list[list[int]]:
    """What Otava finds, in its own environment, with its defaults and the same smallest step."""
    done = subprocess.run(
        [python, "-c", OTAVA, str(RELEVANCE)],
        input=json.dumps([history.values for history in histories]),
        capture_output=True,
        text=True,
        check=True,
        timeout=3600,
    )
    return json.loads(done.stdout)


@dataclass
class Score:
    """True steps found and missed, reports that are none."""

    found: int = 0
    wrong: int = 0
    planted: int = 0
    seconds: float = 0.0

    def add(self, reported: Sequence[int], true: Sequence[tuple[int, float]]) -> list[bool]:
        """Whether each true step was found; every report beside them is wrong."""
        left = list(reported)
        hits: list[bool] = []
        for place, _ in true:
            near = [i for i in left if abs(i - place) <= NEAR]
            hits.append(bool(near))
            if near:
                left.remove(min(near, key=lambda i: abs(i - place)))
        self.found += sum(hits)
        self.planted += len(true)
        self.wrong += len(left)
        return hits

    @property
    def words(self) -> str:
        precision = self.found / (self.found + self.wrong) if self.found + self.wrong else 1.0
        return f"{precision:.1%} / {self.found / max(self.planted, 1):.1%}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=100, help="of each kind")
    parser.add_argument("--otava", help="python of an environment that has apache-otava")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    given = parser.parse_args(arguments)
    rng = np.random.default_rng(20260811)
    histories = [made(kind, rng) for kind in KINDS for _ in range(given.histories)]
    reported: dict[str, list[list[int]]] = {}
    seconds: dict[str, float] = {}
    for name, rule in RULES.items():
        begun = time.perf_counter()
        reported[name] = [rule(history.values) for history in histories]
        seconds[name] = time.perf_counter() - begun
    if given.otava:
        begun = time.perf_counter()
        reported["Otava 0.8"] = otava(histories, given.otava)
        seconds["Otava 0.8"] = time.perf_counter() - begun
    lines = list(tables(histories, reported, seconds, given.histories))
    print("\n".join(lines))
    if not given.otava:
        print("Otava: NOT_RUN, --otava names no environment")
    if given.write:
        write(lines, "changes")
    return 0


def tables(
    histories: Sequence[History], reported: Mapping[str, Any], seconds: Mapping[str, float], each: int
) -> Any:
    """Precision and recall by disturbance; recall by size of the step; wrong reports; time."""
    yield f"{each} histories of {RUNS} runs for each disturbance, 0 to 3 steps each: precision / recall."
    yield ""
    yield "| disturbance | " + " | ".join(reported) + " |"
    yield "|---|" + "---:|" * len(reported)
    hits: dict[str, dict[float, list[bool]]] = {name: {} for name in reported}
    totals = {name: Score() for name in reported}
    for kind in KINDS:
        cells: list[str] = []
        for name, found in reported.items():
            score = Score()
            for history, steps_found in zip(histories, found, strict=True):
                if history.kind == kind:
                    for (_, size), hit in zip(history.true, score.add(steps_found, history.true), strict=True):
                        hits[name].setdefault(abs(size), []).append(hit)
                    totals[name].add(steps_found, history.true)
            cells.append(score.words)
        yield f"| {kind} | " + " | ".join(cells) + " |"
    yield "| all | " + " | ".join(total.words for total in totals.values()) + " |"
    rates = (f"{total.wrong * 1000 / (RUNS * len(histories)):.2f}" for total in totals.values())
    yield "| wrong reports a thousand runs | " + " | ".join(rates) + " |"
    yield (
        "| milliseconds a history | "
        + " | ".join(f"{1000 * s / len(histories):.1f}" for s in seconds.values())
        + " |"
    )
    yield ""
    yield "Recall by the size of the step:"
    yield ""
    yield "| step | " + " | ".join(reported) + " |"
    yield "|---|" + "---:|" * len(reported)
    for size in SIZES:
        cells = [f"{np.mean(hits[name].get(size, [False])):.1%}" for name in reported]
        yield f"| {size:.1%} | " + " | ".join(cells) + " |"
    yield ""


if __name__ == "__main__":
    sys.exit(main())
