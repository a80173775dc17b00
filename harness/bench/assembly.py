"""What compiled code holds, counted from its text: SASS of an NVIDIA GPU, assembly of an AMD one, Triton's IR."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

Counted = dict[str, int]

_SASS = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
_SASS_WIDTH = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
_USAGE = re.compile(r"(REG|STACK|SHARED|LOCAL):(\d+)")
_GCN = re.compile(r"^\s+([a-z][a-z0-9_]+)(?:\s|$)")
_GCN_MEMORY = re.compile(r"(?:global|buffer|flat)_(load|store|atomic)_(\w+)")
_GCN_WIDTH = {"ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2, "dword": 4}
_GCN_FIELDS = {
    "vgprs": r"\.vgpr_count:\s+(\d+)",
    "sgprs": r"\.sgpr_count:\s+(\d+)",
    "agprs": r"\.agpr_count:\s+(\d+)",
    "vgpr spills": r"\.vgpr_spill_count:\s+(\d+)",
    "sgpr spills": r"\.sgpr_spill_count:\s+(\d+)",
    "private bytes": r"\.private_segment_fixed_size:\s+(\d+)",
    "code bytes": r"codeLenInByte = (\d+)",
}
_TTIR = re.compile(r"(?:^|=\s)\s*([a-z_]+\.[a-z_.]+)", re.MULTILINE)


def sass(text: str) -> Counted:
    """Counts of a listing by ``cuobjdump -sass``: instructions, code bytes, loads and stores by width."""
    names = [match[1] for line in text.splitlines() if (match := _SASS.search(line))]
    counts: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        kind = {"LDG": "loads", "STG": "stores", "LDGSTS": "async loads", "ATOMG": "atomics", "RED": "atomics"}
        if parts[0] in kind:
            width = next((_SASS_WIDTH[part] for part in parts[1:] if part in _SASS_WIDTH), 4)
            _memory(counts, kind[parts[0]], width)
        elif parts[0] in {"LDL", "STL"}:
            counts["spill instructions"] += 1
        elif parts[0] in {"LDS", "LDSM", "STS", "STSM"}:
            counts["shared accesses"] += 1
        elif parts[0] in {"HGMMA", "HMMA", "IMMA", "QGMMA", "IGMMA"}:
            counts["matrix instructions"] += 1
        elif parts[0] in {"BAR", "WARPSYNC"}:
            counts["barriers"] += 1
        elif parts[0] == "BRA":
            counts["branches"] += 1
    # An instruction has 16 bytes; the padding after the last one is no work.
    useful = len(names) - sum(name == "NOP" for name in names)
    return {"instructions": useful, "code bytes": 16 * len(names), **counts}


def resource_usage(text: str) -> Counted:
    """Registers and memory by ``cuobjdump --dump-resource-usage``."""
    found = {key: int(value) for key, value in _USAGE.findall(text)}
    names = {"REG": "registers", "STACK": "stack bytes", "LOCAL": "local bytes"}
    return {words: found[key] for key, words in names.items() if key in found}


def amdgcn(text: str) -> Counted:
    """Counts of AMD assembly: instructions, registers, spills, code bytes, loads and stores by width."""
    counts: Counter[str] = Counter()
    for line in text.partition(".section")[0].splitlines():
        match = _GCN.match(line)
        if not match:
            continue
        name = match[1]
        counts["instructions"] += 1
        memory = _GCN_MEMORY.match(name)
        if memory:
            kind = {"load": "loads", "store": "stores", "atomic": "atomics"}[memory[1]]
            _memory(counts, kind, _gcn_width(memory[2]))
        elif name.startswith(("s_load", "s_buffer_load")):
            counts["scalar loads"] += 1
        elif name.startswith("scratch_"):
            counts["spill instructions"] += 1
        elif name.startswith("ds_"):
            counts["shared accesses"] += 1
        elif "mfma" in name or "wmma" in name:
            counts["matrix instructions"] += 1
        elif name.startswith("s_barrier"):
            counts["barriers"] += 1
        elif name.startswith(("s_branch", "s_cbranch")):
            counts["branches"] += 1
    for field, pattern in _GCN_FIELDS.items():
        found = re.search(pattern, text)
        if found:
            counts[field] = int(found[1])
    return dict(counts)


def _gcn_width(kind: str) -> int:
    wide = re.search(r"dwordx(\d)|b(\d+)", kind)
    if wide:
        return 4 * int(wide[1]) if wide[1] else int(wide[2]) // 8
    return next((width for name, width in _GCN_WIDTH.items() if name in kind), 4)


def _memory(counts: Counter[str], kind: str, width: int) -> None:
    counts[kind] += 1
    counts[f"{kind} of {width} B"] += 1


def ttir(text: str) -> Counted:
    """Operations of Triton's IR: all of them, and those by which one reads a kernel's work."""
    lines: Iterable[str] = (line.split(" loc(")[0] for line in text.splitlines())
    names = Counter(match for line in lines for match in _TTIR.findall(line))
    shown = {
        "IR loads": names["tt.load"],
        "IR stores": names["tt.store"],
        "IR dots": names["tt.dot"],
        "IR loops": names["scf.for"] + names["scf.while"],
        "IR divisions": sum(count for name, count in names.items() if name.startswith(("arith.div", "arith.rem"))),
    }
    return {"IR operations": sum(names.values()), **shown}
