"""The one variable that chooses how long a property may take."""

from __future__ import annotations

import pytest

from kvproof.harness.run.profiles import active, fuzz_subjects


@pytest.mark.parametrize(
    ("environ", "name", "seconds"),
    [
        ({}, "dev", 60),
        ({"KVPROOF_PROFILE": "dev"}, "dev", 60),
        ({"KVPROOF_PROFILE": "ci"}, "ci", 20),
        ({"KVPROOF_PROFILE": "nightly"}, "nightly", 600),
        ({"KVPROOF_PROFILE": "nightly", "KVPROOF_NIGHTLY_SECONDS": "90.5"}, "nightly", 90.5),
    ],
)
def test_profiles(environ: dict[str, str], name: str, seconds: float) -> None:
    profile = active(environ)
    assert (profile.name, profile.seconds) == (name, seconds)
    assert profile.until_needs is (name != "nightly")


@pytest.mark.parametrize("name", ["", "CI", "fast"])
def test_an_unknown_profile_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"KVPROOF_PROFILE is '{name}'; allowed: dev, ci, nightly"):
        active({"KVPROOF_PROFILE": name})


@pytest.mark.parametrize("seconds", ["", "0", "-1", "inf", "nan", "long"])
def test_a_nightly_time_must_be_positive(seconds: str) -> None:
    with pytest.raises(ValueError, match="KVPROOF_NIGHTLY_SECONDS is"):
        active({"KVPROOF_PROFILE": "nightly", "KVPROOF_NIGHTLY_SECONDS": seconds})


def test_real_configurations_are_fuzzed_at_night() -> None:
    assert fuzz_subjects({}) == [None]
    nightly = fuzz_subjects({"KVPROOF_PROFILE": "nightly"})
    assert nightly[0] is None
    assert len(nightly) == 13
