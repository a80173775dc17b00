"""The memory accesses of one program: where, under what conditions, at which lane, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kvproof.harness.ir.reader import Block, Operation, Region, Value
from kvproof.harness.prove.kernels import loops
from kvproof.harness.prove.kernels.program import Coordinates, Program
from kvproof.harness.prove.kernels.values import Choice, Demand, Key, Pointer, Unmodelled, ways
from kvproof.harness.solve.term import FALSE, TRUE, Term, and_, integer, ite, le, lt, not_, or_

LOADS = ("tt.load",)
STORES = ("tt.store",)
ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")


@dataclass(frozen=True)
class Access:
    """One load, store or atomic of one lane of one program.

    Attributes:
        operation: the operation.
        kind: "load", "store" or "atomic".
        pointer: where; None if that is outside the model.
        mask: whether this lane takes part.
        path: conditions of the branches and loops around it.
        lanes: the lane's coordinates.
        iterations: the iterations of the loops around it.
        width: bytes of an element.
        keys: the values that address and mask rest on, each with the guard under which they do.
        value: what is stored, if that is an integer that is modelled.
        problem: why it is outside the model, if it is.
    """

    operation: Operation
    kind: str
    pointer: Pointer | None
    mask: Term
    path: tuple[Term, ...]
    lanes: Coordinates
    iterations: tuple[Term, ...]
    width: int
    keys: tuple[tuple[Key, Term], ...]
    value: Term | None = None
    problem: str = ""

    @property
    def condition(self) -> Term:
        """Whether the access is made."""
        return and_(*self.path, self.mask)


@dataclass
class Collected:
    """What one program does.

    Attributes:
        program: the program.
        accesses: every access, in order.
        branches: conditions of branches with the path to them; their demands hold for all programs.
        problems: what cannot be followed, such as a branch on a value outside the model.
        bounds: up to where it was followed.
    """

    program: Program
    accesses: list[Access] = field(default_factory=list[Access])
    branches: list[tuple[Key, Term, Operation]] = field(default_factory=list[tuple[Key, Term, Operation]])
    problems: list[str] = field(default_factory=list[str])
    bounds: list[str] = field(default_factory=list[str])

    def demands(self, access: Access, *, address_only: bool = False) -> list[tuple[Demand, Term]]:
        """What an access's address and mask (or its address alone) demand, each with its guard."""
        found: dict[tuple[Demand, Term], None] = {}
        for key, guard in access.keys[: 1 if address_only else None]:
            for demand, under in self.program.demands(key, guard):
                found[demand, under] = None
        return list(found)


def collect(program: Program) -> Collected:
    """Follow a program through its branches and loops."""
    collected = Collected(program)
    _region(collected, program.scope.function.body, ())
    return collected


def _region(collected: Collected, region: Region, path: tuple[Term, ...]) -> None:
    blocks = region.blocks
    if len(blocks) == 1:
        _block(collected, blocks[0], path)
        return
    entered: list[Term] = [TRUE] + [FALSE] * (len(blocks) - 1)
    given: list[list[tuple[Term, Sequence[Value]]]] = [[] for _ in blocks]
    for at in _order(blocks):
        block = blocks[at]
        if at:
            _give(collected.program, block, given[at])
        here = (*path, *((entered[at],) if entered[at] is not TRUE else ()))
        if entered[at] is FALSE:
            continue
        _block(collected, block, here)
        last = block.operations[-1]
        for way, successor in zip(_ways(collected, last, here), last.successors, strict=True):
            taken = and_(entered[at], way)
            entered[successor.block] = or_(entered[successor.block], taken)
            given[successor.block].append((taken, successor.operands))


def _order(blocks: Sequence[Block]) -> list[int]:
    """Blocks so that each comes after those that branch to it.

    Raises:
        Unmodelled: a loop of branches.
    """
    order: list[int] = []
    state = [0] * len(blocks)

    def visit(at: int) -> None:
        if state[at] == 1:
            raise Unmodelled("a loop of branches", blocks[at].operations[-1])
        if state[at] == 0:
            state[at] = 1
            for successor in blocks[at].operations[-1].successors:
                visit(successor.block)
            state[at] = 2
            order.insert(0, at)

    visit(0)
    return order


def _ways(collected: Collected, last: Operation, path: tuple[Term, ...]) -> list[Term]:
    if last.name != "cf.cond_br":
        return [TRUE] * len(last.successors)
    condition = _condition(collected, last.operands[0], last, path)
    return [condition, not_(condition)]


def _condition(collected: Collected, value: Value, operation: Operation, path: tuple[Term, ...]) -> Term:
    """The term of a branch's condition; some condition if it is outside the model."""
    program = collected.program
    try:
        condition = program.term(value)
        collected.branches.append((program.key(value), and_(*path), operation))
    except Unmodelled as problem:
        # Either way may be taken: what is shown then holds for both.
        collected.problems.append(f"a branch on {problem}")
        name = f"some {value.name}.{value.number}"
        condition = program.unknown(name, (), 0, 1, sort="Bool")
        program.give(value, lambda _at: condition)
    return condition


def _give(program: Program, block: Block, ways: list[tuple[Term, Sequence[Value]]]) -> None:
    for place, argument in enumerate(block.arguments):

        def given(at: Coordinates, place: int = place) -> Term | Pointer:
            *others, (_, last) = ways
            found = program.value(last[place], at)
            for taken, operands in reversed(others):
                other = program.value(operands[place], at, taken)
                if isinstance(found, Pointer) or isinstance(other, Pointer):
                    raise Unmodelled("a pointer that depends on a branch")
                found = ite(taken, other, found)
            return found

        program.give(argument, given)


