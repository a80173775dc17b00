"""Bounds found by running schedules, against the limits that the prover finds."""

from __future__ import annotations

import dataclasses
import functools

import pytest

from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.limits import Limit, ring_limits
from kvproof.harness.simulate.bounds import Bound, draft_window_read, state_ring, window_ring
from kvproof.harness.simulate.schedule import SMALL
from kvproof.harness.solve.backends import backend
from kvproof.models.deepseek_v4 import CONFIGS, ModelConfig


@functools.cache
def proved(config: ModelConfig) -> dict[str, Limit]:
    """The prover's ring limits: "window", "csa_main", "hca_main"."""
    found: dict[str, Limit] = {}
    for limit in ring_limits(config, Solvers([backend("z3")])):
        if limit.name.startswith("ring positions"):
            found["window"] = limit
        elif ": state ring" in limit.name:
            found[limit.name.partition(":")[0]] = limit
    return found


def agree(bound: Bound, limit: Limit) -> None:
    """The same last safe value, and the same first one that is not."""
    assert limit.verdict.passed
    assert (bound.value, bound.beyond) == (limit.value, limit.beyond)


@pytest.mark.parametrize("drafts", [1, 2, 3])
def test_bounds_agree_with_the_prover(drafts: int) -> None:
    config = dataclasses.replace(SMALL, draft_tokens=drafts)
    limits = proved(config)
    agree(window_ring(config), limits["window"])
    agree(state_ring(config, 4, 8), limits["csa_main"])


def test_the_ring_of_the_wide_class_too() -> None:
    bound = state_ring(SMALL, 128, 128)
    agree(bound, proved(SMALL)["hca_main"])
    assert "ratio-128" in str(bound.broken)


@pytest.mark.parametrize("name", ["v4-flash", "v4-flash-mtp1"])
def test_window_ring_of_a_real_configuration(name: str) -> None:
    config = CONFIGS[name]
    assert window_ring(config).value == config.ring_slots == config.sliding_window + config.draft_tokens


def test_draft_window_read_is_the_window() -> None:
    bound = draft_window_read(SMALL)
    assert bound.value == SMALL.ring_slots - SMALL.draft_tokens == SMALL.sliding_window
    assert bound.broken.check == "draft window"
