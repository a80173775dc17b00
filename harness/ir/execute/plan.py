"""From the SSA form to a plan: each operation becomes a function of the values, built once and run many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kvproof.harness.ir.execute.access import Accesses, Place
from kvproof.harness.ir.execute.memory import Memory, Segment
from kvproof.harness.ir.execute.pointers import grains_of, sources_of
from kvproof.harness.ir.execute.values import Array, UnsupportedOperation, every
from kvproof.harness.ir.reader import Block, Function, Location, Module, Operation, Region, Value


@dataclass(slots=True, eq=False)
class Frame:
    """A set of programs that run the same operations.

    Attributes:
        values: by value number; what this set has not computed or captured is None.
        known: the values that depend on constants alone, wherever they are defined.
        programs: linear ids of its programs.
        accesses: the memory they share.
        arguments: segment of each pointer argument, by value number.
        grid: programs along x, y, z.
        limit: iterations of one loop, before a kernel counts as endless.
        placed: by number of a load's result, what the load needs at addresses that depend on no memory.
    """

    values: list[Array | None]
    known: Sequence[Array | None]
    programs: Array
    accesses: Accesses
    arguments: dict[int, Segment]
    grid: tuple[int, int, int]
    limit: int
    placed: dict[int, tuple[Place, Array, Array | None]] = field(default_factory=dict)

    def at(self, value: Value) -> Array:
        """What a value holds."""
        found = self.values[value.number]
        assert found is not None  # SSA: defined before it is used
        return found

    def select(self, rows: Array, captured: Sequence[int]) -> Frame:
        """The programs in these rows, with the values that they will use."""
        values = list(self.known)
        for number in captured:
            value = self.values[number]
            if value is not None:
                values[number] = value if value.shape[0] == 1 else value[rows]
        return Frame(values, self.known, self.programs[rows], self.accesses, self.arguments, self.grid, self.limit)


Step = Callable[[list[Array | None], Frame], None]
"""Runs one operation: reads and writes the values, and memory through the frame."""

Results = tuple[Array, ...]
BlockEnd = Callable[[Frame], "Results | Jump"]


@dataclass(frozen=True, slots=True)
class Jump:
    """Where programs go at the end of a block: (rows or None for all, block, arguments)."""

    targets: tuple[tuple[Array | None, int, tuple[Value, ...]], ...]


@dataclass(slots=True, eq=False)
class BlockPlan:
    """A block: its argument numbers, steps and end."""

    arguments: tuple[int, ...]
    steps: list[Step]
    end: BlockEnd


@dataclass(slots=True, eq=False)
class RegionPlan:
    """A region.

    Attributes:
        blocks: its blocks; the first is entered.
        captured: numbers of the outer values that it uses.
        needs: for each block the numbers of the values that are used from there on.
    """

    blocks: list[BlockPlan]
    captured: tuple[int, ...]
    needs: tuple[tuple[int, ...], ...]

    def run(self, frame: Frame, arguments: Sequence[Array] = ()) -> Results:
        """Run the region of one block in this frame; returns what its last operation passes on."""
        block = self.blocks[0]
        values = frame.values
        for number, argument in zip(block.arguments, arguments, strict=True):
            values[number] = argument
        for step in block.steps:
            step(values, frame)
        if len(self.blocks) > 1:
            return _run_blocks(self, frame)
        passed = block.end(frame)
        assert isinstance(passed, tuple)  # one block has nowhere to jump
        return passed


def _run_blocks(region: RegionPlan, frame: Frame) -> Results:
    """Follow branches; the first block's steps have run. Programs that part stay apart to their return."""
    results: list[tuple[Array, Results]] = []
    everyone = np.arange(len(frame.programs))
    waiting: list[tuple[Frame, Array, int, tuple[Array, ...] | None]] = [(frame, everyone, 0, None)]
    left = frame.limit
    while waiting:
        here, rows, number, arguments = waiting.pop()
        block = region.blocks[number]
        if arguments is not None:
            for target, value in zip(block.arguments, arguments, strict=True):
                here.values[target] = value
            for step in block.steps:
                step(here.values, here)
        left -= 1
        if left < 0:
            raise EndlessError
        end = block.end(here)
        if not isinstance(end, Jump):
            results.append((rows, end))
            continue
        for subset, target, passed in end.targets:
            if subset is None:
                waiting.append((here, rows, target, tuple(here.at(v) for v in passed)))
            else:
                chosen = here.select(subset, (*region.needs[target], *(v.number for v in passed)))
                waiting.append((chosen, rows[subset], target, tuple(chosen.at(v) for v in passed)))
    return merge(results, len(everyone))


