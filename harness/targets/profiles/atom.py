"""ROCm/ATOM: the pool's kernels and host modules, of the layout's unified row space and of the eras before.

Facts are from the repository's public sources (``atom/model_ops/v4_kernels``, ``atom/model_ops/attentions``,
``atom/model_engine``); nothing of them is kept here.
"""

from __future__ import annotations

from kvproof.harness.targets.profile import Entry, Narrowing, Profile
from kvproof.harness.targets.profiles.atom_adapters import (
    KERNELS,
    attention_decode,
    attention_prefill,
    both_planes,
    counted_update,
    decode_indices,
    fused,
    gather,
    gather_planes,
    hca_head,
    pack,
    plans,
    unpack,
)
from kvproof.harness.targets.profiles.atom_callers import (
    ANCHORS,
    BOTH_CLASSES,
    LIVE_POSITIONS,
    NO_DRAFTS,
    NO_GAPS,
    PACKED_BY_US,
    PLANES,
    POSITIONS_OF_32_BITS,
    ROOM_FOR_GROUPS,
    SLOTS_OF_THE_PLANE,
    TABLE_COVERS,
    chunks,
    first_slot,
    holding,
    sequences,
    slots,
)
from kvproof.harness.targets.profiles.atom_eras import SLICES_BY_ERA, by_name
from kvproof.harness.targets.profiles.atom_host import HOST
from kvproof.harness.targets.profiles.common import (
    adjacent,
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
    slots_of_the_plane,
    tame,
    whole_chunks,
)

ATTENTIONS = "atom.model_ops.attentions"

