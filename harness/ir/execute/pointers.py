"""Where pointers come from: the arguments, and how far from an argument they may be."""

from __future__ import annotations

from math import gcd

from kvproof.harness.ir.execute.access import WIDTHS
from kvproof.harness.ir.reader import Module, Operation, Value


def sources_of(module: Module) -> dict[int, frozenset[int]]:
    """For each pointer value the arguments that it may come from; none where it cannot be told."""
    sources: dict[int, frozenset[int]] = {}
    for function in module.functions.values():
        for argument in function.arguments:
            if argument.type.is_pointer and function.public:
                sources[argument.number] = frozenset({argument.number})
        changed = True
        while changed:
            changed = False
            for operation in function.body.walk():
                for value, origins in _flow(operation):
                    found = frozenset[int]().union(*(sources.get(v.number, frozenset()) for v in origins))
                    if found - sources.get(value.number, frozenset()):
                        sources[value.number] = sources.get(value.number, frozenset()) | found
                        changed = True
    return sources


def grains_of(module: Module) -> dict[int, int]:
    """For each pointer value a number of bytes that its distance from its argument is a multiple of.

    It is the width of what the pointers on the way point to. A pointer to bytes that was moved and then made one
    to wider elements has a grain of 1: it may point between two elements. 0 is no distance at all.
    """
    grains: dict[int, int] = {}
    for function in module.functions.values():
        flows = [flow for operation in function.body.walk() for flow in _grained(operation)]
        given = {a.number for a in function.arguments if a.type.is_pointer and function.public}
        grains.update(dict.fromkeys(given, 0))
        # What no operation here makes of another pointer is from elsewhere, and may be anywhere.
        made = {value.number for value, _, _ in flows} | given
        unknown = {v.number for _, origins, _ in flows for v in origins} - made
        grains.update(dict.fromkeys(unknown, 1))
        changed = True
        while changed:
            changed = False
            for value, origins, step in flows:
                known = [grains[v.number] for v in origins if v.number in grains]
                if origins and not known:
                    continue
                before = grains.get(value.number)
                grain = gcd(step, before or 0, *known) if origins else 1
                if grain != before:
                    grains[value.number], changed = grain, True
    return grains


def _grained(operation: Operation) -> list[tuple[Value, tuple[Value, ...], int]]:
    """Pointers that an operation makes, of which others, and the bytes that it may move them by."""
    moves = operation.name == "tt.addptr"
    return [
        (value, tuple(v for v in origins if v.type.is_pointer), WIDTHS.get(value.type.pointee, 1) if moves else 0)
        for value, origins in _flow(operation)
    ]


def _flow(operation: Operation) -> list[tuple[Value, tuple[Value, ...]]]:
    """Pointers that an operation passes on: each with the values that it may come from."""
    found: list[tuple[Value, tuple[Value, ...]]] = []
    if operation.name in {"scf.if", "scf.for", "scf.while"}:
        ends = [region.block.operations[-1].operands for region in operation.regions]
        carried = operation.operands[3:] if operation.name == "scf.for" else operation.operands
        if operation.name == "scf.for":
            inner = operation.regions[0].block.arguments[1:]
            for result, argument, start, end in zip(operation.results, inner, carried, ends[0], strict=True):
                found += [(argument, (start, end)), (result, (start, end))]
        elif operation.name == "scf.if":
            for i, result in enumerate(operation.results):
                found.append((result, tuple(end[i] for end in ends)))
        else:
            before, after = (region.block.arguments for region in operation.regions)
            condition, yielded = ends[0][1:], ends[1]
            for argument, start, end in zip(before, carried, yielded, strict=True):
                found.append((argument, (start, end)))
            for argument, result, passed in zip(after, operation.results, condition, strict=True):
                found += [(argument, (passed,)), (result, (passed,))]
    elif operation.name in {"tt.load", "tt.call"}:
        return []
    else:
        found = [(result, operation.operands) for result in operation.results if result.type.is_pointer]
    return [(value, origins) for value, origins in found if value.type.is_pointer]
