"""Which configurations a command is about: by name, by file, and with the launch options of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.values import optional, parse_integer
from kvproof.models.deepseek_v4 import CONFIGS, PLANES, ModelConfig, config_from_hf, real_configs, with_kv
from kvproof.models.deepseek_v4.config import DRAFTS, DSPARK_DRAFT_LAYERS

MAX_DRAFT_TOKENS = 2**20
MAX_BLOCK_SIZE = 2**30


@dataclass(frozen=True)
class LaunchOptions:
    """What a launch adds to a model; None where the command line is silent.

    Attributes:
        kv: "fp8" or "bf16".
        draft: "mtp" or "dspark".
        draft_tokens: draft tokens a step (k).
        block_size: tokens of a block.
    """

    kv: str | None = None
    draft: str | None = None
    draft_tokens: int | None = None
    block_size: int | None = None


def launch_options(
    kv: str | None, draft: str | None, draft_tokens: str | None, block_size: str | None
) -> LaunchOptions:
    """Read the launch options.

    Raises:
        UsageError: a value that an option may not have.
    """
    drafts = [name for name in DRAFTS if name != "none"]
    for option, value, allowed in (("--kv", kv, list(PLANES)), ("--draft", draft, drafts)):
        if value is not None and value not in allowed:
            raise UsageError(f"{option} is {value!r}; allowed: {', '.join(allowed)}")
    return LaunchOptions(
        kv=kv,
        draft=draft,
        draft_tokens=optional(lambda t: parse_integer(t, "--draft-tokens", 0, MAX_DRAFT_TOKENS), draft_tokens),
        block_size=optional(lambda t: parse_integer(t, "--block-size", 1, MAX_BLOCK_SIZE), block_size),
    )


def select_subjects(wanted: Sequence[str] | None, launch: LaunchOptions) -> list[ModelConfig]:
    """The configurations that the command line names; without a name every real one, in both KV dtypes.

    Raises:
        UsageError: an unknown name, or launch options that fit no single configuration.
        LayoutError: a file that is no model, or a layout that means nothing.
    """
    if not wanted:
        if (launch.draft, launch.draft_tokens, launch.block_size) != (None, None, None):
            raise UsageError(
                "--draft, --draft-tokens and --block-size change one configuration; name it with --config"
            )
        return real_configs(launch.kv)
    subjects = [load_subject(name, launch) for name in wanted]
    names = [subject.name for subject in subjects]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"--config names {', '.join(twice)} more than once")
    return subjects


def load_subject(wanted: str, launch: LaunchOptions) -> ModelConfig:
    """One configuration by name, or from a ``config.json`` (or the folder that holds it).

    Raises:
        UsageError: an unknown name.
        LayoutError: a file that is no model, or a layout that means nothing.
    """
    named = {config.name: config for config in real_configs()}.get(wanted)
    config = _from_file(wanted, launch) if named is None else _with_launch_options(named, launch)
    config.geometry(0, 0)  # a layout without meaning is refused here, in one place and before any work
    return config


def _from_file(wanted: str, launch: LaunchOptions) -> ModelConfig:
    path = Path(wanted)
    if wanted and path.is_dir():
        path /= "config.json"
    if not wanted or (not path.exists() and path.suffix != ".json" and len(path.parts) <= 1):
        close = difflib.get_close_matches(wanted, CONFIGS, n=1, cutoff=0.6)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(
            f"--config is {wanted!r}, which is no file and no real configuration{hint} "
            f"(allowed: {', '.join(CONFIGS)}, each also with -bf16, or the path of a config.json)"
        )
    return config_from_hf(
        path,
        draft=launch.draft,
        draft_tokens=launch.draft_tokens or 0,
        kv=launch.kv or "fp8",
        block_size=launch.block_size or 256,
    )


def _with_launch_options(config: ModelConfig, launch: LaunchOptions) -> ModelConfig:
    """A named configuration, launched otherwise; its name then says how."""
    changed = config
    if launch.kv is not None:
        if config.name.endswith("-bf16") and launch.kv != "bf16":
            raise UsageError(f"--kv is {launch.kv!r}, but --config names {config.name}; allowed: bf16")
        changed = with_kv(changed, launch.kv)
    if launch.draft is not None or launch.draft_tokens is not None:
        changed = _with_draft(changed, launch)
    if launch.block_size is not None:
        changed = replace(changed, block_size=launch.block_size)
    for known in real_configs():
        if replace(changed, name=known.name) == known:
            return known
    marks = [
        f"{mark}{value}"
        for mark, value, former in (
            ("", changed.draft, config.draft),
            ("k", changed.draft_tokens, config.draft_tokens),
            ("b", changed.block_size, config.block_size),
        )
        if value != former
    ]
    return replace(changed, name="+".join([changed.name, *marks]))


def _with_draft(config: ModelConfig, launch: LaunchOptions) -> ModelConfig:
    draft = launch.draft or (config.draft if config.draft != "none" else "mtp")
    if config.draft not in {"none", draft}:
        raise UsageError(f"--draft is {draft!r}, but {config.name} has draft layers of kind {config.draft}")
    tokens = config.draft_tokens if launch.draft_tokens is None else launch.draft_tokens
    if tokens == 0:
        if launch.draft is None and config.draft == "none":
            return config
        raise UsageError(
            f"--draft-tokens is {tokens}, but {config.name} is to be served with draft layers; "
            "allowed: an integer of at least 1"
        )
    layers = config.draft_layers or {"mtp": 1, "dspark": DSPARK_DRAFT_LAYERS}[draft]
    return replace(config, draft=draft, draft_layers=layers, draft_tokens=tokens)
