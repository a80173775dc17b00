"""How long a property may take, chosen by one variable of the environment. Pure Python, light to import."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "KVPROOF_PROFILE"
NIGHTLY_VARIABLE = "KVPROOF_NIGHTLY_SECONDS"
DEFAULT = "dev"


@dataclass(frozen=True)
class Profile:
    """Time limits of a run.

    Attributes:
        name: "dev", "ci" or "nightly".
        seconds: wall time of one property, at most.
    """

    name: str
    seconds: float


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
    return Profile(name, {"dev": 60.0, "ci": 20.0}.get(name) or _nightly_seconds(found))


def _nightly_seconds(environ: Mapping[str, str]) -> float:
    text = environ.get(NIGHTLY_VARIABLE, "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{NIGHTLY_VARIABLE} is {text!r}; allowed: a positive number of seconds")
    return seconds
