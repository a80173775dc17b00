"""Rules that every source file keeps: import names, import order, size, and nothing of one machine."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

FOLDERS = ("models", "kernels", "properties", "harness", "reports")
ROOTS = ("kvproof", *(f"kvproof.{folder}" for folder in FOLDERS))
LINE_LIMIT = 500


@pytest.fixture(scope="module")
def python_files(source_files):
    return [path for path in source_files if path.suffix == ".py" and not path.is_symlink()]


def _imported(path: Path):
    """(module name, level) of each import of a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level


def test_no_import_is_flat_or_relative(root, python_files):
    assert len(python_files) > 50
    bad = [
        f"{path}: {'.' * level}{name}"
        for path in python_files
        for name, level in _imported(root / path)
        if level or name.split(".")[0] in FOLDERS
    ]
    assert bad == []


@pytest.mark.parametrize(
    "line", ["import kernels", "from models.index import cdiv", "import harness.cli", "from . import x"]
)
def test_ruff_refuses_a_flat_or_relative_import(root, line):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select", "TID", "--stdin-filename", "harness/planted.py", "-"],
        input=f"{line}\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 1
    assert re.search(r"TID25[12]", done.stdout)


def test_ruff_finds_nothing(root):
    for arguments in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--no-cache"],
            capture_output=True,
            text=True,
            check=False,
            cwd=root,
        )
        assert done.returncode == 0, done.stdout


def _lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    source = str(tree / "src")
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": source, "NO_COLOR": "1", "COLUMNS": "200"},
    )


def test_the_import_order_holds(root):
    done = _lint_imports(root)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_import_linter_sees_every_module(root, source_files):
    graph = grimp.build_graph(*ROOTS, cache_dir=None)
    files = [path for path in source_files if path.suffix == ".py" and path.parts[0] in FOLDERS]
    names = {".".join(("kvproof", *path.with_suffix("").parts)).removesuffix(".__init__") for path in files}
    assert len(names) > 50
    assert names - set(graph.modules) == set()
    assert "kvproof.pytest_plugin" in graph.modules
    # Edges too, not only names: the command line reaches the specification.
    assert graph.chain_exists("kvproof.harness.cli.main", "kvproof.models.errors")


PLANTS = {
    "Faces over harness over properties over kernels over models": (
        "kernels/registry.py",
        "import kvproof.harness.cli.main",
    ),
    "Order of the engines": ("harness/check/choosers.py", "import kvproof.harness.cli.main"),
    "Reports read records only": ("reports/verdict.py", "import kvproof.models.errors"),
    "The specification is plain Python": ("models/index.py", "import torch"),
    "Solvers are imported in harness/solve alone": ("harness/prove/campaign.py", "import z3"),
}


def test_a_planted_import_breaks_each_contract(tree):
    for file, line in PLANTS.values():
        text = (tree / file).read_text()
        (tree / file).write_text(
            text.replace("from __future__ import annotations\n", f"from __future__ import annotations\n{line}\n")
        )
        assert line in (tree / file).read_text()
    done = _lint_imports(tree)
    assert done.returncode == 1
    broken = re.findall(r"^(.+?) BROKEN(?: \(|$)", done.stdout, re.MULTILINE)
    assert sorted(set(broken)) == sorted(PLANTS), done.stdout


def test_only_test_modules_of_properties_use_the_engines(root, python_files):
    users = [
        path
        for path in python_files
        if path.parts[0] == "properties"
        and any(name.startswith(("kvproof.harness", "kvproof.reports")) for name, _ in _imported(root / path))
    ]
    assert [str(path) for path in users if not path.name.startswith("test_")] == []


# A labelled corpus is data: each kernel stands beside its faulty twin and its label.
CORPORA = {"tests/quality/ir/corpus.py", "tests/quality/ir/corpus_hard.py"}


def test_no_file_is_long(root, python_files):
    lengths = {str(path): len((root / path).read_text().splitlines()) for path in python_files}
    long = {path: n for path, n in lengths.items() if n > LINE_LIMIT and path not in CORPORA}
    assert long == {}


def test_nothing_names_this_machine_or_a_registry(root, source_files):
    # Written in parts, so that this file does not find itself.
    patterns = [
        "/" + "work/",
        "/" + r"root/[.\w]",
        "/" + r"home/\w",
        "/opt/" + "(wheels|pypi)",
        "pypi" + r"\.org",
        "pythonhosted" + r"\.org",
        "download" + r"\.pytorch\.org",
    ]
    pattern = re.compile("|".join(patterns))
    found = []
    for path in source_files:
        if (root / path).is_symlink():
            assert not (root / path).readlink().is_absolute()
            continue
        text = (root / path).read_bytes().decode("utf-8", "replace")
        found += [f"{path}: {match[0]}" for match in pattern.finditer(text)]
    assert found == []
