"""``kvproof ir diff``: what it says of the same kernels, of changed ones, and of ones that cannot be read."""

from __future__ import annotations

import shutil
import subprocess

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.cli import ir_diff
from kvproof.harness.ir.target import CUDA_90
from kvproof.kernels.registry import all_kernels

NAMES = ("row_scatter", "compress_plans")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of today's kernels, and a function that commits one of its files with a text replaced."""
    if shutil.which("git") is None:
        pytest.skip("no git here")
    shutil.copytree(ir_diff.ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(ir_diff, "ROOT", tmp_path)

    def commit(path=None, old="", new=""):
        if path is not None:
            text = (tmp_path / path).read_text()
            assert old in text
            (tmp_path / path).write_text(text.replace(old, new))
        git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "m"]):
            subprocess.run([*git, *arguments], check=True, timeout=60)

    return commit


def found():
    kernels = {name: all_kernels()[name] for name in NAMES}
    return dict(ir_diff.differences("HEAD", kernels, CUDA_90))


def test_the_same_kernels_do_not_differ(checkout):
    checkout()
    assert found() == {name: [] for name in NAMES}


def test_a_changed_address_is_shown_with_both_terms(checkout):
    checkout(
        "kernels/row_moves.py",
        "row_offset(target_row, target_stride)",
        "row_offset(target_row, target_stride + 1)",
    )
    first, *lines = found()["row_scatter"]
    assert first.startswith("row_scatter_kernel: IR ")
    assert sum(line.startswith("  - store pool_ptr[") for line in lines) == 1
    assert sum(line.startswith("  + store pool_ptr[") for line in lines) == 1


def test_a_revision_that_cannot_be_read_is_no_change_of_a_kernel(checkout):
    checkout("kernels/row_scatter/kernel.py", "import torch", "import torch_of_long_ago")
    (line,) = found()["row_scatter"]
    assert line.startswith("cannot be compared, in HEAD: ModuleNotFoundError")
