"""Meaning of every operation that addresses, masks and branches are made of, at given lane coordinates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kvproof.harness.ir.reader import Operation, Type, Value
from kvproof.harness.prove.kernels import arithmetic
from kvproof.harness.prove.kernels.loops import loop_result
from kvproof.harness.prove.kernels.program import Coordinates, Program, ReadFact
from kvproof.harness.prove.kernels.shapes import SHAPES, choose
from kvproof.harness.prove.kernels.values import Choice, Demand, DemandKind, Pointer, Unmodelled
from kvproof.harness.solve.term import (
    BOOL,
    INT,
    TRUE,
    Term,
    add,
    and_,
    boolean,
    eq,
    integer,
    ite,
    le,
    mod,
    mul,
    neg,
    not_,
    or_,
    scale,
    sub,
)

ZERO = integer(0)
Meaning = Callable[[Program, Operation, Coordinates], "Term | Pointer"]

MANTISSA = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
"""Bits of integers that a float format holds exactly."""

LARGEST = {"f16": 65504}
"""The largest number of a format whose range does not cover all integers that could be addresses."""


def meaning(program: Program, operation: Operation, place: int, at: Coordinates) -> Term | Pointer:
    """The result at ``place`` of an operation, at lane coordinates.

    Raises:
        Unmodelled: the operation has no meaning here.
    """
    if operation.name in {"scf.for", "scf.while"}:
        return loop_result(program, operation, place, at)
    if operation.name == "scf.if":
        return _if_result(program, operation, place, at)
    if operation.name == "tt.split":
        return program.value(operation.operands[0], (*at, integer(place)))
    found = _MEANINGS.get(operation.name)
    if found is None or not operation.known:
        raise Unmodelled(operation.name, operation)
    if len(operation.results) > 1:
        return _opaque(program, operation, at, place)
    return found(program, operation, at)


def _if_result(program: Program, operation: Operation, place: int, at: Coordinates) -> Term | Pointer:
    condition = program.term(operation.operands[0])
    sides: list[Term | Pointer] = []
    for region, guard in zip(operation.regions, (condition, not_(condition)), strict=True):
        sides.append(program.value(region.block.operations[-1].operands[place], at, guard))
    return choose(condition, sides[0], sides[1], operation)


# ---- numbers --------------------------------------------------------------------


def _integral(text: str, operation: Operation) -> int:
    if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)", text):
        return int(text, 0)
    number = float(text)
    if not number.is_integer():
        raise Unmodelled(f"the constant {text}", operation)
    return int(number)


def _constant(_program: Program, operation: Operation, _at: Coordinates) -> Term:
    text = str(operation.attributes["value"]).strip()
    type_ = operation.result.type
    if text in {"true", "false"}:
        return boolean(text == "true")
    if type_.is_float and text.startswith("0x"):
        raise Unmodelled(f"the constant {text}", operation)
    try:
        number = _integral(text, operation)
    except ValueError:
        raise Unmodelled(f"the constant {text}", operation) from None
    if type_.element == "i1":
        return arithmetic.constant_bit(number)
    return integer(number)


def _binary(program: Program, operation: Operation, at: Coordinates) -> Term:
    left, right = operation.operands
    a = program.term(left, at)
    # A false condition decides an `and`, whatever the other side holds; a true one an `or`.
    guard = TRUE
    if a.sort == BOOL and operation.name == "arith.andi":
        guard = a
    if a.sort == BOOL and operation.name == "arith.ori":
        guard = not_(a)
    if a.sort == BOOL and operation.name not in {"arith.andi", "arith.ori", "arith.xori"}:
        raise Unmodelled(f"{operation.name} of conditions", operation)
    b = program.term(right, at, guard)
    return arithmetic.BINARY[operation.name](a, b, left.type.width, operation, program)


def _compare(program: Program, operation: Operation, at: Coordinates) -> Term:
    left, right = operation.operands
    a, b = program.term(left, at), program.term(right, at)
    return arithmetic.compare(operation.words[0], a, b, left.type.width, program)


def _compare_floats(program: Program, operation: Operation, at: Coordinates) -> Term:
    a, b = (program.term(o, at) for o in operation.operands)
    predicate = operation.words[0][1:]
    signed = predicate if predicate in {"eq", "ne"} else f"s{predicate}"
    return arithmetic.compare(signed, a, b, 64, program)


def _select(program: Program, operation: Operation, at: Coordinates) -> Term | Pointer:
    condition, then, otherwise = operation.operands
    chosen = program.term(condition, at if condition.type.shape else ())
    return choose(chosen, program.value(then, at, chosen), program.value(otherwise, at, not_(chosen)), operation)


def _absolute(program: Program, operation: Operation, at: Coordinates) -> Term:
    a = program.term(operation.operands[0], at)
    return arithmetic.fit(ite(le(ZERO, a), a, neg(a)), operation.result.type.width, operation, program)


# ---- conversions -------------------------------------------------------------------


def _extend(program: Program, operation: Operation, at: Coordinates) -> Term:
    source = operation.operands[0].type
    signed = operation.name in {"arith.extsi", "arith.index_cast"}
    a = program.term(operation.operands[0], at)
    if a.sort == BOOL:
        return arithmetic.bit_as_int(a, signed=signed)
    if operation.result.type.width < source.width:
        return arithmetic.fit(a, operation.result.type.width, operation, program)
    return a if signed else arithmetic.as_unsigned(a, source.width, program)


def _truncate(program: Program, operation: Operation, at: Coordinates) -> Term:
    a = program.term(operation.operands[0], at)
    element = operation.result.type.element
    if element == "i1":
        return le(integer(1), mod(a, integer(2)))
    return arithmetic.fit(a, operation.result.type.width, operation, program)


def _to_float(program: Program, operation: Operation, at: Coordinates) -> Term:
    a = program.term(operation.operands[0], at)
    if a.sort == BOOL:
        return arithmetic.bit_as_int(a, signed=operation.name == "arith.sitofp")
    if operation.name == "arith.uitofp":
        a = arithmetic.as_unsigned(a, operation.operands[0].type.width, program)
    return _exact(program, operation, a)


def _exact(program: Program, operation: Operation, a: Term) -> Term:
    bits = MANTISSA.get(operation.result.type.element)
    if bits is None:
        raise Unmodelled(f"an index in {operation.result.type.element}", operation)
    limit = 2**bits
    if not program.scope.intervals.within(a, -limit, limit):
        # Beyond, the numbers that the format has lie 2, 4, ... apart.
        holds = or_(
            *(
                and_(
                    le(integer(-limit << step), a),
                    le(a, integer(limit << step)),
                    eq(mod(a, integer(1 << step)), ZERO),
                )
                for step in range(12)
            )
        )
        most = LARGEST.get(operation.result.type.element)
        if most is not None:
            holds = and_(holds, le(integer(-most), a), le(a, integer(most)))
        program.demand(Demand(DemandKind.EXACT, holds, operation, a))
    return a


def _float_arithmetic(program: Program, operation: Operation, at: Coordinates) -> Term:
    combine = {"arith.addf": add, "arith.subf": sub, "arith.mulf": mul}[operation.name]
    return _exact(program, operation, combine(*(program.term(o, at) for o in operation.operands)))


def _float_pick(program: Program, operation: Operation, at: Coordinates) -> Term:
    a, b = (program.term(o, at) for o in operation.operands)
    return (arithmetic.smaller if "min" in operation.name else arithmetic.larger)(a, b, program)


def _float_same(program: Program, operation: Operation, at: Coordinates) -> Term:
    return _exact(program, operation, program.term(operation.operands[0], at))


def _to_int(program: Program, operation: Operation, at: Coordinates) -> Term:
    a = program.term(operation.operands[0], at)
    unsigned, width = operation.name.endswith("ui"), operation.result.type.width
    found = arithmetic.fit(a, width, operation, program, unsigned=unsigned)
    return arithmetic.as_signed(found, width, program) if unsigned else found


def _bitcast(program: Program, operation: Operation, at: Coordinates) -> Term | Pointer:
    source, target = operation.operands[0].type, operation.result.type
    found = program.value(operation.operands[0], at)
    if isinstance(found, Pointer):
        return _repointed(found, target.pointee_bytes)
    if source.is_int and target.is_int and source.width == target.width and source.width > 1:
        return found
    raise Unmodelled(f"a bitcast from {source.element} to {target.element}", operation)


def _repointed(pointer: Pointer, unit: int) -> Pointer:
    """The pointer counted in steps of this many bytes; in its own smaller ones if the element is wider."""
    if isinstance(pointer, Choice):
        return pointer.each(lambda one: _repointed(one, unit))
    if unit < pointer.unit:
        return Pointer(pointer.argument, scale(pointer.unit // unit, pointer.offset), unit)
    return pointer


# ---- programs and memory --------------------------------------------------------------

_AXES = {"x": 0, "y": 1, "z": 2}


def _program_id(program: Program, operation: Operation, _at: Coordinates) -> Term:
    return program.ids[_AXES[operation.words[0]]]


def _num_programs(program: Program, operation: Operation, _at: Coordinates) -> Term:
    return program.scope.grid[_AXES[operation.words[0]]]


def _add_pointer(program: Program, operation: Operation, at: Coordinates) -> Pointer:
    pointer, offset = operation.operands
    base = program.pointer(pointer, at)
    unit = operation.result.type.pointee_bytes
    base = _repointed(base, unit)
    # No demand: sums of addresses are exact modulo 2**64, and the offset is shown to lie in its tensor.
    step = scale(unit // base.unit, program.term(offset, at))
    return _advanced(base, step)


def _advanced(pointer: Pointer, step: Term) -> Pointer:
    if isinstance(pointer, Choice):
        return pointer.each(lambda one: _advanced(one, step))
    return Pointer(pointer.argument, add(pointer.offset, step), pointer.unit)


def _load(program: Program, operation: Operation, at: Coordinates) -> Term:
    pointer, *rest = operation.operands
    if not pointer.type.is_pointer:
        raise Unmodelled("a load through a block pointer or descriptor", operation)
    mask = program.term(rest[0], at) if rest else TRUE
    path = program.paths.get(id(operation))
    # Looked at ahead of its place, nothing says yet whether the load is made.
    made = None if path is None else and_(*path, mask)
    loaded = program.scope.memory.load(program, program.pointer(pointer, at, mask), operation, made)
    if mask is TRUE:
        return loaded
    # Without a default the value is undefined where the mask is off.
    other = _opaque(program, operation, at) if len(rest) < 2 else program.term(rest[1], at, not_(mask))
    return ite(mask, loaded, other)


def _opaque(program: Program, operation: Operation, at: Coordinates, place: int = 0) -> Term:
    """A value of its type that nothing else is known of."""
    return opaque(program, operation.results[place], at)


def opaque(program: Program, value: Value, at: Coordinates, name: str = "") -> Term:
    """Some value of the given value's type; the same one wherever the program asks at the same place."""
    type_: Type = value.type
    if not type_.is_int:
        raise Unmodelled(f"a value of type {type_.element}", None)
    if type_.element == "i1":
        return program.unknown(name or f"some {value.name}.{value.number}", at, 0, 1, sort=BOOL)
    half = 2 ** (type_.width - 1)
    return program.unknown(name or f"some {value.name}.{value.number}", at, -half, half - 1, sort=INT)


