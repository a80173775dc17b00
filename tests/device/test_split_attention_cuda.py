"""Split attention on a CUDA GPU with all stages in flight at once, launch after launch on one scratch buffer."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.kernels.split_attention.launch import (  # noqa: E402
    StageTimeoutError,
    check_status,
    split_attention,
)
from kvproof.kernels.split_attention.spec import allowed_error, attend  # noqa: E402
from kvproof.models.scratch import ScratchPlan, dims  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available() or torch.version.hip is not None, reason="needs a CUDA GPU"),
]


def inputs(family: str, tp: int, topk: int, tokens: int, seed: int) -> dict[str, Any]:
    share = dims(family, tp, topk)
    generator = torch.Generator("cuda").manual_seed(seed)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32)

    rows = 4096
    lengths = torch.randint(0, share.keys + 1, (tokens,), generator=generator, device="cuda")
    indptr = torch.zeros(tokens + 1, dtype=torch.int32, device="cuda")
    indptr[1:] = torch.cumsum(lengths, 0)
    total = int(indptr[-1].item())
    return {
        "q": normal(tokens, share.heads, 512).bfloat16(),
        "kv": normal(rows, 512).bfloat16(),
        "kv_indices": torch.randint(-1, rows, (total,), generator=generator, device="cuda").int(),
        "kv_indptr": indptr,
        "attn_sink": normal(share.heads),
    }


def buffers(family: str, tp: int, topk: int, tokens: int, fill: int = 0xFF) -> dict[str, Any]:
    plan = ScratchPlan(dims(family, tp, topk), tokens)
    columns = plan.dims.heads * 512
    return {
        "scratch": torch.full((plan.total_bytes,), fill, dtype=torch.uint8, device="cuda"),
        "out": torch.full((tokens, columns), float("nan"), device="cuda"),
        "status": torch.zeros(1, dtype=torch.int32, device="cuda"),
    }


SHARES = [
    ("v4-pro", 8, 1024, 64),
    ("v4-pro", 4, 1024, 8),
    ("v4-pro", 1, 8192, 3),
    ("v4.1-flash", 2, 512, 48),
    ("v4.1-flash", 4, 512, 17),
]


@pytest.mark.parametrize(("family", "tp", "topk", "tokens"), SHARES)
def test_stages_in_flight_at_once_give_what_stage_after_stage_gives(
    family: str, tp: int, topk: int, tokens: int
) -> None:
    plan = {"scale": 512**-0.5, "family": family, "tp": tp, "topk": topk}
    shared = buffers(family, tp, topk, tokens)
    for number in range(40):
        given = inputs(family, tp, topk, tokens, seed=number)
        # One buffer for all launches: whatever a launch leaves there is stale for the next.
        shared["out"].fill_(float("nan"))
        split_attention(**given, **shared, **plan, launch_number=number, concurrent=True)
        alone = buffers(family, tp, topk, tokens)
        split_attention(**given, **alone, **plan, launch_number=number)
        check_status(shared["status"])
        check_status(alone["status"])
        assert torch.equal(shared["out"], alone["out"]), number


@pytest.mark.parametrize(("family", "tp", "topk", "tokens"), SHARES)
def test_outputs_are_within_the_bound_of_the_exact_ones(family: str, tp: int, topk: int, tokens: int) -> None:
    given, made = inputs(family, tp, topk, tokens, seed=1), buffers(family, tp, topk, tokens)
    scale = 512**-0.5
    split_attention(**given, **made, scale=scale, family=family, tp=tp, topk=topk, concurrent=True)
    host = {
        name: value.float().cpu().numpy().astype(np.float64) for name, value in given.items() if name in "q kv"
    }
    bounds = given["kv_indptr"].tolist()
    indices = given["kv_indices"].cpu().numpy()
    out = made["out"].cpu().numpy().astype(np.float64).reshape(tokens, -1, 512)
    for t in range(tokens):
        listed = indices[bounds[t] : bounds[t + 1]]
        rows = host["kv"][listed[listed >= 0]]
        exact, spread = attend(host["q"][t], rows, given["attn_sink"].double().cpu().numpy(), scale)
        sizes = (np.abs(host["q"][t]) @ np.abs(rows).T * scale).max(axis=1, initial=0.0)
        assert (np.abs(out[t] - exact) <= allowed_error(exact, spread, sizes)).all(), t


def test_a_stage_without_its_publisher_gives_up_in_bounded_time() -> None:
    family, tp, topk, tokens = SHARES[0]
    plan = {"scale": 512**-0.5, "family": family, "tp": tp, "topk": topk}
    given, made = inputs(family, tp, topk, tokens, seed=0), buffers(family, tp, topk, tokens, fill=0)
    split_attention(**given, **made, **plan, launch_number=0, concurrent=True)
    made["out"].fill_(float("nan"))
    begun = time.monotonic()
    split_attention(**given, **made, **plan, launch_number=1, polls=10_000, stages=("combine", "consume"))
    with pytest.raises(StageTimeoutError, match="consume stage waited in vain"):
        check_status(made["status"])
    assert time.monotonic() - begun < 60
    assert torch.isnan(made["out"]).all()
