"""Element offsets of a target's kernels: of every specialisation that was launched, not of the last one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("triton")

from kvproof.harness.ir.compile import Signature
from kvproof.harness.targets.launches import launched
from kvproof.harness.targets.offsets import offsets_of_session
from kvproof.harness.targets.profile import Profile

SOURCE = """
import triton
import triton.language as tl


@triton.jit
def move(source, pool, stride, WIDE: tl.constexpr):
    row = tl.load(source)
    if WIDE:
        tl.store(pool + row.to(tl.int64) * stride, row)
    else:
        tl.store(pool + row * stride, row)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    file = tmp_path / "narrow_moves.py"
    file.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(launched, "narrow_moves:move", {})
    yield importlib.import_module("narrow_moves")
    del sys.modules["narrow_moves"]


def rows_of(root: Path, *signatures: Signature) -> list[dict[str, Any]]:
    launched["narrow_moves:move"] = {one.key: one for one in signatures}
    profile = Profile("ours", ".", kernels=("narrow_moves",), hints={"WIDE": True})
    return offsets_of_session(SimpleNamespace(profile=profile, library=SimpleNamespace(root=root)), ["cuda:90"])


def signature(wide: bool, stride: int | None = None) -> Signature:
    types = {"source": "*i32", "pool": "*i32", "stride": "i32"}
    if stride is None:
        return Signature(types, {"WIDE": wide})
    return Signature({name: types[name] for name in ("source", "pool")}, {"stride": stride, "WIDE": wide})


def test_every_specialisation_that_was_launched_counts(tmp_path: Path, module: ModuleType) -> None:
    assert module.move
    assert [row["offsets"] for row in rows_of(tmp_path)] == [[]]  # none was launched: by parameter names, wide
    assert rows_of(tmp_path, signature(True))[0]["offsets"] == []
    (row,) = rows_of(tmp_path, signature(False, 64), signature(False), signature(True))
    assert row["launched"]
    # One place, whose factor has its name where some launch had it as a run-time number.
    assert [(o["file"], o["access"], o["argument"]) for o in row["offsets"]] == [
        ("narrow_moves.py", "store", "pool")
    ]
    assert "stride" in row["offsets"][0]["factors"]
    (row,) = rows_of(tmp_path, signature(False, 64), signature(True))
    assert "64" in row["offsets"][0]["factors"]
