"""Element offsets computed in 32 bits: products of run-time numbers that reach an address before they are widened.

A product that cannot leave 32 bits, as far as its operands' ranges say without any contract, is none of them: a
lane number times a constant, a remainder times a constant. Nor is one whose operands were widened first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvproof.harness.ir.reader import Block, Frame, Function, Module, Operation, Region, Value

Range = tuple[int, int]
INT32: Range = (-(2**31), 2**31 - 1)
INT64: Range = (-(2**63), 2**63 - 1)

THROUGH = frozenset(
    (
        *("arith.addi", "arith.subi", "arith.extsi", "arith.extui", "arith.select", "arith.minsi", "arith.maxsi"),
        *("arith.trunci", "arith.index_cast", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape"),
        *("tt.trans", "tt.bitcast", "tt.join", "tt.cat"),
    )
)
"""Operations through which a number reaches an address."""
ACCESSES = frozenset(("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"))


@dataclass(frozen=True)
class NarrowOffset:
    """One product in 32 bits that becomes an element offset.

    Attributes:
        kernel: function of the IR.
        places: where it is computed, callee first.
        access: "load", "store" or "atomic", of the first address that it reaches.
        argument: pointer argument that is addressed; empty if that cannot be told.
        factors: what is multiplied, in words.
    """

    kernel: str
    places: tuple[Frame, ...]
    access: str
    argument: str
    factors: str


def narrow_offsets(module: Module, arguments: Mapping[str, tuple[str, ...]] | None = None) -> list[NarrowOffset]:
    """Every product in 32 bits that may not fit them and that an address uses, one a place.

    Args:
        module: a compiled kernel.
        arguments: names of a function's arguments; by default those of the IR.
    """
    found: dict[tuple[object, ...], NarrowOffset] = {}
    for function in module.functions.values():
        analysis = _Analysis(function, (arguments or {}).get(function.name, ()))
        for operation in analysis.operations:
            if operation.name in ACCESSES:
                for narrow in analysis.of_access(operation):
                    found.setdefault((narrow.kernel, narrow.places[:1] or narrow.factors), narrow)
    return list(found.values())


class _Analysis:
    def __init__(self, function: Function, names: tuple[str, ...]) -> None:
        self.function = function
        self.operations: list[Operation] = []
        self.made: dict[int, Operation] = {}
        self.passed: dict[int, list[Value]] = {}
        self._collect(function.body)
        self.arguments = {
            value.number: names[at] if at < len(names) else value.name
            for at, value in enumerate(function.arguments)
        }
        self._ranges: dict[int, Range] = {}

    def _collect(self, region: Region) -> None:
        for block in region.blocks:
            for operation in block.operations:
                self.operations.append(operation)
                for result in operation.results:
                    self.made[result.number] = operation
                for inner in operation.regions:
                    self._collect(inner)
                self._pass(operation, region)

    def _pass(self, operation: Operation, region: Region) -> None:
        """What a region's arguments and an operation's results are made of."""
        if operation.name == "scf.for" and operation.regions:
            body = operation.regions[0].blocks[0]
            for argument, start in zip(body.arguments[1:], operation.operands[3:], strict=False):
                self.passed.setdefault(argument.number, []).append(start)
        for inner in operation.regions:
            for block in inner.blocks:
                self._yielded(operation, block)
        for successor in operation.successors:
            target = region.blocks[successor.block] if isinstance(successor.block, int) else None
            if target is not None:
                for argument, value in zip(target.arguments, successor.operands, strict=False):
                    self.passed.setdefault(argument.number, []).append(value)

    def _yielded(self, operation: Operation, block: Block) -> None:
        last = block.operations[-1] if block.operations else None
        if last is None or last.name not in {"scf.yield", "scf.condition"}:
            return
        for result, value in zip(operation.results, last.operands, strict=False):
            self.passed.setdefault(result.number, []).append(value)
        if operation.name == "scf.for":
            for argument, value in zip(block.arguments[1:], last.operands, strict=False):
                self.passed.setdefault(argument.number, []).append(value)

    # ---- addresses ------------------------------------------------------------

    def of_access(self, operation: Operation) -> Iterator[NarrowOffset]:
        kind = {"tt.load": "load", "tt.store": "store"}.get(operation.name, "atomic")
        base, offsets = self._pointer(operation.operands[0], set())
        for offset in offsets:
            for product in self._products(offset, set()):
                factors = " * ".join(self._words(o, 0) for o in product.operands)
                yield NarrowOffset(self.function.name, product.location.frames, kind, base, factors)

    def _pointer(self, value: Value, seen: set[int]) -> tuple[str, list[Value]]:
        """(argument, offsets added to it)."""
        if value.number in seen:
            return "", []
        seen.add(value.number)
        if value.number in self.arguments:
            return self.arguments[value.number], []
        operation = self.made.get(value.number)
        sources = self.passed.get(value.number, [])
        if operation is not None and not sources:
            sources = list(operation.operands[:1])
        base, offsets = "", []
        for source in sources:
            found, more = self._pointer(source, seen)
            base, offsets = base or found, offsets + more
        if operation is not None and operation.name == "tt.addptr":
            offsets.append(operation.operands[1])
        return base, offsets

    def _products(self, value: Value, seen: set[int]) -> Iterator[Operation]:
        """Products in 32 bits that an offset is made of."""
        if value.number in seen:
            return
        seen.add(value.number)
        for source in self.passed.get(value.number, []):
            yield from self._products(source, seen)
        operation = self.made.get(value.number)
        if operation is None:
            return
        if operation.name in {"arith.muli", "arith.shli"}:
            if value.type.element == "i32" and not _fits(self._product_range(operation)):
                yield operation
                return
            # Below a wide product lies an index, such as a row; the offset is that product.
            if value.type.element == "i32":
                yield from (p for o in operation.operands for p in self._products(o, seen))
        elif operation.name in THROUGH:
            operands = operation.operands[1:] if operation.name == "arith.select" else operation.operands
            yield from (p for o in operands for p in self._products(o, seen))

    # ---- ranges ---------------------------------------------------------------

    def _product_range(self, operation: Operation) -> Range:
        left, right = (self._range(o) for o in operation.operands)
        if operation.name == "arith.shli":
            right = (1 << max(min(right[0], 64), 0), 1 << max(min(right[1], 64), 0))
        ends = [a * b for a in left for b in right]
        return min(ends), max(ends)

    def _range(self, value: Value) -> Range:
        known = self._ranges.get(value.number)
        if known is None:
            self._ranges[value.number] = _type_range(value)  # while a loop's own value is asked for
            known = self._ranges[value.number] = self._computed(value)
        return known

    def _computed(self, value: Value) -> Range:  # noqa: PLR0911  (one case an operation)
        whole = _type_range(value)
        operation = self.made.get(value.number)
        if operation is None or value.number in self.passed:
            return whole
        name, operands = operation.name, operation.operands
        if name == "arith.constant":
            return _constant(operation, whole)
        if name == "tt.make_range":
            return int(operation.attributes.get("start", 0)), int(operation.attributes.get("end", 2**31)) - 1
        if name in {"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "arith.extsi", "arith.index_cast"}:
            return self._range(operands[0])
        if name in {"arith.addi", "arith.subi"}:
            (a, b), (c, d) = self._range(operands[0]), self._range(operands[1])
            return _inside((a + c, b + d) if name == "arith.addi" else (a - d, b - c), whole)
        if name in {"arith.muli", "arith.shli"}:
            return _inside(self._product_range(operation), whole)
        if name == "arith.remsi":
            low, high = self._range(operands[1])
            most = max(abs(low), abs(high)) - 1
            return (0 if self._range(operands[0])[0] >= 0 else -most), most
        if name in {"tt.get_program_id", "tt.get_num_programs"}:
            return 0, whole[1]
        if name in {"arith.minsi", "arith.maxsi"}:
            pick = min if name == "arith.minsi" else max
            (a, b), (c, d) = self._range(operands[0]), self._range(operands[1])
            return pick(a, c), pick(b, d)
        return whole

    # ---- words ----------------------------------------------------------------

    def _words(self, value: Value, depth: int) -> str:  # noqa: PLR0911  (one case an operation)
        if value.number in self.arguments:
            return self.arguments[value.number]
        operation = self.made.get(value.number)
        if operation is None or depth > 6:
            return "a loop's value" if operation is None else "..."
        if operation.name == "arith.constant":
            low, high = _constant(operation, (0, -1))
            return str(low) if low == high else "a constant"
        if operation.name == "tt.get_program_id":
            return "program id"
        if operation.name == "tt.make_range":
            return "lane"
        if operation.name == "tt.load":
            return f"{self._pointer(operation.operands[0], set())[0] or 'memory'}[...]"
        if len(operation.operands) == 1:
            return self._words(operation.operands[0], depth + 1)
        sign = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.divsi": "/", "arith.remsi": "%"}
        if operation.name in sign:
            return (
                "(" + f" {sign[operation.name]} ".join(self._words(o, depth + 1) for o in operation.operands) + ")"
            )
        return operation.name.split(".")[-1]


def _type_range(value: Value) -> Range:
    return {"i1": (0, 1), "i8": (-128, 255), "i16": (-(2**15), 2**16 - 1), "i32": INT32}.get(
        value.type.element, INT64
    )


def _fits(found: Range) -> bool:
    return found[0] >= INT32[0] and found[1] <= INT32[1]


def _inside(found: Range, whole: Range) -> Range:
    return found if found[0] >= whole[0] and found[1] <= whole[1] else whole


def _constant(operation: Operation, whole: Range) -> Range:
    value = operation.attributes.get("value")
    if isinstance(value, bool):
        return int(value), int(value)
    if isinstance(value, int):
        return value, value
    if isinstance(value, str):
        digits = value.removeprefix("dense<").split(">")[0].strip()
        if digits.lstrip("-").isdigit():
            return int(digits), int(digits)
    return whole
