"""A module's text without names and places: equal for kernels that compute the same in the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from kvproof.harness.ir.reader.form import Block, Function, Module, Region, Value


def structure(module: Module) -> str:
    """One line an operation, values by number; no source places, no names that only help a reader."""
    return "\n".join(line for function in module.functions.values() for line in _function(function))


def structure_hash(module: Module) -> str:
    """Sixteen hex digits of a hash over :func:`structure`."""
    return hashlib.sha256(structure(module).encode()).hexdigest()[:16]


class _Numbers:
    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def __getitem__(self, value: Value) -> int:
        return self._known.setdefault(value.number, len(self._known))


def _function(function: Function) -> Iterator[str]:
    numbers = _Numbers()
    arguments = ", ".join(f"{numbers[a]}: {a.type}" for a in function.arguments)
    yield f"func {function.name}({arguments})"
    yield from _region(function.body, numbers, 1)


def _region(region: Region, numbers: _Numbers, depth: int) -> Iterator[str]:
    for at, block in enumerate(region.blocks):
        yield from _block(block, at, numbers, depth)


def _block(block: Block, at: int, numbers: _Numbers, depth: int) -> Iterator[str]:
    indent = "  " * depth
    arguments = ", ".join(f"{numbers[a]}: {a.type}" for a in block.arguments)
    yield f"{indent}block {at}({arguments})"
    for operation in block.operations:
        operands = " ".join(str(numbers[o]) for o in operation.operands)
        attributes = " ".join(f"{k}={v}" for k, v in sorted(operation.attributes.items()))
        passed = [(s.block, " ".join(str(numbers[o]) for o in s.operands)) for s in operation.successors]
        ways = " ".join(f"->{block}({values})" for block, values in passed)
        results = ", ".join(f"{numbers[r]}: {r.type}" for r in operation.results)
        yield f"{indent}  {results} = {operation.name} {operands} {attributes} {ways}".rstrip()
        for region in operation.regions:
            yield from _region(region, numbers, depth + 2)