class EndlessError(RuntimeError):
    """A loop runs for more iterations than any kernel needs.

    Attributes:
        location: the loop.
    """

    def __init__(self, location: Location = Location()) -> None:  # noqa: B008  (immutable)
        super().__init__()
        self.location = location


def merge(parts: Sequence[tuple[Array, Results]], count: int) -> Results:
    """Results of sets of rows as results of all rows."""
    if len(parts) == 1:
        return parts[0][1]
    merged: list[Array] = []
    for columns in zip(*(results for _, results in parts), strict=True):
        lanes = np.broadcast_shapes(*(c.shape[1:] for c in columns))
        out = np.empty((count, *lanes), columns[0].dtype)
        for (rows, _), column in zip(parts, columns, strict=True):
            out[rows] = column
        merged.append(out)
    return tuple(merged)


Maker = Callable[[Operation, "Planner"], Step]

_NOWHERE = Frame([], (), np.zeros(1, np.int64), Accesses(Memory(), (1, 1, 1)), {}, (1, 1, 1), 0)
"""For computing constants, which need no programs and no memory."""


class Planner:
    """Builds the plan of one module.

    Args:
        module: the kernel.
        makers: what builds the step of each operation, by operation name.
        foldable: operations whose results depend on nothing but their operands.
        steady: operations whose results depend on nothing but their operands and the grid.

    Attributes:
        known: values that depend on constants alone, by value number.
        steady: numbers of the values that depend on the grid, scalars and pointers alone, not on memory.
        early: what computes those of them that are not known, in order.
        placed: numbers of the arguments that are loaded from at addresses that depend on no memory.
        entered: what is planned now is reached by all programs, without a branch.
        sources: arguments that a pointer may come from, by value number; see :func:`sources_of`.
        grains: bytes that a pointer's distance from its argument is a multiple of; see :func:`grains_of`.
    """

    def __init__(
        self, module: Module, makers: dict[str, Maker], foldable: frozenset[str], steady: frozenset[str]
    ) -> None:
        self.module = module
        self._foldable = foldable
        self._steady = steady
        self.steady: set[int] = set()
        self.early: list[Step] = []
        self.entered = False
        self.placed: set[int] = set()
        self._makers = makers
        self.known: dict[int, Array] = {}
        self.count = 1 + max((v.number for v in _all_values(module)), default=-1)
        self.sources = sources_of(module)
        self.grains = grains_of(module)

    def function(self, function: Function) -> RegionPlan:
        """The plan of a function's body.

        Raises:
            UnsupportedOperation: an operation without a maker, named with its place.
        """
        return self.region(function.body)

    def entry(self, function: Function) -> RegionPlan:
        """The plan of the kernel's own body, without the steps in ``early``, which run before it.

        Raises:
            UnsupportedOperation: an operation without a maker, named with its place.
        """
        self.steady.update(a.number for a in function.arguments)
        return self.region(function.body, entered=True)

    def region(self, region: Region, *, entered: bool = False) -> RegionPlan:
        """The plan of a region; one that is ``entered`` by all programs, first of all, leaves its early steps."""
        blocks: list[BlockPlan] = []
        for i, block in enumerate(region.blocks):
            *inner, last = block.operations
            steps: list[Step] = []
            for operation in inner:
                outer, self.entered = self.entered, entered and i == 0
                step = self._unless_known(operation)
                if step is not None:
                    (self.early if self.entered and self._is_steady(operation) else steps).append(step)
                self.entered = outer
            numbers = tuple(v.number for v in block.arguments)
            blocks.append(BlockPlan(numbers, steps, self._end(last)))
        return RegionPlan(blocks, captured(region), _needs(region))

    def _is_steady(self, operation: Operation) -> bool:
        """Whether its results depend on no memory; then they are counted to those."""
        if operation.name not in self._steady or not all(self.depends_on_launch(o) for o in operation.operands):
            return False
        self.steady.update(r.number for r in operation.results)
        return True

    def before(self, value: Value, compute: Callable[[Array], Array]) -> int | None:
        """Number of a value made of this one before the body runs; None if it depends on memory or a branch."""
        if not self.entered or not self.depends_on_launch(value):
            return None
        number, source = self.count, value.number
        self.count += 1
        if value.number in self.known:
            self.known[number] = compute(self.known[source])
            return number

        def step(values: list[Array | None], _frame: Frame) -> None:
            values[number] = compute(values[source])  # type: ignore[arg-type]  # SSA: defined

        self.early.append(step)
        self.steady.add(number)
        return number

    def depends_on_launch(self, value: Value) -> bool:
        """Whether a value depends on constants, the grid, scalars and pointers alone, and all programs have it."""
        return value.number in self.steady or value.number in self.known

    def _unless_known(self, operation: Operation) -> Step | None:
        """The step of an operation, or None if its result depends on constants alone and was computed now."""
        step = self.step(operation)
        pure = operation.name in self._foldable
        if not (pure and all(o.number in self.known for o in operation.operands)):
            return step
        values: list[Array | None] = [None] * self.count
        for operand in operation.operands:
            values[operand.number] = self.known[operand.number]
        with np.errstate(all="ignore"):
            step(values, _NOWHERE)
        for result in operation.results:
            value = values[result.number]
            assert value is not None  # the step set it
            self.known[result.number] = value
        return None

    def step(self, operation: Operation) -> Step:
        """The step of one operation."""
        maker = self._makers.get(operation.name)
        if maker is None or not operation.known:
            raise UnsupportedOperation(f"{operation.name} at {operation.location}")
        try:
            return maker(operation, self)
        except UnsupportedOperation as error:
            raise UnsupportedOperation(f"{error} at {operation.location}") from None

    def _end(self, operation: Operation) -> BlockEnd:
        operands, successors = operation.operands, operation.successors
        if operation.name == "cf.br":
            (target,) = successors
            jump = Jump(((None, target.block, target.operands),))
            return lambda _frame: jump
        if operation.name == "cf.cond_br":
            condition = operands[0]
            yes, no = successors

            def branch(frame: Frame) -> Jump:
                taken = frame.at(condition)
                if every(taken):
                    return Jump(((None, yes.block, yes.operands),))
                if not np.count_nonzero(taken):
                    return Jump(((None, no.block, no.operands),))
                # Last in, first out: the taken side runs first, as its block comes first.
                return Jump(
                    (
                        (np.flatnonzero(~taken), no.block, no.operands),
                        (np.flatnonzero(taken), yes.block, yes.operands),
                    )
                )

            return branch
        numbers = tuple(v.number for v in operands)

        def leave(frame: Frame) -> Results:
            values = frame.values
            return tuple(values[n] for n in numbers)  # type: ignore[misc]  # SSA: all are defined

        return leave


