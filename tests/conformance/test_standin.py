"""The stand-in package through the public interface: right functions pass, every faulty variant is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("triton")

import torch
from standin import kernels
from standin.layout import Window

from kvproof.conformance import Conformance, ConformanceError, NotCheckedError, check
from kvproof.harness.ir.compile import CompileError
from kvproof.harness.run import conformance
from kvproof.harness.targets import launches
from kvproof.harness.targets.launches import recording

WINDOWS = {"WindowParams": Window}

Checker = Callable[..., Conformance]


def window_write(**more: Any) -> Conformance:
    return check(partial(kernels.swa_write, **_fault(more)), "window_write", types=WINDOWS, **more)


def row_scatter(**more: Any) -> Conformance:
    return check(partial(kernels.swa_scatter_rows, **_fault(more)), "row_scatter", **more)


def window_gather(**more: Any) -> Conformance:
    function = partial(kernels.window_gather, **_fault(more))
    return check(function, "window_gather", types=WINDOWS, returns=("out",), **more)


def state_update(**more: Any) -> Conformance:
    return check(partial(kernels.update_states, **_fault(more)), "state_update", **more)


def csa_translate(**more: Any) -> Conformance:
    return check(partial(kernels.translate, **_fault(more)), "csa_translate", **more)


def _fault(more: dict[str, Any]) -> dict[str, str]:
    return {"fault": more.pop("fault", "")}


RIGHT: tuple[Checker, ...] = (window_write, row_scatter, window_gather, state_update, csa_translate)

FAULTY: tuple[tuple[Checker, str, str], ...] = (
    (window_write, "first tokens", "pool"),
    (window_write, "short ring", "pool"),
    (window_write, "sentinel used", "pool"),
    (window_write, "no bound", "out of bounds"),
    (window_write, "dense rows", "pool"),
    (window_write, "runs touch", "pool"),
    (window_write, "narrow offset", "offset in 32 bits"),
    (row_scatter, "padding written", "pool"),
    (row_scatter, "negative row", "out of bounds"),
    (row_scatter, "no bound", "out of bounds"),
    (row_scatter, "wide store", "pool"),
    (window_gather, "newest first", "out"),
    (window_gather, "before the first", "out"),
    (window_gather, "stale slot", "pool"),
    (window_gather, "short ring", "out"),
    (state_update, "ring without drafts", "state"),
    (state_update, "padding row", "state"),
    (state_update, "no ape", "score_state"),
    (state_update, "one state", "score_state"),
    (state_update, "dense slots", "state"),
    (csa_translate, "window overwritten", "kv_indices_csa"),
    (csa_translate, "one row a block", "kv_indices_csa"),
    (csa_translate, "first block", "kv_indices_csa"),
    (csa_translate, "sentinel used", "kv_indices_csa"),
    (csa_translate, "token rows", "kv_indices_csa"),
    (csa_translate, "open group", "kv_indices_csa"),
    (csa_translate, "adjacent entries", "topk"),
)
QUICK = {"dense rows", "narrow offset", "padding written"}


@pytest.mark.slow
@pytest.mark.parametrize("checker", RIGHT)
def test_a_right_function_passes(checker: Checker) -> None:
    found = checker(seconds=60)
    assert found.verdict.passed
    assert found.device == "ir"
    assert found.cases >= 100


@pytest.mark.parametrize(
    ("checker", "fault", "words"),
    [
        pytest.param(*row, marks=[] if row[1] in QUICK else [pytest.mark.slow], id=f"{row[0].__name__}: {row[1]}")
        for row in FAULTY
    ],
)
def test_a_faulty_variant_is_found(checker: Checker, fault: str, words: str) -> None:
    with pytest.raises(ConformanceError) as found:
        checker(fault=fault, cases=400, seconds=60, causes=1, shrink_seconds=1)
    assert words in str(found.value)
    if fault != "narrow offset":
        assert "smallest input:" in str(found.value)


def other_write(**given: Any) -> None:
    kernels.swa_write(**given, fault="narrow offset")


def test_every_check_of_a_process_looks_at_the_kernels_that_it_launches_itself() -> None:
    told: list[str] = []
    narrow = partial(kernels.swa_write, fault="narrow offset")
    for function in (narrow, narrow, other_write, narrow):
        with pytest.raises(ConformanceError) as found:
            check(function, "window_write", types=WINDOWS, cases=8, seconds=30)
        told.append(str(found.value).split("\n", 1)[1])
    assert "offset in 32 bits: the store through pool at" in told[0]
    assert told == [told[0]] * 4
    # Nor does it hold one function to what another has launched before.
    with pytest.raises(NotCheckedError, match="ran 8 of the"):
        check(kernels.swa_write, "window_write", types=WINDOWS, cases=8, seconds=30)


def test_a_kernel_whose_offsets_cannot_be_told_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_launch: Any) -> Any:
        raise CompileError("argument extra is a tuple")

    with recording() as found:
        monkeypatch.setattr(launches, "signature_of", refuse)
        launch = launches._recorded(kernels._scatter_kernel, lambda *_args, **_options: "launched")
        assert launch(1, 2, D=3) == "launched"  # what a real device makes of it is the device's
    assert list(found.problems.values()) == ["argument extra is a tuple"]
    faults, untold = conformance._narrow(found, conformance.WIDE)
    assert not faults
    assert untold == ["the offsets of standin.kernels:_scatter_kernel cannot be told: argument extra is a tuple"]


def test_launches_on_a_real_device_are_recorded_and_every_specialisation_counts() -> None:
    launch = launches._recorded(kernels._scatter_kernel, lambda *_args, **_options: None)
    with recording() as outer:
        with recording() as found:
            for columns in (2, 4, 4):
                launch(*(torch.zeros(4, dtype=torch.int32),) * 4, 5, 5, 7, D=columns, BLOCK=4, FAULT="")
        launch(*(torch.zeros(4, dtype=torch.int32),) * 4, 5, 5, 7, D=8, BLOCK=8, FAULT="")
    launch(*(torch.zeros(4, dtype=torch.int32),) * 4, 5, 5, 7, D=9, BLOCK=16, FAULT="")
    assert [signature.constants["D"] for _, signature in found.kernels.values()] == [2, 4]
    assert [signature.constants["D"] for _, signature in outer.kernels.values()] == [2, 4, 8]


def test_a_signature_that_does_not_fit_is_said_and_nothing_passes() -> None:
    with pytest.raises(NotCheckedError, match="has no argument 'positions'"):
        check(kernels.swa_scatter_rows, "window_write")
    with pytest.raises(NotCheckedError, match="needs 'anchor_pos'"):
        check(kernels.window_gather, "window_gather", returns=("out",), drop=("anchor_pos",))
    with pytest.raises(ValueError, match="allowed: attention_decode"):
        check(kernels.swa_write, "window_wirte")
    with pytest.raises(NotCheckedError, match="function is 'swa_write'; allowed: something that can be called"):
        check("swa_write", "window_write")  # type: ignore[arg-type]
    with pytest.raises(NotCheckedError, match="tells no signature"):
        check(next, "window_write")
    with pytest.raises(NotCheckedError, match="device hip is not here"):
        check(kernels.swa_scatter_rows, "row_scatter", device="hip")


def test_too_few_cases_never_pass() -> None:
    with pytest.raises(NotCheckedError, match="ran 3 of the"):
        row_scatter(cases=3)


def test_there_are_enough_faulty_variants() -> None:
    assert len({(checker, fault) for checker, fault, _ in FAULTY}) >= 15
