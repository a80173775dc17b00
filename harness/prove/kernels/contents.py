"""What the memory of a launch holds: the contract's tensors as functions, everything else unknown."""

from __future__ import annotations

from collections.abc import Mapping

from kvproof.harness.ir.reader import Operation
from kvproof.harness.prove.kernels.arguments import DTYPE_RANGES
from kvproof.harness.prove.kernels.arithmetic import as_signed
from kvproof.harness.prove.kernels.program import Program, ReadFact
from kvproof.harness.prove.kernels.values import Pointer, Unmodelled
from kvproof.harness.prove.kernels.views import View
from kvproof.harness.solve.term import Term, add, apply, not_, or_


class Contents:
    """The tensors of a launch.

    Args:
        views: by pointer argument.
        written: tensors that the kernel stores to: what a load finds there may be its own.
        ways: of loads by operation, which way of writing the coordinates is shown to be in range, where it is
            not the first; -1 if none is, since rows are counted across their ends.
    """

    def __init__(self, views: Mapping[str, View], written: frozenset[str], ways: Mapping[int, int]) -> None:
        self._views = views
        self._written = written
        self._ways = ways

    def load(self, program: Program, pointer: Pointer, operation: Operation, made: Term | None) -> Term:
        """The element before the launch, or some value of its type."""
        view = self._views.get(pointer.argument)
        if view is None:
            raise Unmodelled(f"a load from {pointer.argument}, which is no tensor", operation)
        width = operation.result.type.width
        if not operation.result.type.is_int:
            raise Unmodelled(f"a {operation.result.type.element} from memory", operation)
        half = 2 ** (width - 1)
        other = pointer.unit != view.item or max(width, 8) != 8 * view.item
        if view.tensor in self._written or view.dtype not in DTYPE_RANGES or other:
            name = f"{view.tensor} at {operation.result.number}"
            return program.unknown(name, [pointer.offset], -half, half - 1)
        way = self._ways.get(id(operation), 0)
        if view.same and way >= 0:
            coordinates = view.coordinates(pointer.offset, program.scope.intervals)[way]
            element = apply(view.tensor, coordinates)
            if made is not None:
                program.scope.facts.append(ReadFact(element, or_(not_(made), view.inside(coordinates))))
        else:
            # Another view of the tensor: its elements in order of memory.
            element = apply(f"{view.tensor} in memory", [add(view.start, pointer.offset)])
            program.scope.function_ranges[element.payload] = DTYPE_RANGES[view.dtype]
        return as_signed(element, width, program) if view.dtype == "uint8" else element
