"""What the host contracts of state modules say of answers that are right, and of each kind that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.harness.run.host_modules import HOST_CONTRACTS

POOL = {"groups": 2, "steps": [["pop"], ["pop"], ["release", 0], ["retire"], ["extend", 1]]}
POOL_ANSWER: list[Any] = [[0, 1, 2], [1, 0, 2], [None, 1, 2], [[1, 0], 0, 1], [None, 1, 2]]

FIELD = {"name": "kv", "layers": 2, "shape": [1, 128], "dtype": "fp32", "fill": 1.0, "align": 0}
ARENA = {"fields": [FIELD], "row_bytes": [512, 128], "slots": 2, "stride": 2048, "before": 1024}
ARENA_ANSWER: dict[str, Any] = {
    "rows": 2,
    "fields": {"kv": {"plane": 0, "addresses": [[1024, 3072], [1536, 3584]], "filled": True}},
}

CHECKPOINT = {
    "whole": "same",
    "damaged": {"3": "refused", "90": "refused"},
    "short": "refused",
    "long": "refused",
    "other boundary": "refused",
    "other prefix": "refused",
}

PAGES = {
    "pages": [[4096, 100, 32]],
    "slots": [[8192, 100, 48]],
    "blocks": 3,
    "groups": 2,
    "ids": [2, 0],
    "group": 1,
    "offset": 16,
}
PAGES_ANSWER: dict[str, Any] = {
    "pages": [[4096, 4128, 4160]],
    "slots": [[8244, 8196]],
    "plans": [[64, 80], [48, 64]],
}


@pytest.mark.parametrize(
    ("name", "given", "answer"),
    [
        ("state pool", POOL, POOL_ANSWER),
        ("state arena", ARENA, ARENA_ANSWER),
        ("checkpoint codec", {}, CHECKPOINT),
        ("page codec", PAGES, PAGES_ANSWER),
    ],
)
def test_answers_that_are_right(name: str, given: Any, answer: Any) -> None:
    assert HOST_CONTRACTS[name].wrong(given, answer) == ""


def pool(step: int, answer: Any) -> list[Any]:
    return [answer if n == step else one for n, one in enumerate(POOL_ANSWER)]


def arena(**changes: Any) -> dict[str, Any]:
    return {"rows": 2, "fields": {"kv": {**ARENA_ANSWER["fields"]["kv"], **changes}}}


@pytest.mark.parametrize(
    ("name", "given", "answer", "words"),
    [
        ("state pool", POOL, pool(1, [0, 0, 2]), "handed out while"),
        ("state pool", POOL, pool(1, [None, 1, 2]), "no group although"),
        ("state pool", POOL, pool(2, [None, 0, 2]), "0 free of 2"),
        ("state pool", POOL, pool(3, [[0, -1], 0, 1]), "the top is 1"),
        ("state pool", POOL, pool(3, [[1, -1], 0, 1]), "is moved to -1"),
        ("state pool", POOL, pool(3, [[1, 1], 0, 1]), "is moved to 1"),
        ("state arena", ARENA, {**ARENA_ANSWER, "rows": 3}, "arena rows: expected 2"),
        ("state arena", ARENA, arena(plane=1), "expected plane 0"),
        ("state arena", ARENA, arena(addresses=[[1024, 3072], [1280, 3584]]), "expected bytes"),
        ("state arena", ARENA, arena(filled=False), "does not hold 1.0"),
        ("checkpoint codec", {}, {**CHECKPOINT, "whole": "other"}, "a whole frame"),
        ("checkpoint codec", {}, {**CHECKPOINT, "damaged": {"3": "same"}}, "byte 3 damaged"),
        ("checkpoint codec", {}, {**CHECKPOINT, "other prefix": "same"}, "other prefix"),
        ("page codec", PAGES, {**PAGES_ANSWER, "slots": [[8192, 8240]]}, "slots: expected"),
        ("page codec", PAGES, {**PAGES_ANSWER, "plans": [[64, 64], [48, 64]]}, "plans: expected"),
    ],
)
def test_answers_that_are_wrong(name: str, given: Any, answer: Any, words: str) -> None:
    assert words in HOST_CONTRACTS[name].wrong(given, answer)
