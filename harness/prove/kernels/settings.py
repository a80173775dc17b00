"""Settings of this project's kernels: drawn cases of a real configuration, and what can vary in them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from kvproof.harness.prove.kernels.binding import probe
from kvproof.harness.prove.kernels.launch import Setting
from kvproof.harness.prove.kernels.probing import UnknownLaunch
from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.strategies.cases import all_kernel_properties

DRAWN = 24
"""Cases looked at for one kernel: enough to meet the specialisations that a launcher chooses between."""


def settings_of(kernel: Kernel, subject: ModelConfig | None, most: int = 2) -> list[Setting]:
    """Settings of a kernel under a configuration's layout, those with most freedom first, one a specialisation.

    Raises:
        UnknownLaunch: no drawn case tells how the kernel is launched; the message says why.
    """
    if not kernel.triton:
        raise UnknownLaunch(f"{kernel.name} runs on the host and launches nothing")
    found: dict[tuple[Any, ...], Setting] = {}
    reasons: list[str] = []
    for number, values in enumerate(_drawn(kernel, subject)):
        if len(found) > most or (found and number >= DRAWN // 2):
            break
        if not any(isinstance(v, TensorValue) and v.storage.size for v in values.values()):
            continue
        try:
            setting = probe(f"drawn case {number}", kernel.contract, kernel.load(), values)
        except UnknownLaunch as unknown:
            reasons.append(str(unknown))
            continue
        key = tuple((id(launch.kernel), launch.signature.key) for launch in setting.launches)
        known = found.get(key)
        if known is None or len(setting.quantities) > len(known.quantities):
            found[key] = setting
    if not found:
        raise UnknownLaunch(reasons[0] if reasons else f"{kernel.name}: no case has contents")
    return sorted(found.values(), key=lambda s: -len(s.quantities))[:most]


def _drawn(kernel: Kernel, subject: ModelConfig | None) -> Iterator[Mapping[str, Any]]:
    prop = all_kernel_properties().get(kernel.name)
    if prop is None:
        raise UnknownLaunch(f"{kernel.name} has no strategy of cases")
    cases: list[Mapping[str, Any]] = []

    @settings(
        max_examples=DRAWN,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(prop.cases(subject))
    def collect(case: Any) -> None:
        cases.append(case.values)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect()
    # Larger cases leave more room to vary.
    yield from sorted(cases, key=_size, reverse=True)


def _size(values: Mapping[str, Any]) -> int:
    shapes: Sequence[int] = [n for v in values.values() if isinstance(v, TensorValue) for n in v.shape[:1]]
    return min(shapes, default=0) * 1000 + sum(shapes)
