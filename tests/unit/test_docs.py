"""The documents say what is there: commands and options exist, links resolve, every kernel has its row."""

import re
from pathlib import Path

import pytest

from kvproof.harness.cli.main import main
from kvproof.harness.cli.registry import all_commands
from kvproof.kernels.registry import all_kernels

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/performance.md",
    "docs/reports.md",
    "docs/schema.md",
    "docs/scratch.md",
    "docs/ir.md",
)


def _section(text: str, name: str) -> str:
    found = re.search(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert found, f"README.md has no part {name!r}"
    return found[1]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_resolve(root, document):
    path = root / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_in_documents_exist_with_their_options(root, document, capsys):
    text = (root / document).read_text(encoding="utf-8")
    lines = re.findall(r"^\$ kvproof (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert lines or document != "README.md"
    for line in lines:
        name, *rest = line.split()
        assert name in all_commands()
        assert main([name, "--help"]) == 0
        known = capsys.readouterr().out
        for option in rest:
            assert not option.startswith("--") or f"{option} " in known, line


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_in_documents_exist(root, document):
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z]+)`|^\$ make ([a-z]+)", (root / document).read_text(), re.MULTILINE):
        assert re.search(rf"^{''.join(target)}:", makefile, re.MULTILINE)


def test_every_kernel_has_its_row_in_the_readme(root):
    rows = [f"| `{name}` | `{k.contract.name}` | {k.summary} |" for name, k in all_kernels().items()]
    expected = "\n".join(["| kernel | entry point | what it does |", "| --- | --- | --- |", *rows]) + "\n"
    assert _section((root / "README.md").read_text(encoding="utf-8"), "kernels") == expected


def test_the_documents_name_only_files_that_exist(root):
    for document in DOCUMENTS:
        for name in re.findall(
            r"`((?:models|kernels|properties|harness|reports|tests|src)/[\w/.]*)`", (root / document).read_text()
        ):
            assert (root / Path(name)).exists(), f"{document}: {name}"


def test_the_readme_shows_the_present_layout(root, capsys):
    assert main(["layout", "v4-flash"]) == 0
    printed = capsys.readouterr().out
    shown = _section((root / "README.md").read_text(encoding="utf-8"), "output: kvproof layout v4-flash")

    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in text.strip().splitlines() if line.strip()]

    assert lines(shown)[1:-1] == lines(printed)
