"""vLLM: the packed cache's kernels and the scratch plans, of a checkout or an unpacked wheel.

Facts are from the public wheel (``vllm/models/deepseek_v4/common/ops``); nothing of it is kept here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kvproof.harness.targets.loading import Bound, Library
from kvproof.harness.targets.profile import Entry, Narrowing, Profile
from kvproof.harness.targets.profiles.common import filled
from kvproof.harness.targets.session import fill

OPS = "vllm.models.deepseek_v4.common.ops"
CACHE = f"{OPS}.cache_utils"


class _Launcher:
    """Stands for the base of launcher classes: launches the class's ``kernel`` with what its ``__call__`` gives.

    Parameters are taken from the launch's own arguments, else from the call's by name, without ``_ptr``.
    """

    kernel: Any
    bind_launch_inputs = True

    def __class_getitem__(cls, _key: Any) -> type:
        return cls

    def launch(self, spec: Any, inputs: Mapping[str, Any]) -> Any:
        """Launch once."""
        grid, given, *outputs = spec
        given = dict(given)
        names = self.kernel.arg_names
        for name in names:
            if name not in given:
                source = next((n for n in (name, name.removesuffix("_ptr")) if n in inputs), None)
                if source is not None:
                    given[name] = inputs[source]
        self.kernel[grid](**given)
        return outputs[0] if outputs else None


def _kernel_launcher(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        inputs = {name: value for name, value in bound.arguments.items() if name != "self"}
        return self.launch(method(self, *args, **kwargs), inputs)

    return call


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


class _Platform:
    """A platform that is none of the special ones."""

    def __getattr__(self, name: str) -> Callable[..., bool]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_options: False


def _topk(call: Bound, a: dict[str, Any], _library: Library) -> None:
    slots, lens = a.pop("slots"), a.pop("lens")
    a["is_valid_token"] = a["is_valid_token"].bool()
    found, counts = call(**a)
    fill(slots, found, "slots")
    fill(lens, counts, "lens")


def _combine(call: Bound, a: dict[str, Any], _library: Library) -> None:
    combined, lens = a.pop("combined"), a.pop("lens")
    found, counts = call(**a)
    fill(combined, found, "combined")
    fill(lens, counts, "lens")


def _states(call: Bound, a: dict[str, Any], _library: Library) -> None:
    width = a["kv"].shape[1]
    ratio, block = a["ape"].shape[0], a["state_cache"].shape[1]
    rows = a["slot_mapping"].shape[0]
    a["kv"], a["score"] = a["kv"][:rows], a["score"][:rows]
    launcher: Any = call.function
    launcher().__call__(**a, block_size=block, state_width=width, compress_ratio=ratio)


ENTRIES = (
    Entry("page_insert", f"{CACHE}:quantize_and_insert_k_cache", narrowings=(filled("slot_mapping"),)),
    Entry("page_read", f"{CACHE}:dequantize_and_gather_k_cache"),
    Entry(
        "global_topk",
        f"{CACHE}:compute_global_topk_indices_and_lens",
        passes=("topk_indices", "token_to_req_indices", "block_table", "block_size", "is_valid_token"),
        adapter=_topk,
        narrowings=(filled("topk_indices"),),
    ),
    Entry(
        "combine_topk_window",
        f"{CACHE}:combine_topk_swa_indices",
        passes=(
            *("topk_indices", "query_start_loc", "seq_lens", "gather_lens", "window_size", "compress_ratio"),
            *("topk", "M", "N"),
        ),
        adapter=_combine,
        narrowings=(
            Narrowing("a buffer of another width than it makes", lambda a: a["combined"].shape[1] % 128 == 0),
        ),
    ),
    Entry(
        "partial_states",
        f"{OPS}.save_partial_states:SavePartialStatesKernel",
        passes=(),
        adapter=_states,
        narrowings=(filled("slot_mapping"),),
    ),
)

_ROW_SPACE = "its cache is pages of records, not rows of a unified plane"

PROFILE = Profile(
    name="vllm",
    marker="vllm/models/deepseek_v4",
    packages=(
        "vllm",
        "vllm.models",
        "vllm.models.deepseek_v4",
        "vllm.models.deepseek_v4.common",
        OPS,
        "vllm.models.deepseek_v4.amd",
        "vllm.models.deepseek_v4.amd.mono",
        "vllm.models.deepseek_v4.amd.mono.attention",
        "vllm.models.deepseek_v4.amd.mono.common",
    ),
    stubs={
        "vllm.model_executor.warmup.jit_warmup": {"kernel_launcher": _kernel_launcher},
        "vllm.model_executor.warmup.jit_warmup_triton_helper": {"VllmTritonJitKernel": _Launcher},
        "vllm.triton_utils": {"tl": "module:triton.language", "triton": "module:triton", "HAS_TRITON": True},
        "vllm.utils.math_utils": {"next_power_of_2": _power_of_two, "round_up": _round_up},
        "vllm.platforms": {"current_platform": _Platform()},
        "vllm.platforms.rocm": {"_ON_GFX950": False},
        "vllm.utils.import_utils": {"has_cutedsl": "returns:0"},
    },
    absent=("vllm.model_executor", "vllm.platforms", "vllm.transformers_utils", "vllm.utils", "vllm.v1"),
    entries=ENTRIES,
    missing={
        **dict.fromkeys(
            (
                *("window_write", "window_write_planes", "row_scatter", "row_scatter_planes", "window_gather"),
                *("window_gather_planes", "decode_indices", "prefill_indices", "csa_translate", "hca_head"),
                *("fused_compress", "row_index", "compress_plans", "slot_copy", "attention_decode"),
                *("attention_prefill", "state_update", "decode_slices", "prefill_slices", "csa_slices"),
            ),
            _ROW_SPACE,
        ),
        "fp8_pack": "it packs and writes a page in one kernel; held to page_insert",
        "fp8_unpack": "it reads and unpacks a page in one kernel; held to page_read",
        "page_append": "likewise page_insert",
        "page_gather": "likewise page_read",
        "split_attention": "its kernels are of HIP sources; the scratch plans are held to models/scratch",
    },
    kernels=(CACHE, f"{OPS}.save_partial_states", f"{OPS}.fused_compress_quant_cache"),
    relevant=("vllm/models/deepseek_v4/common/ops", "vllm/models/deepseek_v4/amd/mono"),
)
"""The profile."""
