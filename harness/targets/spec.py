"""What ``--target`` says: whose code, where it lies, and which revision of it."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kvproof.harness.targets.profile import Profile
from kvproof.models.errors import LayoutError

BUILTIN = "builtin"
GROUP = "kvproof.targets"
"""Entry point group of profiles that other distributions bring."""
SHIPPED = ("atom", "vllm")


@dataclass(frozen=True)
class TargetSpec:
    """Whose code is checked.

    Attributes:
        kind: "builtin", the name of a shipped or a plugin's profile, or the path of a TOML profile.
        root: the folder of the code; empty for builtin.
        revision: commit that the folder holds; empty if it is no checkout of a commit.
        origin: the path as it was given, which a finding names; the folder may be an unpacked revision of it.
    """

    kind: str = BUILTIN
    root: str = ""
    revision: str = ""
    origin: str = ""

    @property
    def label(self) -> str:
        """The target in tables and findings."""
        if self.kind == BUILTIN:
            return BUILTIN
        if self.kind.endswith(".toml"):
            return self.kind
        text = f"{self.kind}:{self.origin or self.root}"
        return f"{text}@{self.revision}" if self.revision else text

    def profile(self) -> Profile | None:
        """The profile; None for this project's own kernels.

        Raises:
            LayoutError: no profile of that name, or a file that is none.
        """
        if self.kind == BUILTIN:
            return None
        if self.kind.endswith(".toml"):
            from kvproof.harness.targets.profile_file import read_profile  # noqa: PLC0415  (brings all contracts)

            return read_profile(Path(self.kind))[0]
        return named_profile(self.kind)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TargetSpec:
        """What :meth:`to_json` wrote."""
        return cls(**data)


def named_profile(name: str) -> Profile:
    """A shipped profile, or one that an installed distribution brings.

    Raises:
        LayoutError: there is none of that name, or a plugin gives something else.
    """
    if name in SHIPPED:
        return importlib.import_module(f"kvproof.harness.targets.profiles.{name}").PROFILE
    plugins = {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}
    if name not in plugins:
        known = ", ".join([BUILTIN, *SHIPPED, *plugins])
        raise LayoutError(f"target {name!r} is not known; allowed: {known}, or the path of a TOML profile")
    found = plugins[name].load()
    if not isinstance(found, Profile):
        raise LayoutError(f"plugin {plugins[name].value} gives {type(found).__name__}; allowed: a Profile")
    return found


def parse_target(text: str) -> tuple[str, str, str]:
    """(kind, path, revision) of a ``--target`` value; path and revision may be empty.

    Raises:
        LayoutError: a form that is none of the allowed ones.
    """
    if text == BUILTIN:
        return BUILTIN, "", ""
    if text.endswith(".toml"):
        if not Path(text).is_file():
            raise LayoutError(f"target {text!r}: there is no such file")
        return text, "", ""
    kind, separator, rest = text.partition(":")
    if not separator or not rest:
        raise LayoutError(
            f"target is {text!r}; allowed: {BUILTIN}, NAME:PATH or NAME:PATH@REV with a profile's name "
            f"({', '.join(SHIPPED)}, or a plugin's), or the path of a TOML profile"
        )
    path, at, revision = rest.rpartition("@")
    if not at or Path(rest).exists():
        path, revision = rest, ""
    named_profile(kind)
    return kind, path, revision
