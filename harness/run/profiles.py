"""How long a property may take, chosen by one variable of the environment. Imports no torch and no solver."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kvproof.models.deepseek_v4 import ModelConfig, real_configs

VARIABLE = "KVPROOF_PROFILE"
NIGHTLY_VARIABLE = "KVPROOF_NIGHTLY_SECONDS"
DEFAULT = "dev"


@dataclass(frozen=True)
class Profile:
    """Time limits of a run.

    Attributes:
        name: "dev", "ci" or "nightly".
        seconds: wall time of one property, at most.
        until_needs: a property ends as soon as it has seen what it needs, rather than using all its time.
    """

    name: str
    seconds: float
    until_needs: bool


PROFILES = ("dev", "ci", "nightly")


def active(environ: Mapping[str, str] | None = None) -> Profile:
    """The profile that ``KVPROOF_PROFILE`` names; "dev" without it.

    "nightly" takes 600 seconds a property, or what ``KVPROOF_NIGHTLY_SECONDS`` says.

    Raises:
        ValueError: an unknown profile, or a nightly time that is no positive number.
    """
    found = os.environ if environ is None else environ
    name = found.get(VARIABLE, DEFAULT)
    if name not in PROFILES:
        raise ValueError(f"{VARIABLE} is {name!r}; allowed: {', '.join(PROFILES)}")
    if name == "nightly":
        return Profile(name, _nightly_seconds(found), until_needs=False)
    return Profile(name, {"dev": 60.0, "ci": 20.0}[name], until_needs=True)


def fuzz_subjects(environ: Mapping[str, str] | None = None) -> list[ModelConfig | None]:
    """What the active profile fuzzes: layouts drawn freely (None), and at night every real configuration too."""
    return [None, *real_configs()] if active(environ).name == "nightly" else [None]


def _nightly_seconds(environ: Mapping[str, str]) -> float:
    text = environ.get(NIGHTLY_VARIABLE, "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{NIGHTLY_VARIABLE} is {text!r}; allowed: a positive number of seconds")
    return seconds
