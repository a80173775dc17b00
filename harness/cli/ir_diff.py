"""Comparing compiled kernels with those of another revision: which differ, and in which addresses."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.ir.compile import CompileError, compile_ttir
from kvproof.harness.ir.reader import read_module, structure_hash
from kvproof.harness.ir.target import Target
from kvproof.harness.mutate.patched import patched
from kvproof.harness.prove.kernels.ask import Asker
from kvproof.harness.prove.kernels.launch import Setting
from kvproof.harness.prove.kernels.probing import UnknownLaunch
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.prove.kernels.settings import cases_of, settings_of
from kvproof.harness.solve.term import show
from kvproof.harness.targets.revisions import unpack
from kvproof.kernels import launch
from kvproof.kernels.registry import Kernel
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.errors import LayoutError

ROOT = Path(__file__).resolve().parents[2]
SUBJECT = CONFIGS["v4-flash"]
PARTS = ("kernels",)
"""Taken from the other revision. models/ is today's: cases are made of its classes, which launchers look for."""


def differences(revision: str, kernels: Mapping[str, Kernel], target: Target) -> Iterator[tuple[str, list[str]]]:
    """Of each kernel what differs from the other revision: nothing, or a line for each difference.

    Raises:
        UsageError: no such revision, or not in a checkout.
    """
    with tempfile.TemporaryDirectory(prefix="kvproof-") as folder:
        sources = Path(folder)
        _export(revision, sources)
        # One set of cases for both: hypothesis draws otherwise once it has seen the other revision's modules.
        cases = {name: cases_of(kernel, SUBJECT) for name, kernel in kernels.items() if kernel.triton}
        here = {name: _facts(kernel, target, cases.get(name)) for name, kernel in kernels.items()}
        present = [name for name in kernels if (sources / "kernels" / name).is_dir()]
        with patched(PARTS, sources=sources) as module:
            for name, kernel in kernels.items():
                if name not in present:
                    yield name, [f"not in {revision}"]
                    continue
                try:
                    former = _facts(_former(kernel, module), target, cases.get(name))
                except Exception as problem:
                    # Another revision's code may fail in any way; a kernel that cannot be read there is no change.
                    former = f"{type(problem).__name__}: {problem}"
                yield name, _compared(former, here[name], revision)


def _former(kernel: Kernel, module: Callable[[str], ModuleType]) -> Kernel:
    """The kernel as the other revision has it."""
    # Its launchers have a module of their own that says where launches go; what catches ours catches theirs.
    vars(module("kernels.launch"))["_backend"] = vars(launch)["_backend"]
    alias = module(f"kernels.{kernel.name}").__name__.partition(".")[0]
    contract = module(f"kernels.{kernel.name}.contract").CONTRACT
    return replace(kernel, launcher=kernel.launcher.replace("kvproof.", f"{alias}.", 1), contract=contract)


def _export(revision: str, folder: Path) -> None:
    if revision.startswith("-"):
        raise UsageError(f"revision {revision!r} cannot be read: no revision begins with '-'")
    try:
        unpack(ROOT, revision, PARTS, folder)
    except LayoutError as error:
        raise UsageError(f"revision {revision!r} cannot be read: {error}") from None


Facts: TypeAlias = dict[str, list[str]] | str
"""Of each launched kernel its IR's hash, then the address and mask of each access; or why there is none."""


def _facts(kernel: Kernel, target: Target, cases: Sequence[Mapping[str, Any]] | None) -> Facts:
    try:
        settings = settings_of(kernel, SUBJECT, most=1, cases=cases)
    except UnknownLaunch as problem:
        return str(problem)
    found: dict[str, list[str]] = {}
    for setting in settings:
        for number, launched in enumerate(setting.launches):
            kernel_name = launched.kernel.__name__
            name = f"{kernel_name} ({number + 1})" if number else kernel_name
            found[name] = _launch_facts(setting, number, target)
    return found


def _launch_facts(setting: Setting, number: int, target: Target) -> list[str]:
    launched = setting.launches[number]
    try:
        module = read_module(compile_ttir(launched.kernel, launched.signature, target).text)
    except CompileError as error:
        return [str(error)]
    facts = [f"IR {structure_hash(module)}"]
    for access in Questions(setting, launched, module, Asker()).first.accesses:
        place = "?" if access.pointer is None else f"{access.pointer.argument}[{show(access.pointer.offset)}]"
        facts.append(f"{access.kind} {place} where {show(access.condition)}")
    return facts


def _compared(former: Facts, now: Facts, revision: str) -> list[str]:
    if former == now:
        return []
    if isinstance(former, str) or isinstance(now, str):
        unread = [(revision, former), ("the working tree", now)]
        return [f"cannot be compared, in {where}: {facts}" for where, facts in unread if isinstance(facts, str)]
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
