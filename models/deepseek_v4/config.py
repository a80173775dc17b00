"""Real DeepSeek-V4 configurations, and how a pool's layout follows from one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from kvproof.models.deepseek_v4.state import Plane, StateField, StateLayout, place_fields
from kvproof.models.errors import LayoutError
from kvproof.models.index import IndexValue, as_index
from kvproof.models.row_space import (
    ABSENT_RATIO,
    CSA_RATIO,
    DENSE_RATIO,
    HCA_RATIO,
    UnifiedPoolGeometry,
)
from kvproof.models.row_space.geometry import MAX_LAYERS

HEAD_DIM = 512
"""Elements of one KV row: 448 without position encoding (NoPE), 64 with (RoPE)."""

INDEXER_HEAD_DIM = 128
"""Elements of one indexer key."""

PLANES: Mapping[str, tuple[Plane, ...]] = {
    # Packed NoPE row: 448 e4m3 bytes, 14 scale bytes, 50 unused. RoPE row: 64 bf16.
    "fp8": (Plane("nope", 512), Plane("rope", 128)),
    "bf16": (Plane("kv", HEAD_DIM * 2),),
}

MAX_SIZE = 2**31
"""A window, a block or a selection of so many entries or more is refused: kernels index rows in 32 bits."""

MAX_FILE_BYTES = 2**26
"""A configuration file is some kilobytes; what is longer than this is none."""

MAX_DIGITS = 40

DSPARK_DRAFT_LAYERS = 3
DRAFTS = ("none", "mtp", "dspark")


@dataclass(frozen=True)
class ModelConfig:
    """What a pool's layout depends on: model, launch options and KV dtype.

    Attributes:
        name: name shown in reports.
        trunk_ratios: compress ratio of each trunk layer.
        draft: "none", "mtp" (dense layers behind the trunk) or "dspark" (three draft layers whose window
            is kept unquantised, as a state field).
        draft_layers: layers behind the trunk; 0 without a draft.
        draft_tokens: draft tokens a step (k); 0 exactly without a draft.
        sliding_window: window in tokens (W).
        block_size: tokens of a block (B).
        kv: "fp8" or "bf16", which sets the planes.
        index_topk: compressed entries that a CSA layer's indexer selects.
    """

    name: str
    trunk_ratios: tuple[int, ...]
    draft: str = "none"
    draft_layers: int = 0
    draft_tokens: int = 0
    sliding_window: int = 128
    block_size: int = 256
    kv: str = "fp8"
    index_topk: int = 512

    def __post_init__(self) -> None:
        if self.kv not in PLANES:
            raise LayoutError(f"kv is {self.kv!r}; allowed: {', '.join(PLANES)}")
        if self.draft not in DRAFTS:
            raise LayoutError(f"draft is {self.draft!r}; allowed: {', '.join(DRAFTS)}")
        as_index("draft_layers", self.draft_layers, at_least=0, below=MAX_LAYERS)
        as_index("draft_tokens", self.draft_tokens, at_least=0)
        as_index("sliding_window", self.sliding_window, at_least=1)
        as_index("index_topk", self.index_topk, at_least=1)
        speculates = self.draft != "none"
        if speculates != (self.draft_tokens > 0) or speculates != (self.draft_layers > 0):
            raise LayoutError(
                f"draft is {self.draft!r} with draft_layers {self.draft_layers} and draft_tokens "
                f"{self.draft_tokens}; both must be positive with a draft and 0 without"
            )

    @property
    def ratios(self) -> tuple[int, ...]:
        """Compress ratio of every layer in the row space's vocabulary, draft layers last."""
        tail = {"none": DENSE_RATIO, "mtp": DENSE_RATIO, "dspark": ABSENT_RATIO}[self.draft]
        return (*self.trunk_ratios, *[tail] * self.draft_layers)

    @property
    def ring_slots(self) -> int:
        """Ring positions of a window: R = W + k."""
        return self.sliding_window + self.draft_tokens

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Planes of the pool, in order."""
        return PLANES[self.kv]

    def state_fields(self) -> tuple[StateField, ...]:
        """State tensors of one request, in the order in which production declares them."""
        fields: list[StateField] = []

        def pair(name: str, ratio: int, pooled: int, width: int) -> None:
            shape = (self.ratios.count(ratio), pooled + self.draft_tokens, width)
            if shape[0]:
                fields.append(StateField(f"{name}_kv", shape, "fp32", 0.0))
                fields.append(StateField(f"{name}_score", shape, "fp32", -math.inf))

        # An overlapping entry pools two groups, each with a half of the width of its own.
        pair("csa_main", CSA_RATIO, 2 * CSA_RATIO, 2 * HEAD_DIM)
        pair("csa_idx", CSA_RATIO, 2 * CSA_RATIO, 2 * INDEXER_HEAD_DIM)
        pair("hca_main", HCA_RATIO, HCA_RATIO, HEAD_DIM)
        if self.draft == "dspark":
            row_bytes = HEAD_DIM * 2
            shape = (self.draft_layers, self.ring_slots, HEAD_DIM)
            fields.append(StateField("draft_window", shape, "bf16", 0.0, row_bytes, row_bytes))
        return tuple(fields)

    def state_layout(self) -> StateLayout:
        """The arena: which plane and offset each state field has, and how many rows they take."""
        return place_fields(self.state_fields(), self.planes)

    def geometry(
        self,
        num_blocks: IndexValue,
        num_slots: IndexValue,
        plane_rows: IndexValue | None = None,
        slot_positions: IndexValue | None = None,
    ) -> UnifiedPoolGeometry:
        """The row space of this configuration's pool at the given capacity."""
        state = self.state_layout()
        return UnifiedPoolGeometry(
            list(self.ratios),
            num_blocks,
            num_slots,
            ring_slots=self.ring_slots,
            block_size=self.block_size,
            plane_rows=plane_rows,
            arena_rows=state.arena_rows,
            slot_positions=slot_positions,
            slot_align_rows=state.slot_align_rows,
        )


