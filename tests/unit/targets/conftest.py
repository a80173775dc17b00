"""A hostile package and its profile, in a folder of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvproof.harness.targets.revisions import open_target
from kvproof.harness.targets.spec import TargetSpec

PROFILE = """
name = "hostile"
marker = "hostile.py"

[[entries]]
contract = "row_scatter"
function = "hostile:scatter"

[[entries]]
contract = "window_write"
function = "hostile:absent"

[[entries]]
contract = "csa_translate"
function = "hostile:scratch"
"""


class Hostile:
    """The package, and how it is told what to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(Path(__file__).with_name("hostile.py"), folder / "hostile.py")
        self.profile = folder / "hostile.toml"
        self.profile.write_text(PROFILE)
        self.do("nothing")

    def do(self, mode: str) -> None:
        """From now on, with two tokens or more."""
        (self.folder / "mode").write_text(mode)

    def spec(self) -> TargetSpec:
        """The target."""
        return open_target(str(self.profile), self.folder)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    """One package for a module of tests."""
    return Hostile(tmp_path_factory.mktemp("hostile"))
