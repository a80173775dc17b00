"""ROCm/ATOM: the pool's kernels and host modules, of the layout's unified row space and of the eras before.

Facts are from the repository's public sources (``atom/model_ops/v4_kernels``, ``atom/model_ops/attentions``,
``atom/model_engine``); nothing of them is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvproof.harness.targets.loading import Bound, Library
from kvproof.harness.targets.profile import Entry, Narrowing, Profile
from kvproof.harness.targets.profiles.atom_eras import SLICES_BY_ERA, by_name
from kvproof.harness.targets.profiles.atom_host import HOST
from kvproof.harness.targets.profiles.common import (
    buffers,
    dense,
    filled,
    finite,
    finite_rows,
    given,
    only,
    rows,
    within,
)
from kvproof.harness.targets.profiles.tame import (
    block_stop,
    blocks_of_the_plane,
    only_complete_entries,
    only_served,
    packed_by_a_packer,
    padded,
    selected_entries,
    slot_range,
    slots_of_the_plane,
    tame,
    whole_chunks,
)
from kvproof.harness.targets.session import fill

KERNELS = "atom.model_ops.v4_kernels"
ATTENTIONS = "atom.model_ops.attentions"


def _decode_indices(call: Bound, a: dict[str, Any], _library: Library) -> None:
    rows = {0: a.pop("dest_rows_swa"), 4: a.pop("dest_rows_csa"), 128: a.pop("dest_rows_hca")}
    call(**a, dest_rows={ratio: row for ratio, row in rows.items() if row is not None})


def _gather(call: Bound, a: dict[str, Any], _library: Library) -> None:
    out = a.pop("out")
    fill(out, call(**a), "out")


def _gather_planes(call: Bound, a: dict[str, Any], _library: Library) -> None:
    out = a.pop("out")
    del a["variant"]
    pool = a.pop("pool")
    fill(out, call(pool_nope=_fp8(pool), **a), "out")


def _fp8(packed: Any) -> Any:
    """Packed rows as the element type that the project's quantiser has on this machine."""
    import torch  # noqa: PLC0415  (only a worker imports it)

    return packed.view(torch.float8_e4m3fn) if packed.dtype == torch.uint8 else packed


def _pack(call: Bound, a: dict[str, Any], _library: Library) -> None:
    packed, rope = call(bf16_src=a["src"])
    fill(a["packed"], packed.view(a["packed"].dtype), "packed")
    fill(a["rope"], rope, "rope")


def _unpack(call: Bound, a: dict[str, Any], _library: Library) -> None:
    fill(a["out"], call(packed_fp8=_fp8(a["packed"]), rope_bf16=a["rope"]), "out")


def _both_planes(call: Bound, a: dict[str, Any], _library: Library) -> None:
    packed = {name: _fp8(a.pop(name)) for name in ("k_packed", "pool")}
    call(kv=None, **packed, **a)


def _attention_decode(call: Bound, a: dict[str, Any], _library: Library) -> None:
    names = ("q", "unified_kv", "kv_indices", "kv_indptr", "attn_sink")
    fill(a["out"], call(**{name: a[name] for name in names}, softmax_scale=a["scale"]), "out")


def _attention_prefill(call: Bound, a: dict[str, Any], _library: Library) -> None:
    result = call(
        q=a["q"],
        unified_kv=a["unified_kv"],
        kv_indices_prefix=a["kv_indices"],
        kv_indptr_prefix=a["kv_indptr"],
        kv=a["kv"],
        kv_indices_extend=a["extend_indices"],
        kv_indptr_extend=a["extend_indptr"],
        attn_sink=a["attn_sink"],
        softmax_scale=a["scale"],
    )
    fill(a["out"], result, "out")


