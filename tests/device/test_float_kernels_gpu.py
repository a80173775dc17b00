"""The kernels that compute, on a GPU at production size: against their contracts, and to the last bit among
themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.harness.check.differential import check_case
from kvproof.harness.devices.base import Device
from kvproof.harness.devices.registry import GPUS, find_device
from kvproof.harness.devices.torch_values import TorchArguments
from kvproof.kernels.registry import all_kernels, resolve
from kvproof.models.contract import contiguous
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH
from kvproof.properties.strategies.cases import Case

pytestmark = pytest.mark.gpu
DECODE = ["csa-bf16-b8-q4-h16", "csa-fp8-b8-q4-h16", "csa-bf16-b64-q1-h128", "csa-fp8-b64-q1-h128"]


@pytest.fixture
def gpu() -> Device:
    """The GPU of this machine."""
    for name in GPUS:
        if find_device(name).probe().available:
            return find_device(name)
    pytest.skip("no GPU here")


def production(kernel: str, name: str) -> dict[str, Any]:
    return dict(resolve(all_kernels()[kernel].cases)()[name].values)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("fp8_pack", "rows8192"),
        ("fp8_unpack", "rows8192"),
        *[("attention_decode", name) for name in DECODE],
        ("attention_decode", "csa-bf16-b1-q1-h16"),
        ("fused_compress", "csa-bf16-decode-b64"),
        ("fused_compress", "hca-fp8-decode-b64"),
        ("fused_compress", "csa-fp8-prefill-t8192"),
    ],
)
def test_production_size(gpu: Device, kernel: str, name: str) -> None:
    check_case(all_kernels()[kernel], gpu, Case(production(kernel, name)))


@pytest.mark.parametrize("variant", ["ocp", "fnuz"])
def test_every_bf16_packs_to_the_bit(gpu: Device, variant: str) -> None:
    """All 65,536 patterns, each in a tile of one magnitude and in one of any: the conversion instruction too."""
    patterns = np.arange(65536, dtype=np.uint16)
    grouped = patterns[np.argsort(patterns & 0x7FFF, kind="stable")]
    mixed = np.random.default_rng(0).permutation(patterns)
    rows = np.concatenate([grouped, mixed]).reshape(-1, WIDTH)
    # The last 64 elements of a row are copied; turned, they are packed in another row.
    rows = np.concatenate([rows, np.roll(rows, 64, axis=1)])
    values = {
        "src": contiguous("bf16", rows),
        "packed": contiguous("uint8", np.full((len(rows), PACKED_BYTES), 0xAB)),
        "rope": contiguous("bf16", np.zeros((len(rows), ROPE))),
        "variant": variant,
    }
    check_case(all_kernels()["fp8_pack"], gpu, Case(values))


def results(values: Mapping[str, Any], **changed: Any) -> torch.Tensor:
    """The bits that attention gives for these arguments on the GPU."""
    arguments = TorchArguments({**values, **changed}, "cuda").arguments
    all_kernels()["attention_decode"].load()(**arguments)
    return arguments["out"].view(torch.int16).cpu()


@pytest.mark.parametrize("name", DECODE)
def test_no_bit_depends_on_splits_or_batch(gpu: Device, name: str) -> None:
    values = production("attention_decode", name)
    whole = results(values, splits=1)
    for splits in (2, 3, 8, 32):
        assert torch.equal(results(values, splits=splits), whole), splits
    bounds, entries = values["kv_indptr"].array, values["kv_indices"].array
    for token in (0, 7):
        alone = {
            "q": contiguous("bf16", values["q"].array[token : token + 1]),
            "out": contiguous("bf16", values["out"].array[token : token + 1]),
            "kv_indices": contiguous("int32", entries[bounds[token] : bounds[token + 1]]),
            "kv_indptr": contiguous("int32", [0, bounds[token + 1] - bounds[token]]),
        }
        assert torch.equal(results(values, **alone), whole[token : token + 1]), token


@pytest.mark.parametrize("name", ["csa-bf16-b8-q4-h16", "csa-fp8-b8-q4-h16"])
def test_a_captured_graph_replays_with_other_slices(gpu: Device, name: str) -> None:
    """Captured with 32 tokens, replayed with other entries, shorter slices and padded tokens behind."""
    values = production("attention_decode", name)
    arguments: dict[str, Any] = TorchArguments(values, "cuda").arguments
    launch = all_kernels()["attention_decode"].load()
    launch(**arguments)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(**arguments)
    tokens = arguments["q"].shape[0]
    lengths = torch.arange(tokens) * 37 % 641
    lengths[tokens // 2 :] = 0
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32)
    arguments["kv_indptr"].copy_(bounds)
    arguments["kv_indices"].copy_(arguments["kv_indices"].flip(0))
    arguments["out"].fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    replayed = arguments["out"].clone()
    launch(**arguments)
    torch.cuda.synchronize()
    assert torch.equal(replayed.view(torch.int16), arguments["out"].view(torch.int16))
    assert not replayed[tokens // 2 :].any()
    assert not replayed.isnan().any()
