"""Split attention in the interpreter: stages, tags of earlier launches, and stages that wait in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.devices.interpret import InterpretDevice  # noqa: E402
from kvproof.kernels.registry import all_kernels  # noqa: E402
from kvproof.kernels.split_attention import launch as launcher  # noqa: E402
from kvproof.kernels.split_attention.spec import attend  # noqa: E402
from kvproof.models.contract import TensorValue, contiguous  # noqa: E402
from kvproof.models.scratch import ScratchPlan, dims, launch_tag  # noqa: E402

SHARE = dims("v4-pro", 8, 64)
KEYS = SHARE.keys


def arguments(*, tokens: int = 1, seed: int = 0, launch_number: int = 0, scratch: Any = None) -> dict[str, Any]:
    plan = ScratchPlan(SHARE, tokens)
    draw = np.random.default_rng(seed)

    def bf16(*shape: int) -> TensorValue:
        wide = draw.standard_normal(shape).astype(np.float32)
        return contiguous("bf16", (wide.view(np.uint32) >> 16).astype(np.uint16))

    return {
        "q": bf16(tokens, 16, 512),
        "kv": bf16(8, 512),
        "kv_indices": contiguous("int32", draw.integers(0, 8, tokens * KEYS)),
        "kv_indptr": contiguous("int32", np.arange(tokens + 1) * KEYS),
        "attn_sink": contiguous("fp32", np.zeros(16, np.float32)),
        "scratch": scratch or contiguous("uint8", np.zeros(plan.total_bytes, np.uint8)),
        "out": contiguous("fp32", np.full((tokens, 16 * 512), np.nan, np.float32)),
        "status": contiguous("int32", [0]),
        "scale": 512**-0.5,
        "family": "v4-pro",
        "tp": 8,
        "topk": 64,
        "launch_number": launch_number,
    }


@pytest.fixture(scope="module")
def run() -> Callable[..., Any]:
    kernel = all_kernels()["split_attention"]

    def once(values: dict[str, Any], **more: Any) -> Any:
        return InterpretDevice().run(kernel, {**values, "polls": 3, **more})

    return once


def test_stages_one_by_one_are_one_launch(run: Callable[..., Any]) -> None:
    values = arguments(tokens=2)
    apart, together = run(values), run(values, concurrent=True)
    assert np.array_equal(apart["out"].array, together["out"].array)
    assert not np.isnan(apart["out"].array).any()
    assert int(apart["status"].array[0]) == 0


@pytest.mark.parametrize(
    ("stages", "status", "message"),
    [
        (("combine", "consume"), 2, "consume stage waited in vain for the combine stage"),
        (("combine",), 1, "combine stage waited in vain for the split stage"),
        (("split", "consume"), 2, "consume stage waited in vain for the combine stage"),
    ],
)
def test_a_stage_that_waits_in_vain_fails_loudly(
    run: Callable[..., Any], stages: tuple[str, ...], status: int, message: str
) -> None:
    values = arguments()
    done = run(values, stages=stages)
    assert int(done["status"].array[0]) == status
    assert np.isnan(done["out"].array).all()
    with pytest.raises(launcher.StageTimeoutError, match=message):
        launcher.check_status(torch.tensor([status], dtype=torch.int32))
    launcher.check_status(torch.tensor([0], dtype=torch.int32))


def test_what_an_earlier_launch_left_is_never_consumed(run: Callable[..., Any]) -> None:
    first = run(arguments(seed=1, launch_number=6))
    # The same buffer, other inputs, the next launch, and its split stage missing: everything there is stale.
    late = run(arguments(seed=2, launch_number=7, scratch=first["scratch"]), stages=("combine", "consume"))
    assert np.isnan(late["out"].array).all()
    assert int(late["status"].array[0]) == 2
    whole = run(arguments(seed=2, launch_number=7, scratch=first["scratch"]))
    fresh = run(arguments(seed=2))
    assert np.array_equal(whole["out"].array, fresh["out"].array)


def test_flags_carry_the_launchs_tag(run: Callable[..., Any]) -> None:
    plan = ScratchPlan(SHARE, 1)
    done = run(arguments(launch_number=41))
    for name, count in (("srdy", plan.chunks), ("crdy", 2)):
        offset, nbytes = plan.layout[name]
        words = done["scratch"].array[offset : offset + nbytes].view(np.int64)
        assert words.tolist() == [(launch_tag(41) << 32) | 1] * count


def test_the_reference_is_softmax_with_a_sink() -> None:
    q, rows = np.ones((2, 512)), np.stack([np.ones(512), np.zeros(512)])
    out, spread = attend(q, rows, np.array([-np.inf, 0.0]), 1 / 512)
    weight = np.e / (np.e + 1)
    assert np.allclose(out, [[weight] * 512, [np.e / (np.e + 2)] * 512])
    assert np.array_equal(out, spread)
    assert not attend(q, rows[:0], np.zeros(2), 1.0)[0].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "v4-nano"}, "family is 'v4-nano'"),
        ({"topk": 10_000}, "scratch must be at least"),
        ({"tp": 4}, r"q must have shape \[1, 32, 512\], got \[1, 16, 512\]"),
        ({"polls": 0}, "polls must be an integer from 1"),
        ({"launch_number": -1}, "launch_number must be an integer from 0"),
        ({"stages": ("split", "merge")}, "stages has 'merge'; allowed: split, combine, consume"),
        ({"stages": ("split",), "concurrent": True}, "concurrent needs all stages"),
    ],
)
def test_refused_arguments_are_named(run: Callable[..., Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        run(arguments(), **change)