def _reduce(program: Program, operation: Operation, at: Coordinates) -> Term:
    value = operation.operands[0]
    total = opaque(program, operation.result, at)
    axis = int(operation.attributes["axis"])
    extent = value.type.shape[axis]
    block = operation.regions[0].block
    combine = block.operations[0].name if len(block.operations) == 2 else ""
    number = operation.result.number

    def member(name: str) -> Term:
        """The element at some lane of this reduction."""
        here = program.unknown(f"{name} lane of {value.name}.{number}", at, 0, extent - 1)
        return program.term(value, (*at[:axis], here, *at[axis:]))

    if value.type.element == "i1" or not value.type.is_int:
        return total
    if combine in {"arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui"}:
        # The result is one of the elements.
        return member("chosen")
    least, most = member("least"), member("greatest")
    (low, _), (_, high) = program.interval(least), program.interval(most)
    if combine == "arith.addi" and low is not None and high is not None:
        total = program.unknown(f"sum of {value.name}.{number}", at, low * extent, high * extent)
        # As many times the smallest element at least, as many times the largest at most.
        between = and_(le(scale(extent, least), total), le(total, scale(extent, most)))
        program.scope.facts.append(ReadFact(total, between))
        return arithmetic.fit(total, operation.result.type.width, operation, program)
    return total


