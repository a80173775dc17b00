"""What an installed kvproof is: one import name, all modules, the right dependencies, and two commands."""

import itertools
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDERS = ("models", "kernels", "properties", "harness", "reports")
HARD = {"cvc5", "hypothesis", "ml-dtypes", "numpy", "pytest", "pytest-benchmark", "rich", "typer", "z3-solver"}


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def test_the_five_folders_have_no_init_and_each_inner_package_has_one(root, source_files):
    for folder in FOLDERS:
        assert not (root / folder / "__init__.py").exists()
    inner = {path.parent for path in source_files if path.suffix == ".py" and path.parts[0] in FOLDERS}
    lacking = [
        str(folder) for folder in inner if len(folder.parts) > 1 and not (root / folder / "__init__.py").exists()
    ]
    assert lacking == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_link_is_relative_committed_as_a_link_and_resolves_to_its_folder(root, folder):
    link = root / "src" / "kvproof" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / folder
    assert link.resolve() == root / folder
    staged = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--stage", f"src/kvproof/{folder}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert staged.startswith("120000 ")


def test_the_wheel_has_one_top_level_name_and_every_module_and_schema(tree, source_files, tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(tree)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        entry_points = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kvproof"}
    expected = {"kvproof/py.typed", "kvproof/__main__.py", "kvproof/pytest_plugin.py"}
    for path in source_files:
        if path.parts[0] in FOLDERS and path.suffix in {".py", ".json"}:
            expected.add(f"kvproof/{path.as_posix()}")
    assert len(expected) > 50
    assert expected - names == set()
    assert "kvproof = kvproof.harness.cli.main:run" in entry_points
    assert "kvproof = kvproof.pytest_plugin" in entry_points
    hard = {
        canonicalize_name(Requirement(line).name)
        for line in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
        if "extra ==" not in line
    }
    assert hard == HARD


def test_torch_and_triton_are_an_extra_only(project):
    extra = {Requirement(text).name: text for text in project["optional-dependencies"]["torch"]}
    assert extra == {"torch": "torch>=2.6", "triton": "triton>=3.6"}
    assert {canonicalize_name(Requirement(text).name) for text in project["dependencies"]} == HARD


def test_the_constraints_pin_every_dependency_to_a_release_that_it_accepts(root, project):
    lines = [line for line in (root / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    assert (pins["torch"], pins["triton"]) == ("2.13.0", "3.8.0")
    for text in [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), text


def _make(root, *arguments, **environment):
    return subprocess.run(
        ["make", "-C", str(root), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_make_installs_once_and_again_only_when_the_pins_change(tree):
    assert _make(tree, "--question", "setup").returncode == 1
    stamp = re.search(
        r"^STAMP := (\S+)$", _make(tree, "--print-data-base", "--dry-run", "setup").stdout, re.MULTILINE
    )
    assert stamp
    (tree / stamp[1]).parent.mkdir()
    (tree / stamp[1]).touch()
    assert _make(tree, "--question", "setup").returncode == 0
    (tree / "Makefile").touch()
    assert _make(tree, "--question", "setup").returncode == 0
    with (tree / "constraints.txt").open("a") as file:
        file.write("another==1.0\n")
    assert _make(tree, "--question", "setup").returncode == 1


def test_make_refuses_an_old_python_in_words(tree, tmp_path):
    old = tmp_path / "python2"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = _make(tree, "setup", f"PYTHON={old}")
    assert done.returncode != 0
    assert f"{old} is older than 3.11" in done.stderr


def test_ci_runs_make_test(root):
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make test"
    dry = _make(root, "--dry-run", "test", "VENV=no-such-venv").stdout
    assert "-m pytest" in dry


@pytest.mark.parametrize("workflow", ["ci.yml", "nightly.yml"])
def test_the_workflows_call_what_a_person_would(root, workflow):
    text = (root / ".github" / "workflows" / workflow).read_text()
    for command in re.findall(r"run: (?:make (\w+)|(\.ci/run))", text):
        target = command[0]
        assert not target or re.search(rf"^{target}:", (root / "Makefile").read_text(), re.MULTILINE)
    if workflow == "nightly.yml":
        assert re.findall(r'"(3\.\d+)\.\d+"', text) == ["3.6", "3.7", "3.8"]
