"""The pytest plugin: markers, options and reporting for tests that run kvproof's engines.

It is loaded into every pytest run of an environment that has kvproof, also those of unrelated projects. So it
imports pytest alone, acts only on tests that ask for one of its fixtures, and prints only if one did.

Markers: ``fuzz`` (runs drawn cases), ``smt`` (asks a solver), ``gpu`` (needs a GPU).

Fixtures:

- ``kvproof_seed``: seed of everything drawn, an int.
- ``kvproof_budget``: seconds that one property may take.
- ``kvproof_device``: each device in turn. One that is not here skips the test, and the summary says so. The
  tests on a GPU carry the marker ``gpu``.
- ``kvproof_check``: call it with a ``Result``. It counts the verdict, and only PASS passes: FAIL, UNKNOWN and
  UNSUPPORTED fail the test, NOT_RUN skips it. A fault is stored, and the message has the command that replays it.
- ``kvproof_device_time``: call it with launches on rotating inputs. It measures their time on a GPU (graphs,
  flushed cache, until the spread is small), and leaves the samples in pytest-benchmark's
  ``extra_info`` where that is used.

The profile (dev, ci, nightly), which sets the budget where ``--kvproof-budget`` does not, is chosen by the
variable ``KVPROOF_PROFILE``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kvproof.harness.devices.base import Device
    from kvproof.reports.result import Result

MARKERS = {
    "fuzz": "runs drawn cases through a kernel or a layout statement (kvproof)",
    "smt": "asks a solver (kvproof)",
    "gpu": "needs a GPU; not run elsewhere (kvproof)",
}

CPU_DEVICES = ("interpret", "ir")
GPU_DEVICES = ("cuda", "hip")


@dataclass
class _Seen:
    """What the tests of this run have reported.

    Attributes:
        statuses: how many verdicts of each status.
        absent: reason for each device that was not here.
        findings: identifiers of the faults met.
    """

    statuses: Counter[str] = field(default_factory=Counter[str])
    absent: dict[str, str] = field(default_factory=dict[str, str])
    findings: dict[str, str] = field(default_factory=dict[str, str])


_WORKER_KEY = "kvproof_seen"
_seen_key = pytest.StashKey[_Seen]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options. Their values are read when a test asks for them."""
    group = parser.getgroup("kvproof", "kvproof")
    group.addoption(
        "--kvproof-device",
        metavar="NAME",
        default="auto",
        help="where kernels run: auto (every device), interpret, ir, cuda or hip",
    )
    group.addoption("--kvproof-seed", metavar="N", default=None, help="seed of everything drawn (default: 0)")
    group.addoption(
        "--kvproof-budget",
        metavar="TIME",
        default=None,
        help="time of one property: 20s, 2m (default: that of the profile in KVPROOF_PROFILE)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and refuse wrong option values before anything runs."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.stash[_seen_key] = _Seen()
    device = config.getoption("kvproof_device")
    if device not in ("auto", *CPU_DEVICES, *GPU_DEVICES):
        allowed = ", ".join(("auto", *CPU_DEVICES, *GPU_DEVICES))
        raise pytest.UsageError(f"--kvproof-device is {device!r}; allowed: {allowed}")
    if config.getoption("kvproof_seed") is not None or config.getoption("kvproof_budget") is not None:
        _read(config)


def _read(config: pytest.Config) -> tuple[int, float | None]:
    """Seed and budget of the command line."""
    from kvproof.harness.cli.errors import UsageError
    from kvproof.harness.cli.values import parse_budget, parse_seed

    seed, budget = config.getoption("kvproof_seed"), config.getoption("kvproof_budget")
    try:
        return (
            0 if seed is None else parse_seed(seed, "--kvproof-seed"),
            None if budget is None else parse_budget(budget, "--kvproof-budget"),
        )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for ``kvproof_device`` once a device."""
    if "kvproof_device" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("kvproof_device")
        names = [name for name in (*CPU_DEVICES, *GPU_DEVICES) if wanted in ("auto", name)]
        params = [pytest.param(n, marks=pytest.mark.gpu) if n in GPU_DEVICES else n for n in names]
        metafunc.parametrize("kvproof_device", params, indirect=True)


@pytest.fixture(scope="session")
def kvproof_seed(request: pytest.FixtureRequest) -> int:
    """Seed of everything drawn."""
    return _read(request.config)[0]


@pytest.fixture(scope="session")
def kvproof_budget(request: pytest.FixtureRequest) -> float:
    """Seconds that one property may take: of the command line, else of the profile."""
    given = _read(request.config)[1]
    if given is not None:
        return given
    from kvproof.harness.run import profiles

    try:
        return profiles.active().seconds
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture
def kvproof_device(request: pytest.FixtureRequest) -> Device:
    """A device that is here. Skips the test on one that is not."""
    from kvproof.harness.devices.registry import find_device

    device = find_device(request.param)
    availability = device.probe()
    if not availability.available:
        request.config.stash[_seen_key].absent[device.name] = availability.detail
        pytest.skip(f"NOT_RUN on {device.name}: {availability.detail}")
    return device


@pytest.fixture
def kvproof_device_time(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Measures launches on the GPU; skips the test where there is none."""
    from kvproof.harness.devices.registry import find_device

    found = [find_device(name).probe() for name in GPU_DEVICES]
    if not any(item.available for item in found):
        pytest.skip(f"NOT_RUN on a GPU: {'; '.join(item.detail for item in found)}")

    def measured(*launches: Callable[[], object]) -> Any:
        from kvproof.harness.bench.clocks import gpu_clock
        from kvproof.harness.bench.gpu_samples import GraphSampler, flush_buffer
        from kvproof.harness.bench.measure import Plan, measure

        sampler = GraphSampler(launches, flush_buffer())
        result = measure(sampler, Plan(), gpu_clock())
        if "benchmark" in request.fixturenames:
            info = request.getfixturevalue("benchmark").extra_info
            info |= {"device_us": result.samples, "mode": sampler.mode, "settled": result.settled}
        return result

    return measured


@pytest.fixture
def kvproof_check(request: pytest.FixtureRequest) -> Callable[[Result], None]:
    """Take a result into account: only PASS passes."""
    seen = request.config.stash[_seen_key]

    def check(result: Result) -> None:
        from kvproof.reports.store import Store

        status = result.verdict.status
        seen.statuses[str(status)] += 1
        if status == "PASS":
            return
        lines = [f"{status}: {result.property_name} on {result.subject}: {result.verdict.reason}"]
        for finding in result.findings:
            seen.findings[finding.id] = finding.property_name
            lines += [finding.message, f"replay with: kvproof replay {finding.id}"]
            try:
                Store().save_finding(finding)
            except OSError as error:
                lines.append(f"(the finding could not be stored: {error})")
        if status == "NOT_RUN":
            if result.device:
                seen.absent[result.device] = result.verdict.reason
            pytest.skip(lines[0])
        pytest.fail("\n".join(lines), pytrace=False)

    return check


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of pytest-xdist: send what was seen to the process that prints the summary."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        seen = session.config.stash[_seen_key]
        counts = {str(status): count for status, count in seen.statuses.items()}
        output[_WORKER_KEY] = (counts, seen.absent, seen.findings)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended: take over what it saw."""
    counts, absent, findings = getattr(node, "workeroutput", {}).get(_WORKER_KEY, ({}, {}, {}))
    seen = node.config.stash[_seen_key]
    seen.statuses.update(counts)
    seen.absent.update(absent)
    seen.findings.update(findings)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what kvproof's tests found, if there were any."""
    seen = config.stash[_seen_key]
    if not (seen.statuses or seen.absent):
        return
    terminalreporter.section("kvproof")
    if seen.statuses:
        statuses = ("PASS", "FAIL", "UNKNOWN", "UNSUPPORTED", "NOT_RUN")
        counts = ", ".join(f"{seen.statuses[status]} {status}" for status in statuses)
        terminalreporter.write_line(f"verdicts: {counts}")
    for device, reason in sorted(seen.absent.items()):
        terminalreporter.write_line(f"not run on {device}: {reason}")
    for identifier, name in seen.findings.items():
        terminalreporter.write_line(f"replay {name} with: kvproof replay {identifier}")
