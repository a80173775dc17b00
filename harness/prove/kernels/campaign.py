"""Checking this project's kernels: settings, targets, results by kernel, each IR only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from kvproof.harness.ir.compile import CompileError, compile_ttir
from kvproof.harness.ir.reader import Module, ReadError, read_module
from kvproof.harness.ir.target import Target
from kvproof.harness.prove.kernels.ask import Asker
from kvproof.harness.prove.kernels.cache import Cache, kernel_key
from kvproof.harness.prove.kernels.check import Failure, check_modules
from kvproof.harness.prove.kernels.launch import Setting
from kvproof.harness.prove.kernels.probing import UnknownLaunch
from kvproof.harness.prove.kernels.properties import Property
from kvproof.harness.prove.kernels.rows import Row, row_of
from kvproof.harness.prove.kernels.settings import settings_of
from kvproof.kernels.registry import Kernel
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.reports.verdict import Status, Verdict

SETTINGS = 2
"""Specialisations of each kernel that are checked."""

OnFailure = Callable[[Kernel, Setting, Failure], None]
"""Told each failure with its counterexample, of those that were not taken from the cache."""


def check_kernels(
    kernels: Mapping[str, Kernel],
    targets: Sequence[Target],
    subject: ModelConfig | None,
    cache: Cache | None,
    on_failure: OnFailure | None = None,
) -> Iterator[Row]:
    """Check kernels, one after the other.

    Args:
        kernels: by name.
        targets: GPUs to compile for.
        subject: configuration whose layout the cases have.
        cache: earlier results; None checks everything anew and keeps nothing.
        on_failure: told what fails.
    """
    for kernel in kernels.values():
        yield from check_one(kernel, targets, subject, cache, on_failure)


def check_one(
    kernel: Kernel,
    targets: Sequence[Target],
    subject: ModelConfig | None,
    cache: Cache | None = None,
    on_failure: OnFailure | None = None,
) -> list[Row]:
    """Check one kernel for every target. Targets whose IR is the same share one check."""
    try:
        settings = settings_of(kernel, subject, most=SETTINGS)
    except UnknownLaunch as problem:
        status = Status.UNSUPPORTED if kernel.triton else Status.NOT_RUN
        return [
            _without(kernel, target, name, Verdict(status, str(problem)))
            for target in targets
            for name in Property
        ]
    rows: list[Row] = []
    # One memory for all: compilers for two GPUs move operations about, and what is asked is mostly the same.
    asker = Asker()
    for setting in settings:
        known: dict[str, list[Row]] = {}
        for target in targets:
            rows += _checked(kernel, setting, target, asker, cache, known, on_failure)
    return rows


def _checked(
    kernel: Kernel,
    setting: Setting,
    target: Target,
    asker: Asker,
    cache: Cache | None,
    known: dict[str, list[Row]],
    on_failure: OnFailure | None,
) -> list[Row]:
    try:
        modules = [_read(compile_ttir(la.kernel, la.signature, target).text) for la in setting.launches]
    except (CompileError, ReadError) as error:
        verdict = Verdict(Status.UNSUPPORTED, str(error))
        return [_without(kernel, target, name, verdict) for name in Property]
    key = kernel_key(setting, modules, kernel.name)
    rows = known.get(key)
    if rows is None and cache is not None:
        rows = cache.get(key)
    if rows is None:
        rows = _ask(kernel, setting, target, asker, modules, on_failure)
        if cache is not None:
            cache.put(key, rows)
    known[key] = rows
    return [replace(row, target=str(target)) for row in rows]


@lru_cache(maxsize=8)
def _read(text: str) -> Module:
    """The form of an IR text; nothing changes it. Compilers for two GPUs often write the same."""
    return read_module(text)


def _ask(
    kernel: Kernel,
    setting: Setting,
    target: Target,
    asker: Asker,
    modules: Sequence[Module],
    on_failure: OnFailure | None,
) -> list[Row]:
    compiled = list(zip(setting.launches, modules, strict=True))
    results = check_modules(setting, compiled, asker)
    fixed = ", ".join(f"{n} = {v}" for n, v in setting.fixed.items())
    for result in results:
        for failure in result.failures:
            if on_failure is not None:
                on_failure(kernel, setting, failure)
    return [row_of(kernel.name, str(target), fixed, result) for result in results]


def _without(kernel: Kernel, target: Target, name: Property, verdict: Verdict) -> Row:
    return Row(kernel.name, str(target), str(name), str(verdict.status), verdict.reason, (), (), 0, 0.0, (), "")