_FLOAT_PICKS = ("arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf")
_FLOAT_SAME = (
    "arith.extf",
    "arith.truncf",
    "tt.fp_to_fp",
    "math.floor",
    "math.ceil",
    "math.trunc",
    "math.roundeven",
)

_MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(arithmetic.BINARY, _binary),
    **dict.fromkeys(("arith.extsi", "arith.extui", "arith.index_cast", "arith.index_castui"), _extend),
    **dict.fromkeys(("arith.sitofp", "arith.uitofp"), _to_float),
    **dict.fromkeys(("arith.fptosi", "arith.fptoui"), _to_int),
    **dict.fromkeys(("arith.addf", "arith.subf", "arith.mulf"), _float_arithmetic),
    **dict.fromkeys(_FLOAT_PICKS, _float_pick),
    **dict.fromkeys(_FLOAT_SAME, _float_same),
    **dict.fromkeys(("tt.bitcast", "arith.bitcast"), _bitcast),
    **dict.fromkeys(("tt.scan", "tt.atomic_rmw", "tt.atomic_cas", "tt.histogram", "tt.gather"), _opaque),
    "arith.constant": _constant,
    "arith.cmpi": _compare,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.trunci": _truncate,
    "math.absi": _absolute,
    "ub.poison": _opaque,
    **SHAPES,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.addptr": _add_pointer,
    "tt.load": _load,
    "tt.reduce": _reduce,
}
"""Operations by name; one that is missing makes what depends on it UNSUPPORTED."""
