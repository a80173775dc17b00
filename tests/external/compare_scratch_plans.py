"""Compare the scratch plans with the published ones, region by region.

Run by hand on an unpacked wheel (``pip download --no-deps vllm``, then unzip)::

    python tests/external/compare_scratch_plans.py PATH [--widest 8192]

Reads the plan modules under PATH/vllm/models; imports nothing else of the wheel. Prints one line a family
and exits 1 on any disagreement.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvproof.models.scratch import (
    FAMILIES,
    Dims,
    ScratchPlan,
    back_scratch,
    front_end,
    front_scratch,
)


def bare_packages(root: Path, dotted: str) -> None:
    """Make every parent of ``dotted`` importable without running its ``__init__``."""
    parts = dotted.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__path__ = [str(root.joinpath(*parts[:depth]))]
            sys.modules[name] = module


def published(root: Path, family: str) -> tuple[Any, Any]:
    """(plan module, Dims class) of a family."""
    base = {
        "v4-pro": "vllm.models.deepseek_v4.amd.mono",
        "v4.1-flash": "vllm.models.deepseek_v41.amd.mono",
    }[family]
    for package in ("attention", "common"):
        bare_packages(root, f"{base}.{package}")
    if family == "v4.1-flash":
        # The module asks for the GPU's architecture when it is imported; the plans for others are wanted.
        arch = types.ModuleType(f"{base}.common.arch")
        arch.GFX942 = False  # type: ignore[attr-defined]
        sys.modules[arch.__name__] = arch
    plan = importlib.import_module(f"{base}.attention.plan")
    return plan, plan.Dims


def subjects(family: str, widest: int) -> Iterator[tuple[int, int, int]]:
    """(tokens, tp, top-k) of everything to compare."""
    served = FAMILIES[family]
    # Chunks are 64 and 128 keys: one top-k on each side of every multiple of a chunk, and the real ones.
    topks = {served.topk}
    if served.wider_topk:
        topks |= {k + d for k in range(0, widest + 1, 64) for d in (-1, 0, 1) if 1 <= k + d <= widest}
    for tp in served.ranks:
        for topk in sorted(topks):
            for tokens in range(1, served.max_tokens + 1):
                yield tokens, tp, topk


def differences(root: Path, family: str, widest: int) -> Iterator[tuple[str, int]]:
    """(disagreement or "", regions compared) of each subject."""
    plan, other_dims = published(root, family)
    served = FAMILIES[family]
    for tokens, tp, topk in subjects(family, widest):
        ours = Dims(served, tp, topk)
        theirs = other_dims(tp, topk) if served.wider_topk else other_dims(tp)
        where = f"{family} tokens {tokens} tp {tp} topk {topk}"
        pairs = {
            "front": (front_scratch(tokens, ours), plan.front_scratch(tokens, theirs)),
            "front_end": (front_end(tokens, ours), plan.front_end(tokens, theirs)),
        }
        start = front_end(tokens, ours)
        pairs["back"] = back_scratch(tokens, ours, start), plan.back_scratch(tokens, theirs, start)
        pairs["back from 0"] = back_scratch(tokens, ours), plan.back_scratch(tokens, theirs)
        if hasattr(plan, "scratch_bytes"):
            pairs["total"] = ScratchPlan(ours, tokens).total_bytes, plan.scratch_bytes(tokens, theirs)
        if hasattr(plan, "GFX942"):
            # On one architecture the published plan takes chunks of 64 whatever the counts.
            plan.GFX942 = True
            narrow = ScratchPlan(ours, tokens, 64)
            pairs["back in 64s"] = dict(narrow.back), plan.back_scratch(tokens, theirs, start)
            pairs["total in 64s"] = narrow.total_bytes, plan.scratch_bytes(tokens, theirs)
            plan.GFX942 = False
        for name in ("heads", "head_tiles", "groups", "q_rows", "o_rows", "woa_tasks", "keys"):
            if hasattr(theirs, name):
                pairs[name] = getattr(ours, name), getattr(theirs, name)
        count = sum(len(a) if isinstance(a, dict) else 1 for a, _ in pairs.values())
        wrong = [
            f"{where}: {name} is {a}, published {b}"
            for name, (a, b) in pairs.items()
            if (list(a.items()) != list(b.items()) if isinstance(a, dict) else a != b)
        ]
        yield "; ".join(wrong), count


def main() -> int:
    """Compare every family; 0 if all agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="folder that holds vllm/models")
    parser.add_argument("--widest", type=int, default=8192, help="widest top-k of an HCA layer")
    arguments = parser.parse_args()
    status = 0
    for family in FAMILIES:
        found = list(differences(arguments.path, family, arguments.widest))
        wrong = [text for text, _ in found if text]
        values = sum(count for _, count in found)
        print(f"{family}: {len(found)} plans, {values} values compared, {len(wrong)} plans disagree")
        for text in wrong[:10]:
            print(f"  {text}")
        status |= bool(wrong) or not found
    return status


if __name__ == "__main__":
    sys.exit(main())
