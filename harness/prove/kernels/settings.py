"""Settings of this project's kernels: drawn cases of a real configuration, and what can vary in them."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from kvproof.harness.prove.kernels.binding import probe
from kvproof.harness.prove.kernels.launch import Setting
from kvproof.harness.prove.kernels.probing import Prober, Run, UnknownLaunch
from kvproof.kernels.registry import Kernel
from kvproof.kernels.shapes import shaped_for
from kvproof.models.contract import TensorValue
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.strategies.cases import Case, all_kernel_properties
from kvproof.properties.strategies.draws import same_draws_everywhere

DRAWN = 48
"""Cases looked at for one kernel: enough to meet the specialisations that a launcher chooses between."""

SEEDS = 4
"""Runs that draw them: the cases of one run are too much alike."""


def settings_of(
    kernel: Kernel, subject: ModelConfig | None, most: int = 2, cases: Sequence[Mapping[str, Any]] | None = None
) -> list[Setting]:
    """Settings of a kernel under a configuration's layout, one a specialisation, those with most freedom first.

    The first is of the largest shape that was met, the second of the smallest, and so on between them.

    Args:
        kernel: whose.
        subject: the configuration.
        most: settings at most.
        cases: the cases to look at, if not those of :func:`cases_of`.

    Raises:
        UnknownLaunch: no drawn case tells how the kernel is launched; the message says why.
    """
    if not kernel.triton:
        raise UnknownLaunch(f"{kernel.name} runs on the host and launches nothing")
    found: dict[int, dict[tuple[Any, ...], Setting]] = {size: {} for size in (3, 0, 1, 2)}
    reasons: list[str] = []
    probing = _Probing(kernel)
    for number, case in enumerate(_drawn(kernel, subject) if cases is None else map(Case, cases)):
        if not any(isinstance(v, TensorValue) and v.storage.size for v in case.values.values()):
            continue
        run = probing.run(case)
        alike = found[probing.shape(case, run)]
        if len(alike) >= most or (alike and number >= DRAWN // 2) or probing.is_familiar(run):
            continue
        try:
            setting = probing.setting(f"drawn case {number}", case)
        except UnknownLaunch as unknown:
            reasons.append(str(unknown))
            continue
        key = tuple((id(launch.kernel), launch.signature.key) for launch in setting.launches)
        known = alike.get(key)
        if known is None or _freedom(setting) > _freedom(known):
            alike[key] = setting
    kinds = [sorted(settings.values(), key=_freedom, reverse=True) for settings in found.values()]
    turns = [setting for turn in itertools.zip_longest(*kinds) for setting in turn if setting is not None]
    if not turns:
        raise UnknownLaunch(reasons[0] if reasons else f"{kernel.name}: no case has contents")
    chosen = turns[:most]
    words = f"of {probing.met} specialisations that drawn cases met, {len(chosen)} are checked"
    return [replace(setting, assumptions=(*setting.assumptions, words)) for setting in chosen]


def _freedom(setting: Setting) -> tuple[bool, int]:
    """A setting that is understood comes before one that is not, then the one in which more varies."""
    return not any(launch.loose for launch in setting.launches), len(setting.quantities)


class _Probing:
    """Settings of a kernel's cases. What makes a launch hard to understand is kept as it is in the case."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._fixed: str | None = None
        self._tries: Counter[bool] = Counter()
        self._probed: Counter[Any] = Counter()

    @property
    def met(self) -> int:
        """Specialisations that the cases looked at launch."""
        return len(self._probed)

    def shape(self, case: Case, run: Run | None) -> int:
        """How much of a large launch's shape a case has: another specialisation than by its own size, and several
        programs along the grid's second axis.
        """
        own = self.run(replace(case, shaped_for=0)) if case.shaped_for else run
        if run is None or own is None:
            return 0
        return 2 * (run.kind != own.kind) + any(caught.grid[1] > 1 for caught in run.launches)

    def is_familiar(self, run: Run | None) -> bool:
        """Whether what a case launches was probed often enough to know how freely it can vary."""
        kind = None if run is None else run.kind
        self._probed[kind] += 1
        return self._probed[kind] > ALIKE

    def run(self, case: Case) -> Run | None:
        """What a case launches; None if nothing can be told."""
        prober = Prober(self._kernel.contract, _launcher(self._kernel, case), case.values)
        return prober.run(prober.numbers)

    def setting(self, name: str, case: Case) -> Setting:
        """The setting of one case.

        Raises:
            UnknownLaunch: how it is launched cannot be told.
        """
        setting: Setting | None = None
        problem: UnknownLaunch | None = None
        try:
            setting = self._probe(name, case, None)
        except UnknownLaunch as unknown:
            problem = unknown
        if setting is not None and not any(launch.loose for launch in setting.launches):
            return setting
        # A launch that cannot be told at all does not use up the tries of one that is nearly understood.
        kind = problem is None
        names = [self._fixed] if self._fixed else []
        if self._tries[kind] < TRIES:
            names += [candidate for candidate in self._candidates() if candidate != self._fixed]
        self._tries[kind] += 1
        for candidate in names:
            try:
                better = self._probe(name, case, candidate)
            except UnknownLaunch:
                continue
            if not any(launch.loose for launch in better.launches):
                self._fixed = candidate
                return better
        if setting is None:
            assert problem is not None  # there is a setting, or a reason why there is none
            raise problem
        return setting

    def _probe(self, name: str, case: Case, fixed: str | None) -> Setting:
        kernel = self._kernel
        launcher = _launcher(kernel, case)
        return probe(name, kernel.contract, launcher, case.values, [fixed] if fixed else [])

    def _candidates(self) -> list[str]:
        """Extents, those of most tensors first."""
        shapes = [extent for tensor in self._kernel.contract.tensors for extent in tensor.shape]
        extents = [extent for extent in dict.fromkeys(shapes) if isinstance(extent, str)]
        return sorted(extents, key=lambda extent: -shapes.count(extent))[:CANDIDATES]