ENTRIES = (
    Entry(
        "window_write",
        f"{KERNELS}.state_writes:swa_write",
        fit=NO_GAPS,
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
        adapter=both_planes,
        fit=PLANES,
        narrowings=(filled("k_packed"), filled("state_slot_per_seq", "write_per_batch")),
        era="unified row space",
    ),
    Entry("row_scatter", f"{KERNELS}.state_writes:swa_scatter_rows", fit=NO_GAPS),
    Entry(
        "row_scatter_planes",
        f"{KERNELS}.state_writes:swa_scatter_rows",
        passes=("kv", "dest_rows", "batch_id_per_token", "pool", "k_packed", "k_rope", "pool_rope"),
        adapter=both_planes,
        fit=PLANES,
        narrowings=(filled("k_packed"),),
    ),
    Entry(
        "window_gather",
        f"{KERNELS}.state_writes:dspark_paged_window_gather",
        drop=("out",),
        fit=rows({"pool": (None, None)}),
        callers=(within("state_slot_per_seq", slots, low=first_slot), ANCHORS),
        adapter=gather,
        narrowings=(filled("state_slot_per_seq", "draft_window"),),
    ),
    Entry(
        "window_gather_planes",
        f"{KERNELS}.state_writes:dspark_paged_window_gather_2buff",
        passes=("pool_nope", "pool_rope", "state_slot_per_seq", "anchor_pos", "draft_window", "window"),
        fit=tame(rows({"pool": (None, None), "pool_rope": (None, None)}), packed_by_a_packer("pool")),
        callers=(within("state_slot_per_seq", slots, low=first_slot), ANCHORS),
        adapter=gather_planes,
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
        adapter=counted_update,
        era="plans with a count",
    ),
    Entry(
        "decode_indices",
        f"{KERNELS}.paged_decode_indices:write_v4_paged_decode_indices",
        passes=(
            *("state_slot_per_seq", "batch_id_per_token", "positions", "swa_indptr", "csa_indptr", "hca_indptr"),
            *("swa_indices", "csa_indices", "hca_indices", "dest_rows", "T", "win", "geometry"),
        ),
        adapter=decode_indices,
        tame=tame(
            padded("batch_id_per_token", "state_slot_per_seq"),
            slots_of_the_plane(),
            only_served(
                {r: (f"{n}_indptr", f"{n}_indices", f"dest_rows_{n}") for r, n in ((4, "csa"), (128, "hca"))}
            ),
        ),
        callers=(
            *(SLOTS_OF_THE_PLANE, within("batch_id_per_token", sequences, low=-1)),
            holding(*((f"{name}_indptr", f"{name}_indices") for name in ("swa", "csa", "hca"))),
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
            *(SLOTS_OF_THE_PLANE, within("bid_per_token", chunks), within("block_tables", block_stop)),
            POSITIONS_OF_32_BITS,
            TABLE_COVERS,
        ),
        fit=buffers({"prefix_swa_indptr": ("prefix_swa_indices",)}, 0),
        narrowings=(filled("T"), BOTH_CLASSES, given("prefix_swa_indices")),
        era="unified row space",
    ),
    Entry(
        "csa_translate",
        f"{KERNELS}.csa_translate_pack:csa_translate_pack",
        tame=tame(padded("batch_id_per_token", "block_tables"), blocks_of_the_plane, selected_entries),
        callers=(
            within("block_tables", block_stop),
            within("batch_id_per_token", lambda a: a["block_tables"].shape[0], low=-1),
            *(holding(("kv_indptr_csa", "kv_indices_csa")), LIVE_POSITIONS),
            Narrowing("entries that the selection has not found complete", only_complete_entries),
        ),
        fit=adjacent("topk_local"),
        narrowings=(dense("block_tables"),),
        era="unified row space",
    ),
    Entry(
        "hca_head",
        f"{KERNELS}.paged_decode_indices:hca_compress_paged_offsets",
        passes=("entry_idx", "bid_per_entry", "block_tables_np", "envelope_rows", "hca_rows_per_block"),
        adapter=hca_head,
        tame=tame(padded("batch_id_per_token", "block_tables"), blocks_of_the_plane),
        callers=(
            within("block_tables", block_stop),
            within("n_committed_hca_per_seq", lambda _a: 2**31),
            within("batch_id_per_token", lambda a: a["block_tables"].shape[0], low=-1),
            *(holding(("hca_indptr", "hca_indices")), LIVE_POSITIONS),
            *(TABLE_COVERS, ROOM_FOR_GROUPS),
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
        adapter=plans,
        narrowings=(NO_DRAFTS,),
    ),
    Entry(
        "fused_compress",
        f"{KERNELS}.fused_compress:fused_compress_attn",
        passes=(
            *("kv_in", "score_in", "kv_state", "score_state", "plan", "state_slot_mapping", "ape", "rms_weight"),
            *("rms_eps", "cos_cache", "sin_cache", "kv_cache", "block_tables", "k_per_block", "overlap", "ratio"),
            *("head_dim", "rope_head_dim"),
        ),
        adapter=fused,
        narrowings=(only("pool", "bf16"), dense("cos", "sin", "block_tables")),
    ),
    Entry(
        "fp8_pack",
        f"{KERNELS}.v4_quant:quantize_bf16_to_v4_2buff_triton",
        passes=("bf16_src",),
        adapter=pack,
        callers=(finite("src"),),
        narrowings=(only("variant", "ocp"),),
    ),
    Entry(
        "fp8_unpack",
        f"{KERNELS}.v4_quant:dequantize_v4_2buff_to_bf16",
        passes=("packed_fp8", "rope_bf16"),
        adapter=unpack,
        callers=(PACKED_BY_US,),
        narrowings=(only("variant", "ocp"),),
    ),
    Entry(
        "attention_decode",
        f"{KERNELS}.paged_decode:_sparse_attn_v4_paged_decode_triton",
        passes=("q", "unified_kv", "kv_indices", "kv_indptr", "attn_sink", "softmax_scale"),
        adapter=attention_decode,
        callers=(
            within("kv_indices", lambda a: a["unified_kv"].shape[0]),
            holding(("kv_indptr", "kv_indices")),
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
        adapter=attention_prefill,
        callers=(
            within("kv_indices", lambda a: a["unified_kv"].shape[0]),
            within("extend_indices", lambda a: a["kv"].shape[0]),
            holding(("kv_indptr", "kv_indices"), ("extend_indptr", "extend_indices")),
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
