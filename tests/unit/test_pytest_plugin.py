"""The pytest plugin: light in unrelated runs, strict about verdicts, and clear about what was not run."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import kvproof
from kvproof.harness.devices.registry import all_devices
from kvproof.pytest_plugin import CPU_DEVICES, GPU_DEVICES, MARKERS
from kvproof.reports.store import Store

pytest_plugins = ("pytester",)

# Installed, pytest finds the plugin by its entry point; from a bare source tree it has to be named.
_INSTALLED = any(point.name == "kvproof" for point in entry_points(group="pytest11"))
_NAMED = () if _INSTALLED else ("-p", "kvproof.pytest_plugin")

HEAD = """
import pytest
from kvproof.reports.finding import Finding
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

FINDING = Finding("kernel", "window_write", "words", "v4-flash", {"T": 1}, "row 7 was written")

def result(status, reason="", findings=(), device=""):
    return Result("v4-flash", "window_write", "fuzz", Verdict(Status(status), reason), 0.1, 3, {}, device,
                  findings=findings)
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("KVPROOF_STORE", str(pytester.path / "store"))
    monkeypatch.delenv("KVPROOF_PROFILE", raising=False)

    def call(source, *arguments):
        pytester.makepyfile(HEAD + source)
        return pytester.runpytest_inprocess(
            *_NAMED, "--strict-markers", "-p", "no:cacheprovider", "-v", *arguments
        )

    return call


def test_importing_the_plugin_loads_no_engine():
    script = (
        "import sys, kvproof.pytest_plugin\n"
        "heavy = 'torch triton z3 cvc5 numpy hypothesis typer rich'.split()\n"
        "print([name for name in heavy if name in sys.modules],"
        " [name for name in sys.modules if name.startswith('kvproof.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[] ['kvproof.pytest_plugin']\n"


def test_an_unrelated_run_is_left_alone(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(kvproof.__file__).absolute().parent.parent))
    # A project with markers of the same names, whose meaning is its own.
    pytester.makeini("[pytest]\nmarkers =\n  gpu: theirs\n  fuzz: theirs\n")
    pytester.makepyfile("""
        import sys, pytest
        @pytest.mark.gpu
        @pytest.mark.fuzz
        def test_theirs():
            loaded = [n for n in sys.modules if n.startswith("kvproof.")]
            assert loaded == ["kvproof.pytest_plugin"]
            assert not {"torch", "triton", "z3", "cvc5", "numpy"} & set(sys.modules)
    """)
    done = pytester.runpytest_subprocess(*_NAMED, "--strict-markers", "-m", "gpu and fuzz")
    done.assert_outcomes(passed=1)
    assert "kvproof" not in done.stdout.str().split("test session starts")[1].split("collected")[1]


def test_only_pass_passes_and_the_summary_counts_every_verdict(run, pytester):
    done = run("""
@pytest.mark.parametrize("status", ["PASS", "UNKNOWN", "UNSUPPORTED", "NOT_RUN", "FAIL"])
def test_it(status, kvproof_check):
    findings = (FINDING,) if status == "FAIL" else ()
    kvproof_check(result(status, "" if status == "PASS" else f"why {status}", findings, "cuda"))
""")
    done.assert_outcomes(passed=1, failed=3, skipped=1)
    (path,) = (pytester.path / "store" / "findings").glob("*.json")
    finding = Store(pytester.path / "store").find(path.stem)
    done.stdout.fnmatch_lines(
        [
            "*FAIL: window_write on v4-flash: why FAIL",
            "*row 7 was written",
            f"*replay with: kvproof replay {finding.id}",
            "*= kvproof =*",
            "verdicts: 1 PASS, 1 FAIL, 1 UNKNOWN, 1 UNSUPPORTED, 1 NOT_RUN",
            "not run on cuda: why NOT_RUN",
            f"replay window_write with: kvproof replay {finding.id}",
        ]
    )


