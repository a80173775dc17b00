"""What sparse paged attention is called with: one source of keys, and the checks of its tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvproof.kernels.arguments import check_rows, check_tensor, check_vector
from kvproof.kernels.fp8_parts import PACKED_DTYPES
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH


@dataclass(frozen=True)
class Keys:
    """One source of keys: rows, the entries that list them, and each token's slice of entries."""

    rows: torch.Tensor
    rope: torch.Tensor | None
    indices: torch.Tensor
    indptr: torch.Tensor


def check_keys(names: tuple[str, str, str, str], keys: Keys, tokens: int, like: torch.Tensor) -> None:
    """Refuse a source of keys that is out of its contract; ``names`` are the names of its four tensors."""
    rows, rope, indices, indptr = names
    if keys.rope is not None:
        check_tensor(rows, keys.rows, ["rows", PACKED_BYTES], PACKED_DTYPES, like)
        check_tensor(rope, keys.rope, [keys.rows.shape[0], ROPE], (torch.bfloat16,), like)
        check_rows(rope, keys.rope)
    else:
        check_tensor(rows, keys.rows, ["rows", WIDTH], (torch.bfloat16,), like)
    check_rows(rows, keys.rows)
    check_vector(indices, keys.indices, 0, like)
    check_vector(indptr, keys.indptr, tokens + 1, like)


def in_words(rows: torch.Tensor, size: int) -> bool:
    """Whether every row of a plane begins at a whole word of ``size`` bytes."""
    return rows.data_ptr() % size == 0 and rows.stride(0) * rows.element_size() % size == 0


def aligned(rows: torch.Tensor) -> bool:
    """Whether Triton knows every row of a plane to begin at a multiple of 16 bytes, and so copies it ahead so."""
    return rows.data_ptr() % 16 == 0 and rows.stride(0) % 16 == 0


def check_heads(name: str, value: torch.Tensor, shape: list[str | int], like: torch.Tensor) -> None:
    """Refuse what is no bf16 [T, H, 512] with contiguous heads; tokens and heads may be any distance apart."""
    check_tensor(name, value, shape, (torch.bfloat16,), like)
    if value.stride(2) != 1:
        raise ValueError(f"{name} must have contiguous heads (last stride 1), got strides {list(value.stride())}")


def check_apart(name: str, value: torch.Tensor) -> None:
    """Refuse a result whose heads share elements. They may lie token after token, or head after head."""
    tokens, heads, width = value.shape
    by_token, by_head = value.stride(0), value.stride(1)
    inner = (by_head, heads, by_token, tokens), (by_token, tokens, by_head, heads)
    apart = any(
        (count < 2 or step >= width) and (outer_count < 2 or outer >= (count - 1) * step + width)
        for step, count, outer, outer_count in inner
    )
    if not apart:
        raise ValueError(f"{name} has heads that overlap, with strides {list(value.stride())}; it is written")
