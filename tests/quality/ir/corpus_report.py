"""Checks the whole corpus and counts: ``python tests/quality/ir/corpus_report.py [--write]``.

``--write`` puts the table into docs/ir.md. Precision: of what is reported, how much is wrong. Recall: of what is
wrong, how much is reported at its line, with a counterexample that was seen to fail.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[2] / "docs" / "ir.md"
BEGIN, END = "<!-- corpus: begin -->", "<!-- corpus: end -->"
FILES = ("corpus", "corpus_hard")


def load() -> tuple[list[Any], dict[str, list[str]]]:
    """(all pairs, source lines of each file)."""
    for name in FILES:
        if f"ir_{name}" not in sys.modules:
            spec = importlib.util.spec_from_file_location(f"ir_{name}", HERE / f"{name}.py")
            assert spec is not None  # the file is there
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[f"ir_{name}"] = module
            spec.loader.exec_module(module)
    sources = {f"{name}.py": (HERE / f"{name}.py").read_text().splitlines() for name in FILES}
    return list(sys.modules["ir_corpus"].PAIRS), sources


def examine(pair: Any, *, bad: bool, target: Any = None) -> Any:
    """The report of one twin."""
    from kvproof.harness.ir.target import CUDA_90
    from kvproof.harness.prove.kernels.own import check_kernel

    arguments = {**pair.arguments, "BAD": bad}
    return check_kernel(pair.kernel, pair.contract, grid=pair.grid, arguments=arguments, target=target or CUDA_90)


def right(pair: Any, report: Any) -> str:
    """What a right twin's report counts as: "passes", "abstains" or "reported"."""
    statuses = {str(r.property): str(r.verdict.status) for r in report.results}
    if "FAIL" in statuses.values():
        return "reported"
    return "passes" if set(statuses.values()) == {"PASS"} else "abstains"


def wrong(pair: Any, report: Any, sources: dict[str, list[str]]) -> str:
    """What a wrong twin's report counts as: "found", or why it is not."""
    failed = {str(r.property) for r in report.results if str(r.verdict.status) == "FAIL"}
    if pair.breaks[0] not in failed:
        return "missed"
    if not failed <= set(pair.breaks):
        return "reported for another property"
    shown = [f for f in report.failures if str(f.status) == "FAIL"]
    if not all(f.witness is not None or "would take" in f.seen or "too long" in f.seen for f in shown):
        return "not seen to fail"
    frames = [f for one in shown for where in (one.found.location, one.found.other) if where for f in where.frames]
    named = any(
        "# fault" in sources[Path(f.file).name][f.line - 1] for f in frames if Path(f.file).name in sources
    )
    return "found" if named else "found elsewhere"


def table(pairs: list[Any], results: dict[str, tuple[str, str]]) -> list[str]:
    """The table, a row a kind of fault, and the totals."""
    lines = [
        "| kind | pairs | right twins: pass / abstain / reported | wrong twins: found / not |",
        "|---|---|---|---|",
    ]
    kinds = dict.fromkeys(pair.kind for pair in pairs)
    whole: Counter[str] = Counter()
    for kind in kinds:
        here: Counter[str] = Counter()
        for pair in pairs:
            if pair.kind == kind:
                here.update(results[pair.name])
        whole.update(here)
        lines.append(_row(kind, here))
    lines.append(_row("**all**", whole))
    reported = whole["found"] + whole["reported"]
    twins = 2 * len(pairs)
    bearing = [pair for pair in pairs if pair.bears_contract]
    silent = sum(results[pair.name][0] == "abstains" for pair in bearing)
    lines += [
        "",
        f"{twins} kernels; precision {whole['found'] / max(reported, 1):.3f}, recall "
        f"{whole['found'] / max(len(pairs), 1):.3f}; of the {2 * len(bearing)} whose contract has clauses, "
        f"{silent} abstain.",
    ]
    return lines


def _row(kind: str, counts: Counter[str]) -> str:
    pairs = counts["passes"] + counts["abstains"] + counts["reported"]
    right_twins = f"{counts['passes']} / {counts['abstains']} / {counts['reported']}"
    return f"| {kind} | {pairs} | {right_twins} | {counts['found']} / {pairs - counts['found']} |"


def main() -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/ir.md")
    given = parser.parse_args()
    pairs, sources = load()
    start = time.process_time()
    results: dict[str, tuple[str, str]] = {}
    for pair in pairs:
        found = right(pair, examine(pair, bad=False)), wrong(pair, examine(pair, bad=True), sources)
        results[pair.name] = found
        if found != ("passes", "found"):
            print(f"{pair.name}: {', '.join(found)}", flush=True)
    lines = table(pairs, results)
    print("\n".join(lines))
    print(f"{time.process_time() - start:.0f} s of CPU time")
    if given.write:
        text = DOCS.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        DOCS.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
