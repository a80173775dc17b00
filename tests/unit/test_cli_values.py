"""Every accepted value of an option next to its nearest refused one."""

import pytest

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.values import parse_budget, parse_integer, parse_output, parse_seed


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("90", 90), ("2m", 120), ("1h", 3600), ("0.5s", 0.5), ("1.5m", 90), ("168h", 604800)],
)
def test_a_budget_is_read(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "0",
        "0s",
        "0.0",
        "-1",
        "-1s",
        "+5s",
        "60 s",
        " 60s",
        "60S",
        "1d",
        "1m30s",
        "1e3",
        ".5s",
        "5.",
        "inf",
        "nan",
        "169h",
        "6\u0660s",
        "60s\n",
        "9" * 400,
    ],
)
def test_another_budget_is_refused_with_what_is_allowed(text):
    with pytest.raises(UsageError) as caught:
        parse_budget(text)
    assert str(caught.value).startswith(f"--budget is {text!r}; allowed: ")


@pytest.mark.parametrize(("text", "seed"), [("0", 0), ("7", 7), ("+7", 7), (str(2**63 - 1), 2**63 - 1)])
def test_a_seed_is_read(text, seed):
    assert parse_seed(text) == seed


@pytest.mark.parametrize("text", ["", "-1", str(2**63), "1.0", "0x10", "1_000", "seven", "1 ", "\u0667", "9" * 30])
def test_another_seed_is_refused(text):
    with pytest.raises(UsageError, match=r"^--seed is .*allowed: an integer from 0 to"):
        parse_seed(text)


def test_an_integer_option_has_both_ends():
    assert [parse_integer(str(n), "--n", 1, 3) for n in (1, 3)] == [1, 3]
    for n in (0, 4):
        with pytest.raises(UsageError, match=f"--n is '{n}'; allowed: an integer from 1 to 3"):
            parse_integer(str(n), "--n", 1, 3)


def test_an_output_file_needs_a_folder_that_exists(tmp_path):
    assert parse_output(str(tmp_path / "run.json"), "--json") == tmp_path / "run.json"
    for text in ("", str(tmp_path), str(tmp_path / "absent" / "run.json")):
        with pytest.raises(UsageError, match=r"^--json is "):
            parse_output(text, "--json")
