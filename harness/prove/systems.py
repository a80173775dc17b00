"""The subjects of each system: what ``prove`` proves its statements of, and how a finding names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from kvproof.harness.prove.subject import CONFIG_SYSTEMS, Subject, config_from_json, config_subject
from kvproof.harness.prove.theorems import theorem_subject
from kvproof.models.deepseek_v4 import ModelConfig, real_configs
from kvproof.models.schema import SchemaSystem
from kvproof.models.scratch import Dims, dims, scratch_systems


def schema_subject(config: ModelConfig) -> Subject:
    """The cache schema of a configuration. It has no free sizes: its statements choose every size themselves."""
    system = SchemaSystem(config)
    return Subject(config.name, "schema", (), lambda _sizes: system, describe={"config": asdict(config)})


def scratch_subject(share: Dims) -> Subject:
    """The scratch plans of a rank, whose statements choose tokens, top-k and chunk."""
    described = {"family": share.family.name, "tp": share.tp, "topk": share.topk}
    return Subject(share.name, "scratch", (), lambda _sizes: share, describe=described)


def _config_subjects(kind: str) -> Sequence[Subject]:
    return [config_subject(config, kind) for config in real_configs()]


SYSTEMS: Mapping[str, Callable[[], Sequence[Subject]]] = {
    **{kind: partial(_config_subjects, kind) for kind in CONFIG_SYSTEMS},
    "schema": lambda: [schema_subject(config) for config in real_configs()],
    "scratch": lambda: [scratch_subject(share) for share in scratch_systems().values()],
}
"""Subjects of each system as served, by its name."""


def system_subjects(system: str) -> Sequence[Subject]:
    """Every subject of a system as served.

    Raises:
        ValueError: no such system.
    """
    if system not in SYSTEMS:
        raise ValueError(f"system is {system!r}; allowed: {', '.join(SYSTEMS)}")
    return SYSTEMS[system]()


def described_subject(case: Mapping[str, Any], system: str) -> Subject:
    """The subject that a finding's case describes.

    Raises:
        ValueError, KeyError, TypeError: it describes none.
    """
    if case.get("system") == "theorem":
        return theorem_subject(case["ratios"])
    if system == "scratch":
        return scratch_subject(dims(case["family"], case["tp"], case["topk"]))
    config = config_from_json(case["config"])
    return schema_subject(config) if system == "schema" else config_subject(config, system)