def _all_values(module: Module) -> list[Value]:
    found: list[Value] = []
    for function in module.functions.values():
        found += function.arguments
        for operation in function.body.walk():
            found += operation.results
            for region in operation.regions:
                for block in region.blocks:
                    found += block.arguments
        for block in function.body.blocks:
            found += block.arguments
    return found


def captured(region: Region) -> tuple[int, ...]:
    """Numbers of the values that a region uses and does not define, those of nested regions included."""
    used: set[int] = set()
    defined: set[int] = set()
    for block in region.blocks:
        block_uses, block_defines = _uses(block)
        used |= block_uses
        defined |= block_defines
    return tuple(sorted(used - defined))


def _uses(block: Block) -> tuple[set[int], set[int]]:
    """Numbers of the values that a block uses, and of those that it defines; nested regions included."""
    used: set[int] = set()
    defined = {v.number for v in block.arguments}
    for operation in block.operations:
        used |= {v.number for v in operation.operands}
        for successor in operation.successors:
            used |= {v.number for v in successor.operands}
        defined |= {v.number for v in operation.results}
        for region in operation.regions:
            used |= set(captured(region))
    return used, defined


def _needs(region: Region) -> tuple[tuple[int, ...], ...]:
    uses = [_uses(block)[0] for block in region.blocks]
    follows = [{s.block for o in block.operations for s in o.successors} for block in region.blocks]
    changed = True
    while changed:
        changed = False
        for at, after in enumerate(follows):
            wanted = uses[at].union(*(uses[block] for block in after))
            changed |= wanted != uses[at]
            uses[at] = wanted
    return tuple(tuple(sorted(used)) for used in uses)
