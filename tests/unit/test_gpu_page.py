"""The page of GPU times says what the kept files say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.bench.table_page import page, read_table
from kvproof.kernels.registry import all_kernels

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_is_made_from_the_kept_file() -> None:
    text = (DOCS / "gpu.md").read_text(encoding="utf-8")
    made = re.search(r"<!-- table: docs/gpu/h200\.json -->\n(.*)<!-- end -->\n", text, re.DOTALL)
    assert made
    assert made[1] == page(DOCS / "gpu" / "h200.json")


def test_every_kernel_was_measured() -> None:
    _, _, rows = read_table(DOCS / "gpu" / "h200.json")
    assert {row.kernel for row in rows} == set(all_kernels())
    assert not [row for row in rows if row.error]


def test_times_that_the_page_quotes_were_measured() -> None:
    """Each number of microseconds that the page compares with production's is in one of the kept files."""
    kept = (DOCS / "gpu" / "h200-plans.txt").read_text(encoding="utf-8") + page(DOCS / "gpu" / "h200.json")
    text = (DOCS / "gpu.md").read_text(encoding="utf-8").partition("## What misses")[0]
    quoted = re.findall(r"(\d+\.\d+) us|theirs (\d+\.\d+)", text)
    assert len(quoted) > 10
    for numbers in quoted:
        assert "".join(numbers) in kept, numbers


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"machine": {}}), encoding="utf-8")
    with pytest.raises(ValueError, match="no benchmark table"):
        read_table(path)
