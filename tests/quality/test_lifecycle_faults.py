"""Faults of request lifetimes: each is found by drawn schedules, and shrunk to its stated minimum."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from kvproof.harness.mutate.lifetimes.registry import all_faults
from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.findings import CHECKS
from kvproof.harness.simulate.machine import machine
from kvproof.harness.simulate.operations import schedule_from_json
from kvproof.harness.simulate.schedule import World, failure_of, find


def _catalogue() -> Any:
    """The stated minima; tests are no package, so the module beside this one is loaded by path."""
    path = Path(__file__).with_name("lifecycle_minima.py")
    spec = importlib.util.spec_from_file_location("lifecycle_minima", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


catalogue = _catalogue()
FAULTS = all_faults()
MINIMA = catalogue.minima()


def _without(world: World) -> World:
    """The same pools without what is planted."""
    return dataclasses.replace(World(), size=world.size)


def test_there_are_enough_faults_and_all_that_the_field_has_had() -> None:
    assert len(FAULTS) >= 25 + 16
    named = {fault.field for fault in FAULTS.values()}
    assert {"F06", "F09", "F10", "F16", "F18", "F19", "F20", "F23", "F25"} <= named
    assert set(MINIMA) == set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found_by_drawn_schedules(name: str) -> None:
    found = find(FAULTS[name].world)
    assert found is not None
    assert found.broken.check in CHECKS
    assert failure_of(_without(FAULTS[name].world), found.schedule) is None


@pytest.mark.parametrize("name", FAULTS)
def test_stated_minimum_shows_the_fault_and_nothing_of_it_can_be_left_out(name: str) -> None:
    world, stated = FAULTS[name].world, MINIMA[name]
    schedule = schedule_from_json(stated["schedule"])
    found = failure_of(world, schedule)
    assert found is not None
    assert found.broken.check == stated["check"]
    assert failure_of(_without(world), schedule) is None
    for at in range(len(schedule)):
        assert failure_of(world, [*schedule[:at], *schedule[at + 1 :]]) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_fault_shrinks_to_its_stated_minimum(name: str) -> None:
    found = catalogue.smallest(FAULTS[name])
    assert [*found.schedule] == schedule_from_json(MINIMA[name]["schedule"])


@pytest.mark.slow
def test_state_machine_finds_and_shrinks() -> None:
    """Hypothesis shrinks runs of rules; the drawn schedules above state the minima in operations."""
    tested = seed(0)(machine(FAULTS["rejected drafts taken as accepted"].world))
    limits = settings(
        max_examples=1000, stateful_step_count=20, deadline=None, database=None, report_multiple_bugs=False
    )
    with pytest.raises(Broken):
        run_state_machine_as_test(tested, settings=limits)
    assert len(tested.last_story) <= 6


def test_the_table_in_the_documents_is_that_of_the_minima() -> None:
    text = catalogue.TABLE.read_text(encoding="utf-8")
    assert catalogue.MARKS[0] + catalogue.table(MINIMA) + catalogue.MARKS[1] in text
