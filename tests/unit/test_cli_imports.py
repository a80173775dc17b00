"""What ``kvproof doctor`` says of packages that are installed but cannot be imported."""

import importlib

import pytest

from kvproof.harness.cli import imports
from kvproof.harness.cli.imports import import_faults
from kvproof.harness.cli.main import main
from kvproof.harness.devices import registry

FAKES = {
    "cvc5": ("import os; os.abort()", "importing it ends the process (SIGABRT)"),
    "ml-dtypes": ("raise ImportError('libmissing.so: no such file')", "ImportError: libmissing.so: no such file"),
    "hypothesis": ("import sys; sys.exit(4)", "SystemExit: 4"),
    "z3-solver": ("import time; time.sleep(1000)", "importing it took more than"),
}


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Packages that stand in the way of the real ones, in new processes."""
    for package, (source, _) in FAKES.items():
        folder = tmp_path / imports.MODULES.get(package, package)
        folder.mkdir()
        (folder / "__init__.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_each_way_to_fail_is_told_and_what_works_is_left_out(broken):
    faults = import_faults(["numpy", *FAKES], seconds=5.0)
    assert set(faults) == set(FAKES)
    for package, (_, words) in FAKES.items():
        assert words in faults[package], package


def test_doctor_counts_what_cannot_be_imported_as_missing(monkeypatch, capsys):
    monkeypatch.setattr(
        imports, "import_faults", lambda _packages: {"cvc5": "ImportError: x", "triton": "SIGSEGV"}
    )
    monkeypatch.setattr(registry, "all_devices", lambda: pytest.fail("looked at devices with a broken package"))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert ", but it cannot be imported: ImportError: x" in out
    assert "install    cvc5 (for a second opinion on proofs)" in out
    assert "device     not looked at, since triton cannot be imported" in out
    assert "nothing is missing" not in out


def test_a_device_whose_package_is_broken_is_a_missing_one(monkeypatch):
    def broken(name):
        raise ImportError("libamdhip64.so: no such file")

    registry._device.cache_clear()
    monkeypatch.setattr(importlib, "import_module", broken)
    try:
        found = registry._device("hip").probe()
    finally:
        registry._device.cache_clear()
    assert not found.available
    assert "libamdhip64.so" in found.detail
