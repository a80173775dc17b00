"""docs/ir.md: its example runs, its numbers of kernels are those that there are, what it names exists."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("z3")

from kvproof.kernels.registry import all_kernels

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "ir.md").read_text(encoding="utf-8")


def _example(tmp_path, dropped=""):
    code = re.search(r"<!-- example: own kernel -->\n```python\n(.*?)```", TEXT, re.DOTALL)[1]
    assert dropped in code
    path = tmp_path / "test_own_kernel.py"
    path.write_text(code.replace(dropped, ""))
    spec = importlib.util.spec_from_file_location("own_kernel_example", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_kernel_example"] = module
    spec.loader.exec_module(module)
    return module


def test_the_example_is_run(tmp_path):
    module = _example(tmp_path)
    lines = (ROOT / "docs" / "ir.md").read_text(encoding="utf-8").split("def test_scatter():")[1].split("```")[0]
    assert len(lines.strip().splitlines()) <= 10
    module.test_scatter()


@pytest.mark.parametrize(
    ("dropped", "words"),
    [
        ('below("dest", "rows"), ', "it could not be if dest\\[i\\] < rows"),
        (', distinct("dest")', "one cell is stored to twice.*it could not be if dest\\[i\\] != dest\\[j\\]"),
    ],
)
def test_the_example_without_a_clause_names_it(tmp_path, dropped, words):
    """The nearest wrong ones: without the clause that keeps destinations in range, or apart."""
    with pytest.raises(AssertionError, match=words):
        _example(tmp_path, dropped).test_scatter()


def test_the_comparison_with_a_device_names_every_kernel():
    rows = re.findall(
        r"^\| `(\w+)` \|", TEXT.split("<!-- device: begin -->")[1].split("<!-- device: end -->")[0], re.M
    )
    assert rows == [name for name, kernel in all_kernels().items() if kernel.triton]


def test_files_that_are_named_exist():
    for name in re.findall(r"`((?:tests|harness)/[\w/.]+)`|python (tests/[\w/.]+)", TEXT):
        assert (ROOT / "".join(name)).exists(), name
