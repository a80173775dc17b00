"""Profiles, target values, revisions: what is read, what is refused, and how."""

from __future__ import annotations

import importlib.metadata
import io
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from kvproof.harness.cli.targets import print_reports
from kvproof.harness.run.target_campaign import ContractReport
from kvproof.harness.targets import spec as spec_module
from kvproof.harness.targets.contracts import all_contracts, all_properties
from kvproof.harness.targets.loading import NotOffered, bound_to
from kvproof.harness.targets.profile import Entry, Profile
from kvproof.harness.targets.profile_file import read_profile
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
    file.write_text('[[entries]]\ncontract = "window_write"\n')
    with pytest.raises(LayoutError, match="needs 'function'"):
        read_profile(file)
    file.write_text("no toml")
    with pytest.raises(LayoutError, match="cannot be read"):
        read_profile(file)


ENTRY = '[[entries]]\ncontract = "row_scatter"\nfunction = "m:f"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names nothing to check; allowed: [[entries]], host or kernels"),
        ("entries = 5", "entries is 5; allowed: tables [[entries]]"),
        ("entries = [5]", "entries is [5]; allowed: tables [[entries]]"),
        (f"name = 7\n{ENTRY}", "name is 7; allowed: a text that is not empty"),
        (f"root = 7\n{ENTRY}", "root is 7; allowed: a text that is not empty"),
        (f'packages = "a"\n{ENTRY}', "packages is 'a'; allowed: a list of texts"),
        (f"packages = [1]\n{ENTRY}", "packages[0] is 1; allowed: a text"),
        (f'{ENTRY}[types]\nWindowParams = "m"', "types.WindowParams is 'm'; allowed: a text \"module:name\""),
        (f'{ENTRY}[missing]\nnope = "why"', "missing, a name in it, is 'nope'; allowed: attention_decode, "),
        (f"{ENTRY}[stubs]\nm = 3", "stubs.m is 3; allowed: a table"),
        (ENTRY.replace("row_scatter", "nope"), "entries[0].contract is 'nope'; allowed: attention_decode, "),
        (ENTRY.replace("m:f", "m"), "entries[0].function is 'm'; allowed: a text \"module:name\""),
        (f"{ENTRY}rename = 3", "entries[0].rename is 3; allowed: a table"),
        (f"{ENTRY}rename = {{ pool = 3 }}", "entries[0].rename.pool is 3; allowed: a text"),
        (
            f'{ENTRY}rename = {{ pol = "cache" }}',
            "entries[0].rename is 'pol'; allowed: arguments of row_scatter: ",
        ),
        (f'{ENTRY}drop = ["pol"]', "entries[0].drop is 'pol'; allowed: arguments of row_scatter: kv, "),
        (f'{ENTRY}former = {{ pool = "cache" }}', "entries[0].former.pool is 'cache'; allowed: a list of texts"),
        (f'{ENTRY}layouts = ["v5"]', "entries[0].layouts[0] is 'v5'; allowed: v4-flash, "),
        (f"{ENTRY}{ENTRY}adapter = 1", "entries[1].adapter is 1; allowed: a text"),
        (f"{ENTRY}tame = 1", "entries[0].tame = 1: 'tame' is nothing of it; allowed: adapter, "),
    ],
)
def test_wrong_content_of_a_profile_is_said_with_its_key_and_what_is_allowed(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(f"{text}\n")
    with pytest.raises(LayoutError) as found:
        read_profile(file)
    assert str(found.value).startswith(f"profile {file}")
    assert words in str(found.value)


def test_the_smallest_profile_is_one_entry_and_everything_may_be_said(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(ENTRY)
    assert (read_profile(file)[0].name, read_profile(file)[0].contracts) == ("ours", ("row_scatter",))
    file.write_text(
        f'{ENTRY}rename = {{ pool = "cache" }}\ndrop = ["kv"]\nreturns = ["pool"]\nconstants = {{ n = [1, 2] }}\n'
        'passes = ["a"]\nadapter = "m.n:call"\nlayouts = ["v4-flash"]\nera = ""\n'
        '[missing]\nwindow_write = "no"\n[stubs.m]\nx = 1\n[host]\ngeometry = "m:g"\n[hints]\nTILE = 64\n'
    )
    entry = read_profile(file)[0].entries[0]
    assert entry.layouts == ("v4-flash",)
    assert entry.constants == {"n": [1, 2]}


def test_a_reason_that_all_contracts_share_is_printed_once() -> None:
    out = io.StringIO()
    reports = [ContractReport(name, reason="no marker") for name in ("a", "b", "c")]
    print_reports([*reports, ContractReport("d", reason="other")], Console(file=out, width=300))
    lines = [line for line in out.getvalue().splitlines() if line.startswith("not checked")]
    assert lines == ["not checked a, b, c: no marker", "not checked d: other"]


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
