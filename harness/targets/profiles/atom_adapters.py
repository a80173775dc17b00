"""How ROCm/ATOM's functions are called where a call by name cannot express it: one adapter a function."""

from __future__ import annotations

from typing import Any

from kvproof.harness.targets.loading import Bound, Library
from kvproof.harness.targets.session import fill

KERNELS = "atom.model_ops.v4_kernels"


def decode_indices(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """Rows of each class in one mapping by ratio."""
    rows = {0: a.pop("dest_rows_swa"), 4: a.pop("dest_rows_csa"), 128: a.pop("dest_rows_hca")}
    call(**a, dest_rows={ratio: row for ratio, row in rows.items() if row is not None})


def gather(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """It returns its output."""
    out = a.pop("out")
    fill(out, call(**a), "out")


def gather_planes(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """It returns its output, and takes the planes by names of their own."""
    out = a.pop("out")
    del a["variant"]
    pool = a.pop("pool")
    fill(out, call(pool_nope=_fp8(pool), **a), "out")


def _fp8(packed: Any) -> Any:
    """Packed rows as the element type that the project's quantiser has on this machine."""
    import torch  # noqa: PLC0415  (only a worker imports it)

    return packed.view(torch.float8_e4m3fn) if packed.dtype == torch.uint8 else packed


def pack(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """It returns both planes."""
    packed, rope = call(bf16_src=a["src"])
    fill(a["packed"], packed.view(a["packed"].dtype), "packed")
    fill(a["rope"], rope, "rope")


def unpack(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """It returns its output."""
    fill(a["out"], call(packed_fp8=_fp8(a["packed"]), rope_bf16=a["rope"]), "out")


def both_planes(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """The packed plane in place of a plain one."""
    packed = {name: _fp8(a.pop(name)) for name in ("k_packed", "pool")}
    call(kv=None, **packed, **a)


def attention_decode(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """It returns its output, and has names of its own."""
    names = ("q", "unified_kv", "kv_indices", "kv_indptr", "attn_sink")
    fill(a["out"], call(**{name: a[name] for name in names}, softmax_scale=a["scale"]), "out")


def attention_prefill(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """Cached and new rows by names of their own; it returns its output."""
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


def fused(call: Bound, a: dict[str, Any], library: Library) -> None:
    """A plan object of the project, and the rows of a class as a view of blocks."""
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


def counted_update(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """Before plans had a fixed capacity, the number of their rows came with them."""
    call(**a, num_write=a["write_plan"].shape[0])


class _PlanBuffer:
    """A plan buffer whose two sides are one tensor of the host."""

    def __init__(self, tensor: Any) -> None:
        self.np, self.cpu, self.gpu = tensor.numpy(), tensor, tensor

    def copy_to_gpu(self, count: int | None = None) -> Any:
        return self.gpu if count is None else self.gpu[:count]


def plans(call: Bound, a: dict[str, Any], _library: Library) -> None:
    """Plan buffers with a side on the host, and plans of all ratios at once."""
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


def hca_head(call: Bound, a: dict[str, Any], _library: Library) -> None:
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
