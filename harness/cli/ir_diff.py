"""Comparing compiled kernels with those of another revision: which differ, and in which addresses."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.ir.compile import CompileError, compile_ttir
from kvproof.harness.ir.reader import read_module, structure_hash
from kvproof.harness.ir.target import Target
from kvproof.harness.mutate.patched import patched
from kvproof.harness.prove.kernels.ask import Asker
from kvproof.harness.prove.kernels.launch import Setting
from kvproof.harness.prove.kernels.probing import UnknownLaunch
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.prove.kernels.settings import settings_of
from kvproof.harness.solve.term import show
from kvproof.harness.targets.revisions import unpack
from kvproof.kernels.registry import Kernel
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.errors import LayoutError

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("kernels", "models")


def differences(revision: str, kernels: Mapping[str, Kernel], target: Target) -> Iterator[tuple[str, list[str]]]:
    """Of each kernel what differs from the other revision: nothing, or a line for each difference.

    Raises:
        UsageError: no such revision, or not in a checkout.
    """
    with tempfile.TemporaryDirectory(prefix="kvproof-") as folder:
        sources = Path(folder)
        _export(revision, sources)
        here = {name: _facts(kernel, target) for name, kernel in kernels.items()}
        present = [name for name in kernels if (sources / "kernels" / name).is_dir()]
        with patched(PARTS, sources=sources) as module:
            for name, kernel in kernels.items():
                if name not in present:
                    yield name, [f"not in {revision}"]
                    continue
                module(f"kernels.{name}")
                alias = module(f"kernels.{name}").__name__.partition(".")[0]
                launcher = kernel.launcher.replace("kvproof.", f"{alias}.", 1)
                contract = importlib.import_module(f"{alias}.kernels.{name}.contract").CONTRACT
                former = replace(kernel, launcher=launcher, contract=contract)
                yield name, _compared(_facts(former, target), here[name])


def _export(revision: str, folder: Path) -> None:
    if revision.startswith("-"):
        raise UsageError(f"revision {revision!r} cannot be read: no revision begins with '-'")
    try:
        unpack(ROOT, revision, PARTS, folder)
    except LayoutError as error:
        raise UsageError(f"revision {revision!r} cannot be read: {error}") from None


def _facts(kernel: Kernel, target: Target) -> dict[str, list[str]]:
    """Of each launched kernel its IR's hash, then the address and mask of each access."""
    try:
        settings = settings_of(kernel, CONFIGS["v4-flash"], most=1)
    except UnknownLaunch as problem:
        return {"launch": [str(problem)]}
    found: dict[str, list[str]] = {}
    for setting in settings:
        for number, launch in enumerate(setting.launches):
            name = f"{launch.kernel.__name__} ({number + 1})" if number else launch.kernel.__name__
            found[name] = _launch_facts(setting, number, target)
    return found


def _launch_facts(setting: Setting, number: int, target: Target) -> list[str]:
    launch = setting.launches[number]
    try:
        module = read_module(compile_ttir(launch.kernel, launch.signature, target).text)
    except CompileError as error:
        return [str(error)]
    facts = [f"IR {structure_hash(module)}"]
    for access in Questions(setting, launch, module, Asker()).first.accesses:
        place = "?" if access.pointer is None else f"{access.pointer.argument}[{show(access.pointer.offset)}]"
        facts.append(f"{access.kind} {place} where {show(access.condition)}")
    return facts


def _compared(former: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> list[str]:
    lines: list[str] = []
    for name in dict.fromkeys([*former, *now]):
        old, new = former.get(name), now.get(name)
        if old == new:
            continue
        if old is None or new is None:
            lines.append(f"{name}: {'new' if old is None else 'gone'}")
            continue
        lines.append(f"{name}: {old[0]} is now {new[0]}")
        lines += [f"  - {fact}" for fact in old[1:] if fact not in new]
        lines += [f"  + {fact}" for fact in new[1:] if fact not in old]
        if old[1:] == new[1:]:
            lines.append("  the addresses are the same")
    return lines
