"""Failures of simulations as findings, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.operations import schedule_from_json, schedule_json
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.schedule import SMALL, Failure, World
from kvproof.harness.simulate.site import Size
from kvproof.harness.simulate.story import story
from kvproof.harness.simulate.targets import parts_of
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.reports import environment
from kvproof.reports.finding import Finding

ENGINE = "simulate"

CHECKS: Mapping[str, str] = {
    "window": "attention finds exactly the window of its own request, as last written",
    "entries": "attention finds the complete entries of its own request",
    "state": "a compression pools the positions of its own request, as they were before this forward",
    "draft window": "the draft layers find the window that ends at the last token kept",
    "indices": "an index builder lists exactly the rows that its tokens need",
    "ownership": "a row is written only by the request that has its slot or block, which no other gets",
    "apart": "blocks and slots never meet",
    "bookkeeping": "the host's own books agree",
    "launch": "every launch runs",
    "liveness": "admitted requests finish",
    "leak": "after all requests ended, nothing is taken",
}
"""What each check says."""


def config_json(config: ModelConfig) -> dict[str, Any]:
    """A configuration as JSON values."""
    return dataclasses.asdict(config) | {"trunk_ratios": list(config.trunk_ratios)}


def world_json(world: World) -> dict[str, Any]:
    """Where a schedule was run, as JSON values. Planted parts are not told."""
    settings = dataclasses.asdict(world.settings) | {"config": config_json(world.settings.config)}
    other = None if world.other is None else dataclasses.asdict(world.other)
    return {"settings": settings, "size": dataclasses.asdict(world.size), "other": other}


def world_from_json(data: Mapping[str, Any], target: str, device: str) -> World:
    """The pools of a stored schedule, with a target's kernels.

    Raises:
        ValueError: not such a world.
    """
    try:
        config = dict(data["settings"]["config"])
        config["trunk_ratios"] = tuple(config["trunk_ratios"])
        slack = tuple((ratio, positions) for ratio, positions in data["settings"]["state_slack"])
        settings = Settings(**{**data["settings"], "config": ModelConfig(**config), "state_slack": slack})
        other = None if data["other"] is None else Size(**data["other"])
        return World(settings, Size(**data["size"]), other, parts=parts_of(target, device))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a simulated pool: {error!r}") from error


def finding_of(world: World, failure: Failure, target: str, device: str, seed: int) -> Finding:
    """A failure as a finding."""
    broken: Broken = failure.broken
    return Finding(
        engine=ENGINE,
        property_name=broken.check,
        words=CHECKS.get(broken.check, broken.check),
        subject=world.settings.config.name,
        case={
            **world_json(world),
            "schedule": schedule_json(failure.schedule),
            "story": story(failure.schedule, broken),
        },
        message=broken.message,
        expected=str(broken.facts.get("wanted", "")),
        got=str(broken.facts.get("got", "")),
        target=target,
        device=device,
        seed=seed,
        commit=environment.commit(),
        environment=environment.environment(),
    )


def stored_schedule(finding: Finding) -> tuple[World, list[Any]]:
    """Pools and schedule of a stored finding.

    Raises:
        ValueError: not a finding of a simulation.
    """
    if finding.engine != ENGINE:
        raise ValueError(f"finding {finding.id} is of engine {finding.engine!r}; allowed: {ENGINE!r}")
    if "schedule" not in finding.case:
        raise ValueError(f"finding {finding.id}: its case lacks 'schedule'")
    return world_from_json(finding.case, finding.target, finding.device), schedule_from_json(
        finding.case["schedule"]
    )


def small_world() -> World:
    """The layout that properties and planted faults are run on."""
    return World(Settings(SMALL))