_FLASH_TRUNK = (0, 0, *(CSA_RATIO, HCA_RATIO) * 20, CSA_RATIO)
_PRO_TRUNK = (HCA_RATIO, HCA_RATIO, *(CSA_RATIO, HCA_RATIO) * 29, CSA_RATIO)


def _family(name: str, trunk: tuple[int, ...], index_topk: int, dspark_tokens: int) -> list[ModelConfig]:
    plain = ModelConfig(name, trunk, index_topk=index_topk)
    return [
        plain,
        replace(plain, name=f"{name}-mtp1", draft="mtp", draft_layers=1, draft_tokens=1),
        replace(
            plain,
            name=f"{name}-dspark",
            draft="dspark",
            draft_layers=DSPARK_DRAFT_LAYERS,
            draft_tokens=dspark_tokens,
        ),
    ]


CONFIGS: Mapping[str, ModelConfig] = {
    config.name: config
    for config in [*_family("v4-flash", _FLASH_TRUNK, 512, 3), *_family("v4-pro", _PRO_TRUNK, 1024, 7)]
}
"""The six configurations as served, with an fp8 cache."""


def real_configs(kv: str | None = None) -> list[ModelConfig]:
    """The real configurations: one KV dtype, or by default both (bf16 names end in ``-bf16``)."""
    both = [*CONFIGS.values(), *[with_kv(config, "bf16") for config in CONFIGS.values()]]
    return [config for config in both if kv is None or config.kv == kv]


def with_kv(config: ModelConfig, kv: str) -> ModelConfig:
    """The configuration with another KV dtype, and a name that says so."""
    if kv == config.kv:
        return config
    base = config.name.removesuffix(f"-{config.kv}")
    return replace(config, name=base if kv == "fp8" and base in CONFIGS else f"{base}-{kv}", kv=kv)