ALIKE = 2
"""Cases of one specialisation that are probed: the freer one is taken."""

CANDIDATES = 3
"""Extents that are tried out for it."""

TRIES = 2
"""Cases of a kernel, of each kind of difficulty, for which it is tried out what to keep."""


def _launcher(kernel: Kernel, case: Case) -> Callable[..., Any]:
    """The entry point, launching in the case's shape."""

    def launch(**arguments: Any) -> Any:
        with shaped_for(case.shaped_for):
            return kernel.load()(**arguments)

    return launch


def cases_of(kernel: Kernel, subject: ModelConfig | None) -> list[Mapping[str, Any]]:
    """The arguments of drawn cases of a kernel, the largest first.

    Raises:
        UnknownLaunch: there is no strategy for it.
    """
    return [case.values for case in _drawn(kernel, subject)]


def _drawn(kernel: Kernel, subject: ModelConfig | None) -> list[Case]:
    """Drawn cases, the largest first; the same in every process."""
    prop = all_kernel_properties().get(kernel.name)
    if prop is None:
        raise UnknownLaunch(f"{kernel.name} has no strategy of cases")
    cases: list[Case] = []

    @settings(
        max_examples=DRAWN // SEEDS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(prop.cases(subject))
    def collect(case: Any) -> None:
        cases.append(case)

    with warnings.catch_warnings(), same_draws_everywhere():
        warnings.simplefilter("ignore")
        for number in range(SEEDS):
            seed(number)(collect)()
    # Larger cases leave more room to vary.
    return sorted(cases, key=_size, reverse=True)


def _size(case: Case) -> int:
    shapes: Sequence[int] = [n for v in case.values.values() if isinstance(v, TensorValue) for n in v.shape[:1]]
    return min(shapes, default=0) * 1000 + sum(shapes)
