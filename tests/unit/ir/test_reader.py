"""The reader: IR text of every supported release and both vendors, and text that no release writes."""

from pathlib import Path

import pytest

from kvproof.harness.ir.reader import ReadError, Type, read_module

DATA = Path(__file__).resolve().parents[2] / "data" / "ttir"
RELEASES = ("3.6", "3.7", "3.8")
FOLDERS = sorted(p.name for p in DATA.iterdir() if p.name.startswith("triton-"))
NAMES = sorted(p.stem for p in (DATA / FOLDERS[0]).glob("*.ttir"))


def _read(folder: str, name: str):
    return read_module((DATA / folder / f"{name}.ttir").read_text())


def _outline(module):
    """Memory accesses, control flow and reductions with their types; arithmetic folds differently."""
    kept = {"tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.reduce", "tt.scan", "tt.dot", "tt.assert"}
    return sorted(
        (o.name, tuple(str(v.type) for v in (*o.operands[:1], *o.results)))
        for f in module.functions.values()
        for o in f.body.walk()
        if o.name in kept or o.name.startswith(("scf.", "cf."))
    )


def test_there_is_text_of_every_supported_release_and_both_vendors():
    assert [f"triton-{r}-{vendor}" for r in RELEASES for vendor in ("cuda", "hip")] == FOLDERS
    assert all(sorted(p.stem for p in (DATA / f).glob("*.ttir")) == NAMES for f in FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", NAMES)
def test_every_text_is_read_with_every_operation_known(folder, name):
    module = _read(folder, name)
    assert module.entry.name == name
    assert module.unknown == ()
    assert any(o.name == "tt.store" for o in module.entry.body.walk())
    assert "/" not in "".join(f.file.removeprefix("ttir/") for f in _frames(module) if "ttir" in f.file)


def _frames(module):
    return [f for fn in module.functions.values() for o in fn.body.walk() for f in o.location.frames]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("vendor", ["cuda", "hip"])
def test_releases_agree_on_accesses_and_control_flow(name, vendor):
    old, middle, new = (_outline(_read(f"triton-{release}-{vendor}", name)) for release in RELEASES)
    assert old == middle == new
    assert old


def test_no_absolute_path_survives():
    for folder in FOLDERS:
        for name in NAMES:
            assert not [f.file for f in _frames(_read(folder, name)) if f.file.startswith(("/", "\\"))]


def test_locations_carry_the_call_chain():
    module = _read("triton-3.8-cuda", "paged_copy")
    rem = next(o for o in module.entry.body.walk() if o.name == "arith.remsi")
    lines = [frame.line for frame in rem.location.frames]
    source = (DATA / "kernels.py").read_text().splitlines()
    assert "pos % stride" in source[lines[0] - 1]
    assert "device_row(block, pos, 64)" in source[lines[1] - 1]
    assert "called at" in str(rem.location)


HEAD = "module {\n  tt.func public @k(%x: !tt.ptr<i32>, %n: i32) attributes {noinline = false} {\n"
TAIL = "    tt.return\n  }\n}\n"


def test_an_unknown_operation_is_kept_and_named():
    body = '    %a = tt.brand_new %n, "quoted: text" {k = 1 : i32} : i32 -> tensor<4xi32>\n'
    body += "    %b = arith.addi %n, %n : i32\n"
    module = read_module(HEAD + body + TAIL)
    first, second, _ = module.entry.body.block.operations
    assert module.unknown == ("tt.brand_new",)
    assert (first.name, first.known, first.result.type) == ("tt.brand_new", False, Type("i32", (4,)))
    assert (second.name, second.known) == ("arith.addi", True)


def test_an_unknown_operation_with_a_region_ends_where_the_region_does():
    body = (
        "    %a = x.loop %n {\n      %c = arith.addi %n, %n : i32\n    } : i32\n    %b = arith.muli %a, %n : i32\n"
    )
    module = read_module(HEAD + body + TAIL)
    assert [o.name for o in module.entry.body.block.operations] == ["x.loop", "arith.muli", "tt.return"]
    assert [o.name for o in module.entry.body.block.operations[0].regions[0].walk()] == ["arith.addi"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    %b = arith.addi %n, %missing : i32\n", "undefined value %missing"),
        ("    %b = arith.addi %n, %n : \n", ""),
        ("    %b = arith.addi %n } : i32\n", "unbalanced"),
        ("    ~\n", "no token"),
    ],
)
def test_text_that_is_no_ir_names_its_line(body, words):
    if not words:
        assert read_module(HEAD + body + TAIL).unknown == ("arith.addi",)
        return
    with pytest.raises(ReadError, match=rf"line 3: .*{words}"):
        read_module(HEAD + body + TAIL)


def test_names_may_repeat_in_sibling_regions():
    body = (
        "    %c = arith.cmpi slt, %n, %n : i32\n"
        "    %r = scf.if %c -> (i32) {\n      %v = arith.addi %n, %n : i32\n      scf.yield %v : i32\n"
        "    } else {\n      %v = arith.muli %n, %n : i32\n      scf.yield %v : i32\n    }\n"
    )
    branch = read_module(HEAD + body + TAIL).entry.body.block.operations[1]
    first, second = (region.block.operations[0].result for region in branch.regions)
    assert first.name == second.name
    assert first.number != second.number


def test_a_type_without_its_name_is_read_as_it_is_printed():
    body = "    %d = tt.make_tensor_descriptor %x, [%n], [%n] : <i32>, <tensor<16xi32>>\n"
    module = read_module(HEAD + body + TAIL)
    first, *_ = module.entry.body.block.operations
    assert (first.name, first.known, first.result.type.element) == (
        "tt.make_tensor_descriptor",
        False,
        "<tensor<16xi32>>",
    )
