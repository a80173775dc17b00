"""The conformance check on a GPU: right functions pass; offsets in 32 bits are seen in what was launched there."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.conformance import ConformanceError, check
from kvproof.harness.devices.registry import GPUS, find_device

DEVICE = next((name for name in GPUS if find_device(name).probe().available), "")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not DEVICE, reason="needs a GPU")]

STANDIN = Path(__file__).parents[1] / "conformance"
DEADLY = """
import sys
from kvproof.conformance import ConformanceError, check
sys.path.insert(0, sys.argv[1])
import deadly
try:
    check(deadly.scatter, "row_scatter", device=sys.argv[2], cases=100, seconds=60, shrink_seconds=1)
except ConformanceError as error:
    print("found", error)
"""


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in package's, as an installed one would be."""
    monkeypatch.syspath_prepend(str(STANDIN))
    return importlib.import_module("standin.kernels")


def test_right_functions_pass(kernels: Any) -> None:
    for function, contract, types in (
        (kernels.swa_write, "window_write", {"WindowParams": kernels.Window}),
        (kernels.swa_scatter_rows, "row_scatter", {}),
    ):
        found = check(function, contract, types=types, device=DEVICE, seconds=60)
        assert found.verdict.passed
        assert found.device == DEVICE


def test_an_offset_in_32_bits_is_found_in_what_was_launched(kernels: Any) -> None:
    source = (STANDIN / "standin" / "kernels.py").read_text().splitlines()
    line = next(n for n, text in enumerate(source, 1) if "row.to(tl.int32) * pool_stride" in text)
    narrow = partial(kernels.swa_write, fault="narrow offset")
    # The second check launches no kernel that this process has not launched before.
    for _ in range(2):
        with pytest.raises(ConformanceError) as found:
            check(
                narrow, "window_write", types={"WindowParams": kernels.Window}, device=DEVICE, cases=20, seconds=60
            )
        assert f"does not keep the contract 'window_write' on {DEVICE}" in str(found.value)
        place = str(found.value).partition("offset in 32 bits: the store through pool at ")[2].split()[0]
        assert place.endswith(f"standin/kernels.py:{line}")


def test_a_wrong_function_is_found(kernels: Any) -> None:
    wrong = partial(kernels.swa_scatter_rows, fault="padding written")
    with pytest.raises(ConformanceError, match="pool row"):
        check(wrong, "row_scatter", device=DEVICE, cases=400, seconds=60, causes=1, shrink_seconds=1)


def test_a_function_that_breaks_the_gpu_is_found_and_not_an_error_of_the_check() -> None:
    # In a process of its own, since nothing runs on the GPU in that one afterwards.
    paths = [str(Path(path).resolve()) for path in sys.path if path]
    run = subprocess.run(
        [sys.executable, "-c", DEADLY, str(Path(__file__).parent), DEVICE],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.startswith("found scatter does not keep the contract 'row_scatter'")
    assert "smallest input:" in run.stdout