def _block(collected: Collected, block: Block, path: tuple[Term, ...]) -> None:
    for operation in block.operations:
        if operation.name in LOADS + STORES + ATOMICS:
            collected.accesses += _accesses(collected.program, operation, path)
        elif operation.name == "scf.if":
            condition = _condition(collected, operation.operands[0], operation, path)
            for region, way in zip(operation.regions, (condition, not_(condition)), strict=False):
                _region(collected, region, (*path, way))
        elif operation.name in {"scf.for", "scf.while"}:
            _loop(collected, operation, path)
        elif not _harmless(operation):
            collected.problems.append(f"{operation.name}, which may touch memory, at {operation.location}")


_NO_MEMORY = (
    "tt.return scf.yield scf.condition cf.br cf.cond_br tt.assert tt.print llvm.intr.assume tt.debug_barrier "
    "gpu.barrier ttg.barrier tt.reduce tt.scan tt.splat tt.unsplat tt.broadcast tt.expand_dims tt.reshape "
    "tt.trans tt.bitcast tt.ptr_to_int tt.int_to_ptr tt.fp_to_fp tt.dot tt.dot_scaled tt.join tt.cat tt.split "
    "tt.gather tt.histogram tt.clampf tt.precise_sqrt tt.precise_divf tt.mulhiui tt.get_program_id "
    "tt.get_num_programs tt.make_range tt.addptr tt.map_elementwise tt.make_tensor_ptr tt.advance "
    "tt.make_tensor_descriptor ub.poison"
)
"""Operations that read and write nothing. What a pointer or descriptor made by one of them touches, others do."""


def is_gap(problem: str) -> bool:
    """Whether a problem means that accesses were not seen; of a branch that is not understood both sides are."""
    return not problem.startswith("a branch on")


def _harmless(operation: Operation) -> bool:
    """Whether an operation certainly touches no memory; one that nobody has looked at may."""
    if operation.name in {"tt.extern_elementwise", "tt.elementwise_inline_asm"}:
        return operation.attributes.get("pure") is True
    return operation.name in _NO_MEMORY.split() or operation.name.startswith(("arith.", "math."))


def _loop(collected: Collected, operation: Operation, path: tuple[Term, ...]) -> None:
    program = collected.program
    if operation.name == "scf.while":
        _rounds(collected, operation, path)
        return
    try:
        iteration = loops.enter(program, operation)
    except Unmodelled as problem:
        collected.problems.append(f"a loop over {problem}")
        return
    for value in operation.operands[:3]:
        collected.branches.append((program.key(value), and_(*path), operation))
    _region(collected, operation.regions[0], (*path, *iteration.conditions))
    loops.leave(program, operation)


def _rounds(collected: Collected, operation: Operation, path: tuple[Term, ...]) -> None:
    """The first rounds of a loop whose number of rounds is not counted."""
    program = collected.program
    before, after = operation.regions
    outer, going = program.context, path
    for number in range(loops.ROUNDS):
        with program.round((*outer, number)):
            loops.enter_round(program, operation, outer, number)
            _region(collected, before, going)
            condition = _condition(collected, before.block.operations[-1].operands[0], operation, going)
            going = (*going, condition)
            _region(collected, after, going)
    collected.bounds.append(f"{loops.ROUNDS} rounds of the loop at {operation.location}")


def _accesses(program: Program, operation: Operation, path: tuple[Term, ...]) -> Iterator[Access]:
    """The access that an operation makes; where it chooses between tensors, one for each."""
    one = _access(program, operation, path)
    if not isinstance(one.pointer, Choice):
        yield one
        return
    (address, _), *others = one.keys
    for chosen, pointer in ways(one.pointer):
        mask = and_(one.mask, chosen)
        yield replace(one, pointer=pointer, mask=mask, keys=((address, mask), *others))


def _access(program: Program, operation: Operation, path: tuple[Term, ...]) -> Access:
    program.paths[id(operation)] = path
    kind = "load" if operation.name in LOADS else "store" if operation.name in STORES else "atomic"
    pointer, *rest = operation.operands
    lanes = tuple(
        program.scope.fresh(f"lane{pointer.number}_{axis}{program.suffix}", 0, extent - 1)
        for axis, extent in enumerate(pointer.type.shape)
    )
    if kind != "load":
        rest = rest[1:]
    masks = [v for v in rest if v.type.element == "i1"][:1] if operation.name != "tt.atomic_cas" else []
    iterations = tuple(program.loops)
    width = pointer.type.pointee_bytes if pointer.type.is_pointer else 0
    try:
        if not pointer.type.is_pointer:
            raise Unmodelled("an access through a block pointer or descriptor", operation)
        mask = program.term(masks[0], lanes if masks[0].type.shape else ()) if masks else TRUE
        place = program.pointer(pointer, lanes)
    except Unmodelled as problem:
        return Access(operation, kind, None, TRUE, path, lanes, iterations, width, (), None, str(problem))
    keys: list[tuple[Key, Term]] = [(program.key(pointer, lanes), mask)]
    if masks:
        keys.append((program.key(masks[0], lanes if masks[0].type.shape else ()), TRUE))
    value = None
    if kind == "store":
        stored = operation.operands[1]
        try:
            value = program.term(stored, lanes)
        except Unmodelled:
            value = None
    return Access(operation, kind, place, mask, path, lanes, iterations, width, tuple(keys), value)


def lane_bounds(access: Access) -> list[Term]:
    """Every lane coordinate lies within the operation's tensor."""
    bounds: list[Term] = []
    for lane, extent in zip(access.lanes, access.operation.operands[0].type.shape, strict=True):
        bounds += [le(integer(0), lane), lt(lane, integer(extent))]
    return bounds
