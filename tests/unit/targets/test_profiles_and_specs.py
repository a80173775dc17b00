"""Profiles, target values, revisions: what is read, what is refused, and how."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

import pytest

from kvproof.harness.targets import spec as spec_module
from kvproof.harness.targets.contracts import all_contracts, all_properties
from kvproof.harness.targets.loading import NotOffered, bound_to
from kvproof.harness.targets.profile import Entry, Profile, read_profile
from kvproof.harness.targets.revisions import history, open_target, present_revision, resolve_revision
from kvproof.harness.targets.spec import TargetSpec, named_profile, parse_target
from kvproof.models.errors import LayoutError


def test_shipped_profiles_map_known_contracts_once_each() -> None:
    known = set(all_contracts())
    assert set(all_properties()) == known
    for name in ("atom", "vllm"):
        profile = named_profile(name)
        assert set(profile.contracts) <= known
        assert set(profile.missing) <= known
        assert not set(profile.contracts) & set(profile.missing)
        # Every contract is mapped, or its absence has a reason; the packed cache is vLLM's alone.
        foreign = {"page_insert", "page_read", "global_topk", "combine_topk_window", "partial_states"}
        assert known - set(profile.contracts) - set(profile.missing) == (foreign if name == "atom" else set())


def test_target_values(tmp_path: Path) -> None:
    assert parse_target("builtin") == ("builtin", "", "")
    assert parse_target(f"atom:{tmp_path}") == ("atom", str(tmp_path), "")
    assert parse_target(f"atom:{tmp_path}@v1.2") == ("atom", str(tmp_path), "v1.2")
    odd = tmp_path / "a@b"
    odd.mkdir()
    assert parse_target(f"vllm:{odd}") == ("vllm", str(odd), "")
    for wrong in ("atom", "atom:", "nobody:x", "none.toml", ""):
        with pytest.raises(LayoutError):
            parse_target(wrong)
    with pytest.raises(LayoutError, match="is no folder"):
        open_target("atom:/nowhere", tmp_path)


def test_a_toml_profile_is_read_and_a_wrong_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(
        'name = "ours"\nmarker = "x.py"\nroot = "src"\npackages = ["a", "b"]\n[types]\nWindowParams = "a:W"\n'
        '[[entries]]\ncontract = "window_write"\nfunction = "a:w"\nrename = { pool = "cache" }\n'
        'former = { cache = ["kv_cache"] }\n'
    )
    profile, root = read_profile(file)
    assert root == tmp_path / "src"
    assert profile.packages == ("a", "b")
    assert profile.entries[0].former == {"cache": ("kv_cache",)}
    file.write_text('marker = "x"\nmodule = "a"\n')
    with pytest.raises(LayoutError, match="'module' is nothing of it; allowed: absent"):
        read_profile(file)
    file.write_text('[[entries]]\ncontract = "x"\n')
    with pytest.raises(LayoutError, match="needs 'function'"):
        read_profile(file)
    file.write_text("no toml")
    with pytest.raises(LayoutError, match="cannot be read"):
        read_profile(file)


def test_a_plugin_brings_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint(
        "theirs", "kvproof.harness.targets.profiles.atom:PROFILE", spec_module.GROUP
    )
    monkeypatch.setattr(
        spec_module.importlib.metadata, "entry_points", lambda group: [point] if group == spec_module.GROUP else []
    )
    assert isinstance(named_profile("theirs"), Profile)
    with pytest.raises(LayoutError, match="allowed: builtin, atom, vllm, theirs"):
        named_profile("others")


def scatter(kv, dest_rows, ids, pool, extra=None) -> None: ...


def needy(kv, dest_rows, batch_id_per_token, pool, seed) -> None: ...


def test_signatures_are_bound_by_name() -> None:
    contract = all_contracts()["row_scatter"].contract
    with pytest.raises(NotOffered, match="has no argument 'batch_id_per_token'"):
        bound_to(scatter, Entry("row_scatter", "m:scatter"), contract)
    old = Entry("row_scatter", "m:scatter", former={"batch_id_per_token": ("ids",)})
    bound = bound_to(scatter, old, contract)
    assert bound.names == {"batch_id_per_token": "ids"}
    assert bound.notes == ("batch_id_per_token was ids",)
    with pytest.raises(NotOffered, match="needs 'seed'"):
        bound_to(needy, Entry("row_scatter", "m:needy"), contract)
    assert bound_to(needy, Entry("row_scatter", "m:needy", constants={"seed": 1}), contract).names == {}


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout.strip()


def test_revisions_of_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    (folder / "atom").mkdir(parents=True)
    git(tmp_path, "init", "-q", str(folder))
    for number, path in enumerate(("atom/a.py", "other.py", "atom/a.py")):
        (folder / path).write_text(f"x = {number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"change {number}")
    first = git(folder, "rev-parse", "HEAD~2")
    found = history(folder, first, "HEAD", ["atom"])
    assert [commit.title for commit in found] == ["change 2"]
    assert [commit.title for commit in history(folder, "2000-01-01", "HEAD", ["atom"])] == ["change 0", "change 2"]
    with pytest.raises(LayoutError, match="a revision, or a date"):
        history(folder, "nothing", "HEAD", ["atom"])
    assert present_revision(folder) == git(folder, "rev-parse", "HEAD")[:12]
    (folder / "other.py").write_text("y\n")
    assert present_revision(folder).endswith("+dirty")
    opened = open_target(f"atom:{folder}@HEAD~2", tmp_path / "scratch")
    assert (Path(opened.root) / "atom/a.py").read_text() == "x = 0\n"
    assert opened.revision == first[:12]
    assert opened.label == f"atom:{folder}@{first[:12]}"
    assert TargetSpec.from_json(opened.to_json()) == opened
    with pytest.raises(LayoutError):
        resolve_revision(folder, "--all")
