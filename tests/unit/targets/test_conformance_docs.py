"""The documented example is the one that runs."""

from pathlib import Path

import kvproof

ROOT = Path(kvproof.__file__).resolve().parents[2]


def test_the_documented_example_is_a_test() -> None:
    test = (
        (ROOT / "tests/conformance/test_example.py")
        .read_text()
        .split("starts here.\n")[1]
        .split("\n\n# The example ends")[0]
    )
    example = (ROOT / "docs/conformance.md").read_text().split("```python\n")[1].split("```")[0]
    assert example.strip() == test.strip()
    assert "check(" in example
