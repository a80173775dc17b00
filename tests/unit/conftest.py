"""The files of this checkout as a commit would hold them, and a copy of them that a test may break."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def source_files() -> list[Path]:
    """Files that git tracks or would add, relative to the root; links are listed as links."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = sorted({Path(name) for name in listed.split("\0") if name})
    return [path for path in paths if (ROOT / path).is_symlink() or (ROOT / path).exists()]


@pytest.fixture
def tree(source_files, tmp_path) -> Path:
    """A copy of the files, links kept."""
    for path in source_files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, tmp_path / path, follow_symlinks=False)
    return tmp_path