def _fused(call: Bound, a: dict[str, Any], library: Library) -> None:
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415

    plan_type = library.resolve(f"{KERNELS}.compress_plan:CompressPlan")
    plan = a["compress_plan"]
    count = int((plan[:, 2] >= 0).sum())
    empty = np.zeros(1, np.int32)
    pool = a["pool"]
    row = pool.stride(0)
    blocks = max((pool.shape[0] - a["block_rows"]) // a["envelope_rows"] + 1, 0)
    cache = torch.as_strided(
        pool, (blocks, a["block_rows"], pool.shape[1]), (row * a["envelope_rows"], row, 1), pool.storage_offset()
    )
    call(
        kv_in=a["kv"],
        score_in=a["score"],
        kv_state=a["kv_state"],
        score_state=a["score_state"],
        plan=plan_type(plan, plan[:0], count, 0, empty),
        state_slot_mapping=a["state_slot_mapping"],
        ape=a["ape"],
        rms_weight=a["rms_weight"],
        rms_eps=a["rms_eps"],
        cos_cache=a["cos"],
        sin_cache=a["sin"],
        kv_cache=cache,
        block_tables=a["block_tables"],
        k_per_block=a["block_rows"],
        overlap=a["overlap"],
        ratio=a["ratio"],
        head_dim=512,
        rope_head_dim=64,
    )


def _counted_update(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """Before plans had a fixed capacity, the number of their rows came with them."""
    call(**a, num_write=a["write_plan"].shape[0])


class _PlanBuffer:
    """A plan buffer whose two sides are one tensor of the host."""

    def __init__(self, tensor: Any) -> None:
        self.np, self.cpu, self.gpu = tensor.numpy(), tensor, tensor

    def copy_to_gpu(self, count: int | None = None) -> Any:
        return self.gpu if count is None else self.gpu[:count]


def _plans(call: Bound, a: dict[str, Any], _library: Library) -> None:
    host = {name: a[name].cpu() for name in ("compress_plan", "write_plan")}
    ratio = a["ratio"]
    buffers = {ratio: {"compress": _PlanBuffer(host["compress_plan"]), "write": _PlanBuffer(host["write_plan"])}}
    call(
        extend_lens_cpu=a["extend_lens"].cpu().numpy(),
        context_lens_cpu=a["context_lens"].cpu().numpy(),
        unique_ratios_overlap=[(ratio, a["overlap"])],
        plan_buffers=buffers,
        decode_capacity_per_ratio={ratio: a["compress_plan"].shape[0]},
    )
    for name, tensor in host.items():
        a[name].copy_(tensor)


def _hca_head(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """The host builds this part of a slice from a formula; the pieces around it are the contract's."""
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415

    geometry = a["geometry"]
    rows = geometry.block_size // 128
    indptr, positions = a["hca_indptr"].cpu().numpy(), a["positions"].cpu().numpy()
    sequences, tables = a["batch_id_per_token"].cpu().numpy(), a["block_tables"].cpu().numpy()
    committed = a["n_committed_hca_per_seq"].cpu().numpy()
    cells = a["hca_indices"].cpu().numpy().copy()
    for t in range(a["T"]):
        if sequences[t] < 0 or positions[t] < 0:
            continue
        groups = min((int(positions[t]) + 1) // 128, int(committed[sequences[t]]))
        entry = np.arange(groups)
        owner = np.full(groups, sequences[t])
        found = call(
            entry_idx=entry,
            bid_per_entry=owner,
            block_tables_np=tables,
            envelope_rows=geometry.envelope_rows,
            hca_rows_per_block=rows,
        )
        cells[indptr[t] : indptr[t] + groups] = found
    a["hca_indices"].copy_(torch.from_numpy(cells))


_PLANES = rows(
    {"k_packed": ("uint8", 512), "k_rope": ("bf16", 64), "pool": ("uint8", 512), "pool_rope": ("bf16", 64)}
)
_NO_GAPS = rows({"kv": (None, None), "pool": (None, None)})
_NO_DRAFTS = Narrowing(
    "draft tokens (its plan keeps the last K rows whatever is drafted, enough while a step is not wider than K)",
    lambda a: a["draft_tokens"] == 0,
)

_BOTH_CLASSES = Narrowing(
    "a pool without CSA or HCA layers, or a forward without their buffers (refused by an assertion)",
    lambda a: (
        {4, 128} <= set(a["geometry"].ratios)
        and all(a[f"prefix_{name}_indices"] is not None for name in ("csa", "hca"))
    ),
)
_TABLE_COVERS = Narrowing(
    "more groups than a sequence's block table holds",
    lambda a: bool(
        (
            a["n_committed_hca_per_seq"].array.astype("int64") * 128
            <= a["block_tables"].shape[1] * a["geometry"].block_size
        ).all()
    ),
)
_PACKED_BY_US = Narrowing(
    "bytes that no packer writes (NaN codes, scales of 255)",
    lambda a: bool(
        ((a["packed"].array[:, :448] & 0x7F) != 0x7F).all() and (a["packed"].array[:, 448:462] < 255).all()
    ),
)


_SLOTS_OF_THE_PLANE = Narrowing(
    "slots that the plane has not",
    lambda a: bool(
        (
            (a["state_slot_per_seq"].array >= slot_range(a)[0])
            & (a["state_slot_per_seq"].array < slot_range(a)[1])
        ).all()
    ),
)


_POSITIONS_OF_32_BITS = Narrowing(
    "positions past 32 bits", lambda a: bool((a["positions"].array[: a["T"]] < 2**31).all())
)


_ANCHORS = within("anchor_pos", lambda _a: 2**31, low=-(2**31))
_LIVE_POSITIONS = Narrowing(
    "live tokens at negative positions",
    lambda a: bool(((a["positions"].array[: len(_ids(a))] >= 0) | (_ids(a) < 0)).all()),
)


def _ids(a: Mapping[str, Any]) -> Any:
    return a["batch_id_per_token"].array[: a["T"] if "T" in a else a["topk_local"].shape[0]]


def _holding(*pairs: tuple[str, str]) -> Narrowing:
    """Buffers of indices hold the slices that are laid out in them."""

    def takes(a: Mapping[str, Any]) -> bool:
        tokens = a["T"] if "T" in a else a["topk_local" if "topk_local" in a else "q"].shape[0]
        return all(
            a[bounds] is None or int(a[bounds].array[tokens]) <= a[cells].shape[0] for bounds, cells in pairs
        )

    return Narrowing("a buffer that ends before its slices do", takes)


def _sequences(a: Mapping[str, Any]) -> int:
    return a["state_slot_per_seq"].shape[0]


def _chunks(a: Mapping[str, Any]) -> int:
    return a["chunk_start_per_seq"].shape[0]


def _slots(a: Mapping[str, Any]) -> int:
    """Slots whose whole ring the pool's view holds."""
    window = a["window"]
    return (
        max((a["pool"].shape[0] - window.ring_start - window.ring_offset(window.ring_slots - 1) - 1), -1)
        // (window.slot_rows)
        + 1
    )


ENTRIES = (
    Entry(
        "window_write",
        f"{KERNELS}.state_writes:swa_write",
        fit=_NO_GAPS,
        narrowings=(filled("state_slot_per_seq", "write_per_batch"),),
        era="unified row space",
    ),
    Entry(
        "window_write_planes",
        f"{KERNELS}.state_writes:swa_write",
        passes=(
            *("kv", "positions", "cu_seqlens_q", "state_slot_per_seq", "pool", "window", "write_per_batch"),
            *("k_packed", "k_rope", "pool_rope"),
        ),
        adapter=_both_planes,
        fit=_PLANES,
        narrowings=(filled("k_packed"), filled("state_slot_per_seq", "write_per_batch")),
        era="unified row space",
    ),
    Entry("row_scatter", f"{KERNELS}.state_writes:swa_scatter_rows", fit=_NO_GAPS),
    Entry(
        "row_scatter_planes",
        f"{KERNELS}.state_writes:swa_scatter_rows",
        passes=("kv", "dest_rows", "batch_id_per_token", "pool", "k_packed", "k_rope", "pool_rope"),
        adapter=_both_planes,
        fit=_PLANES,
        narrowings=(filled("k_packed"),),
    ),
    Entry(
        "window_gather",
        f"{KERNELS}.state_writes:dspark_paged_window_gather",
        drop=("out",),
        fit=rows({"pool": (None, None)}),
        callers=(within("state_slot_per_seq", _slots), _ANCHORS),
        adapter=_gather,
        narrowings=(filled("state_slot_per_seq", "draft_window"),),
    ),
    Entry(
        "window_gather_planes",
        f"{KERNELS}.state_writes:dspark_paged_window_gather_2buff",
        passes=("pool_nope", "pool_rope", "state_slot_per_seq", "anchor_pos", "draft_window", "window"),
        fit=tame(rows({"pool": (None, None), "pool_rope": (None, None)}), packed_by_a_packer("pool")),
        callers=(within("state_slot_per_seq", _slots), _ANCHORS),
        adapter=_gather_planes,
        narrowings=(only("variant", "ocp"), filled("state_slot_per_seq", "draft_window")),
    ),
    Entry("state_update", f"{KERNELS}.state_writes:update_compressor_states"),
    Entry(
        "state_update",
        f"{KERNELS}.state_writes:update_compressor_states",
        passes=(
            *("kv", "score", "ape", "kv_state", "score_state", "write_plan", "state_slot_mapping", "ratio"),
            *("overlap", "num_write"),
        ),
        adapter=_counted_update,
        era="plans with a count",
    ),
    Entry(
        "decode_indices",
        f"{KERNELS}.paged_decode_indices:write_v4_paged_decode_indices",
        passes=(
            *("state_slot_per_seq", "batch_id_per_token", "positions", "swa_indptr", "csa_indptr", "hca_indptr"),
            *("swa_indices", "csa_indices", "hca_indices", "dest_rows", "T", "win", "geometry"),
        ),
        adapter=_decode_indices,
        tame=tame(
            padded("batch_id_per_token", "state_slot_per_seq"),
            slots_of_the_plane(),
            only_served(
                {r: (f"{n}_indptr", f"{n}_indices", f"dest_rows_{n}") for r, n in ((4, "csa"), (128, "hca"))}
            ),
        ),
        callers=(
            *(_SLOTS_OF_THE_PLANE, within("batch_id_per_token", _sequences, low=-1)),
            _holding(*((f"{name}_indptr", f"{name}_indices") for name in ("swa", "csa", "hca"))),
        ),
        fit=buffers({"swa_indptr": ("swa_indices", "dest_rows_swa")}, 0),
        narrowings=(filled("T"), given("swa_indices")),
        era="unified row space",
    ),
    Entry(
        "prefill_indices",
        f"{KERNELS}.paged_prefill_indices:write_v4_paged_prefill_indices",
        # It serves both classes or none, and few layouts that are drawn freely have both.
        layouts=("v4-flash", "v4-flash-mtp1", "v4-flash-dspark", "v4-pro", "v4-pro-mtp1", "v4-pro-dspark"),
        tame=tame(
            padded("bid_per_token", "chunk_start_per_seq"), slots_of_the_plane(), blocks_of_the_plane, whole_chunks
        ),
        callers=(
            *(_SLOTS_OF_THE_PLANE, within("bid_per_token", _chunks), within("block_tables", block_stop)),
            _POSITIONS_OF_32_BITS,
            _TABLE_COVERS,
        ),
        fit=buffers({"prefix_swa_indptr": ("prefix_swa_indices",)}, 0),
        narrowings=(filled("T"), _BOTH_CLASSES, given("prefix_swa_indices")),
        era="unified row space",
    ),
    Entry(
        "csa_translate",
        f"{KERNELS}.csa_translate_pack:csa_translate_pack",
        tame=tame(padded("batch_id_per_token", "block_tables"), blocks_of_the_plane, selected_entries),
        callers=(
            within("block_tables", block_stop),
            within("batch_id_per_token", lambda a: a["block_tables"].shape[0], low=-1),
            *(_holding(("kv_indptr_csa", "kv_indices_csa")), _LIVE_POSITIONS),
            Narrowing("entries that the selection has not found complete", only_complete_entries),
        ),
        narrowings=(dense("block_tables"),),
        era="unified row space",
    ),
    Entry(
        "hca_head",
        f"{KERNELS}.paged_decode_indices:hca_compress_paged_offsets",
        passes=("entry_idx", "bid_per_entry", "block_tables_np", "envelope_rows", "hca_rows_per_block"),
        adapter=_hca_head,
        tame=tame(padded("batch_id_per_token", "block_tables"), blocks_of_the_plane),
        callers=(
            within("block_tables", block_stop),
            within("n_committed_hca_per_seq", lambda _a: 2**31),
            within("batch_id_per_token", lambda a: a["block_tables"].shape[0], low=-1),
            *(_holding(("hca_indptr", "hca_indices")), _LIVE_POSITIONS),
            _TABLE_COVERS,
        ),
        era="unified row space",
    ),
    Entry(
        "compress_plans",
        f"{KERNELS}.compress_plan:make_compress_plans",
        passes=(
            *("extend_lens_cpu", "context_lens_cpu", "unique_ratios_overlap", "plan_buffers"),
            "decode_capacity_per_ratio",
        ),
        adapter=_plans,
        narrowings=(_NO_DRAFTS,),
    ),
    Entry(
        "fused_compress",
        f"{KERNELS}.fused_compress:fused_compress_attn",
        passes=(
            *("kv_in", "score_in", "kv_state", "score_state", "plan", "state_slot_mapping", "ape", "rms_weight"),
            *("rms_eps", "cos_cache", "sin_cache", "kv_cache", "block_tables", "k_per_block", "overlap", "ratio"),
            *("head_dim", "rope_head_dim"),
        ),
        adapter=_fused,
        narrowings=(only("pool", "bf16"), dense("cos", "sin", "block_tables")),
    ),
    Entry(
        "fp8_pack",
        f"{KERNELS}.v4_quant:quantize_bf16_to_v4_2buff_triton",
        passes=("bf16_src",),
        adapter=_pack,
        callers=(finite("src"),),
        narrowings=(only("variant", "ocp"),),
    ),
    Entry(
        "fp8_unpack",
        f"{KERNELS}.v4_quant:dequantize_v4_2buff_to_bf16",
        passes=("packed_fp8", "rope_bf16"),
        adapter=_unpack,
        callers=(_PACKED_BY_US,),
        narrowings=(only("variant", "ocp"),),
    ),
    Entry(
        "attention_decode",
        f"{KERNELS}.paged_decode:_sparse_attn_v4_paged_decode_triton",
        passes=("q", "unified_kv", "kv_indices", "kv_indptr", "attn_sink", "softmax_scale"),
        adapter=_attention_decode,
        callers=(
            within("kv_indices", lambda a: a["unified_kv"].shape[0]),
            _holding(("kv_indptr", "kv_indices")),
            finite_rows("unified_kv", "kv_indices"),
            finite("q"),
        ),
        narrowings=(only("unified_kv", "bf16"), filled("q")),
    ),
    Entry(
        "attention_prefill",
        f"{KERNELS}.paged_prefill:_sparse_attn_v4_paged_prefill_triton",
        passes=(
            *("q", "unified_kv", "kv_indices_prefix", "kv_indptr_prefix", "kv", "kv_indices_extend"),
            *("kv_indptr_extend", "attn_sink", "softmax_scale"),
        ),
        adapter=_attention_prefill,
        callers=(
            within("kv_indices", lambda a: a["unified_kv"].shape[0]),
            within("extend_indices", lambda a: a["kv"].shape[0]),
            _holding(("kv_indptr", "kv_indices"), ("extend_indptr", "extend_indices")),
            finite_rows("unified_kv", "kv_indices"),
            finite_rows("kv", "extend_indices"),
            finite("q"),
        ),
        narrowings=(only("unified_kv", "bf16"),),
    ),
)

ENTRIES_BY_ERA = tuple(
    Entry(contract, f"{KERNELS}.{module}", passes=tuple(names), adapter=by_name(names), era=era)
    for era, contracts in SLICES_BY_ERA.items()
    for contract, (module, names) in contracts.items()
)
"""Which cells the index writers fill, before the rows of the pool had one numbering."""

_MODULES = (
    *("state_writes", "paged_decode_indices", "paged_prefill_indices", "csa_translate_pack"),
    *("fused_compress", "v4_quant", "paged_decode", "paged_prefill"),
)

PROFILE = Profile(
    name="atom",
    marker="atom",
    packages=(
        "atom",
        "atom.model_ops",
        KERNELS,
        ATTENTIONS,
        f"{ATTENTIONS}.pool_layout",
        "atom.model_engine",
        "atom.utils",
        "atom.kv_transfer",
        "atom.kv_transfer.disaggregation",
        "atom.kv_transfer.offload",
        "atom.kv_transfer.offload.hybrid",
        "atom.kv_transfer.offload.hybrid.dsv4",
    ),
    stubs={
        "atom.utils.decorators": {"mark_trace": "identity"},
        "atom.utils.envs": {"ATOM_FUSED_COMPRESS_USE_FLYDSL": "never", "ATOM_FORCE_ATTN_TRITON": True},
        "aiter.jit.utils.chip_info": {"get_gfx": "absent"},
        "aiter.ops.triton.utils.device_info": {"get_num_sms": "returns:132"},
        "aiter.jit.utils.torch_guard": {"torch_compile_guard": "identity"},
        "aiter.dtypes": {"fp8": "torch:float8_e4m3fn"},
    },
    absent=("aiter", "flydsl"),
    types={
        "WindowParams": f"{ATTENTIONS}.v4_pool_geometry:WindowParams",
        "UnifiedPoolGeometry": f"{ATTENTIONS}.v4_pool_geometry:UnifiedPoolGeometry",
    },
    entries=(*ENTRIES, *ENTRIES_BY_ERA),
    missing={
        "row_index": "its row arithmetic is device functions, which the kernels that call them are held to",
        "slot_copy": "its copies take descriptors of two lists of segments",
        "split_attention": "no attention over a scratch layout",
        "page_append": "no pages of records: its blocks are rows of the unified planes",
        "page_gather": "likewise",
    },
    host=HOST,
    kernels=(
        *(f"{KERNELS}.{module}" for module in _MODULES),
        f"{ATTENTIONS}.paged_state_copy",
        "atom.kv_transfer.offload.hybrid.dsv4.triton_page_slot",
    ),
    hints={"output": "*u8", "input": "*u8", "descriptor": "*i64", "TILE": 1024},
    relevant=(
        "atom/model_ops/v4_kernels",
        "atom/model_ops/attentions/v4_pool_geometry.py",
        "atom/model_ops/attentions/state_arena.py",
        "atom/model_ops/attentions/paged_state_copy.py",
        "atom/model_ops/attentions/pool_layout",
        "atom/model_engine/block_pool.py",
        "atom/model_engine/state_pool.py",
        "atom/kv_transfer/offload/hybrid",
    ),
)
"""The profile. Newest era first where a contract has several entries."""