def config_from_hf(
    path: Path,
    *,
    draft: str | None = None,
    draft_tokens: int = 0,
    kv: str = "fp8",
    block_size: int = 256,
) -> ModelConfig:
    """Read a model from a Hugging Face ``config.json``.

    Args:
        path: the file. Read are ``compress_ratios``, ``sliding_window``, ``num_hidden_layers``,
            ``num_nextn_predict_layers`` and ``index_topk``.
        draft: "mtp" or "dspark" when draft tokens are served; by default "mtp". Not in the file.
        draft_tokens: draft tokens a step (k), a launch option.
        kv: KV dtype, a launch option.
        block_size: tokens of a block, a launch option.

    ``compress_ratios`` may list the trunk alone or the trunk and its next-token layers.

    Raises:
        LayoutError: the file cannot be read as a model, naming the key and what is allowed.
    """
    data = _read_object(path)

    def integer(key: str, default: int | None, at_least: int, below: int = MAX_SIZE) -> int:
        value = data.get(key, default)
        if key in data and value is None:
            left_out = "" if default is None else f", or leave it out, which means {default}"
            raise LayoutError(
                f"{key} in {str(path)!r} is null; allowed: an integer from {at_least} to {below - 1}{left_out}"
            )
        if value is None:
            raise LayoutError(f"config {str(path)!r} lacks {key!r}, an integer from {at_least} to {below - 1}")
        return as_index(f"{key} in {str(path)!r}", value, at_least=at_least, below=below)

    layers = integer("num_hidden_layers", None, 1, MAX_LAYERS + 1)
    nextn = integer("num_nextn_predict_layers", 0, 0, MAX_LAYERS)
    listed = data.get("compress_ratios")
    if not isinstance(listed, list):
        raise LayoutError(f"compress_ratios in {str(path)!r} must be a list of ratios, got {_shown(listed)}")
    ratios = cast("list[Any]", listed)
    if len(ratios) not in {layers, layers + nextn}:
        raise LayoutError(
            f"compress_ratios in {str(path)!r} has {len(ratios)} entries; allowed: num_hidden_layers ({layers}) "
            f"or that plus num_nextn_predict_layers ({layers + nextn})"
        )
    draft_tokens = as_index("draft_tokens", draft_tokens, at_least=0, below=MAX_SIZE)
    if draft is None:
        draft = "mtp" if draft_tokens else "none"
    draft_layers = {"none": 0, "mtp": nextn, "dspark": DSPARK_DRAFT_LAYERS}.get(draft, 0)
    if draft == "mtp" and not nextn:
        raise LayoutError(
            f"draft_tokens is {draft_tokens}, but num_nextn_predict_layers in {str(path)!r} is 0; "
            "pass draft 'dspark' for a model with draft layers of its own, or no draft tokens"
        )
    trunk = tuple(
        as_index(f"compress_ratios[{i}] in {str(path)!r}", ratio) for i, ratio in enumerate(ratios[:layers])
    )
    sliding_window, index_topk = integer("sliding_window", 128, 1), integer("index_topk", 512, 1)
    block_size = as_index("block_size", block_size, at_least=1, below=MAX_SIZE)
    try:
        config = ModelConfig(
            name=path.stem if path.stem != "config" else (path.resolve().parent.name or "config"),
            trunk_ratios=trunk,
            draft=draft,
            draft_layers=draft_layers,
            draft_tokens=draft_tokens,
            sliding_window=sliding_window,
            block_size=block_size,
            kv=kv,
            index_topk=index_topk,
        )
        config.geometry(0, 0)  # refuses unknown ratios and block sizes now, not at first use
    except LayoutError as error:
        raise LayoutError(f"config {str(path)!r}: {error}") from error
    return config


def _read_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        LayoutError: it cannot be read, or holds something else.
    """
    if path.exists() and not path.is_file():
        raise LayoutError(f"config {str(path)!r} is not a file")
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise LayoutError(f"has {path.stat().st_size} bytes; allowed: at most {MAX_FILE_BYTES}")
        loaded: object = json.loads(path.read_text(encoding="utf-8"), parse_int=_parse_integer)
    except OSError as error:
        raise LayoutError(f"config {str(path)!r} cannot be read: {error.strerror}") from error
    except LayoutError as error:
        raise LayoutError(f"config {str(path)!r} {error}") from error
    except RecursionError as error:
        raise LayoutError(f"config {str(path)!r} is nested too deeply to be a model's configuration") from error
    except ValueError as error:
        raise LayoutError(f"config {str(path)!r} is not JSON: {error}") from error
    if not isinstance(loaded, dict):
        raise LayoutError(f"config {str(path)!r} must hold a JSON object, got {type(loaded).__name__}")
    return cast("dict[str, Any]", loaded)


def _parse_integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise LayoutError(f"holds an integer of {len(text)} digits; allowed: at most {MAX_DIGITS}")
    return int(text)


def _shown(value: object) -> str:
    """A value for a message, not longer than a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} ..."