def test_workers_of_xdist_add_up_in_one_summary(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(kvproof.__file__).absolute().parent.parent))
    monkeypatch.setenv("KVPROOF_STORE", str(pytester.path / "store"))
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.parametrize("number", range(4))
def test_it(number, kvproof_check):
    status = ["PASS", "PASS", "UNKNOWN", "FAIL"][number]
    kvproof_check(result(status, "" if status == "PASS" else "why", (FINDING,) if status == "FAIL" else ()))
"""
    )
    done = pytester.runpytest_subprocess(*_NAMED, "-n", "2", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        ["verdicts: 2 PASS, 1 FAIL, 1 UNKNOWN, 0 UNSUPPORTED, 0 NOT_RUN", "replay window_write*"]
    )


MARKED = """
@pytest.mark.fuzz
def test_a(): pass
@pytest.mark.smt
def test_b(): pass
@pytest.mark.gpu
def test_c(): pass
"""


def test_the_markers_are_known_and_select(run):
    run(MARKED).assert_outcomes(passed=3)
    for marker in MARKERS:
        run(MARKED, "-m", marker).assert_outcomes(passed=1, deselected=2)


DEVICE_TEST = """
@pytest.fixture(autouse=True)
def devices(monkeypatch):
    from kvproof.harness.devices import registry
    from kvproof.harness.devices.base import Availability
    class Fake:
        def __init__(self, name): self.name = name
        def probe(self): return Availability(self.name in {"interpret", "hip"}, f"about {self.name}")
    monkeypatch.setattr(registry, "find_device", Fake)

def test_it(kvproof_device):
    assert kvproof_device.name in {"interpret", "hip"}
"""


def test_a_device_test_runs_where_it_can_and_says_where_it_did_not(run):
    done = run(DEVICE_TEST)
    done.assert_outcomes(passed=2, skipped=2)
    done.stdout.fnmatch_lines(["not run on cuda: about cuda", "not run on ir: about ir"])


def test_gpu_selects_the_gpu_devices_and_an_option_one_of_them(run):
    run(DEVICE_TEST, "-m", "gpu").assert_outcomes(passed=1, skipped=1, deselected=2)
    run(DEVICE_TEST, "--kvproof-device", "interpret").assert_outcomes(passed=1)
    run(DEVICE_TEST, "--kvproof-device", "cuda").assert_outcomes(skipped=1)


def test_the_devices_of_the_plugin_are_those_of_the_registry():
    assert {*CPU_DEVICES, *GPU_DEVICES} == {device.name for device in all_devices()}


VALUES = """
def test_it(kvproof_seed, kvproof_budget):
    print("seed", kvproof_seed, "budget", kvproof_budget)
"""


@pytest.mark.parametrize(
    ("profile", "arguments", "line"),
    [
        (None, (), "seed 0 budget 60.0"),
        ("ci", (), "seed 0 budget 20.0"),
        ("nightly", (), "seed 0 budget 600.0"),
        ("ci", ("--kvproof-seed", "7", "--kvproof-budget", "2m"), "seed 7 budget 120.0"),
    ],
)
def test_seed_and_budget_come_from_the_options_or_the_profile(run, monkeypatch, profile, arguments, line):
    if profile:
        monkeypatch.setenv("KVPROOF_PROFILE", profile)
    done = run(VALUES, "-s", *arguments)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines([f"*{line}*"])


@pytest.mark.parametrize(
    "arguments",
    [("--kvproof-device", "tpu"), ("--kvproof-seed", "-1"), ("--kvproof-seed", "x"), ("--kvproof-budget", "5x")],
    ids=" ".join,
)
def test_a_wrong_option_is_refused_before_anything_runs(run, arguments):
    done = run(VALUES, *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: {arguments[0]} is '{arguments[1]}'; allowed: *"])


def test_an_unknown_profile_is_an_error_where_it_is_used(run, monkeypatch):
    monkeypatch.setenv("KVPROOF_PROFILE", "fast")
    done = run(VALUES)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*KVPROOF_PROFILE is 'fast'; allowed: dev, ci, nightly*"])
