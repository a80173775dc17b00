"""Steps of the pointwise and shape operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvproof.harness.ir.execute import floats, integers
from kvproof.harness.ir.execute.access import poison
from kvproof.harness.ir.execute.formats import from_single, to_single
from kvproof.harness.ir.execute.plan import Frame, Maker, Planner, Step
from kvproof.harness.ir.execute.values import Array, UnsupportedOperation, carrier, constant, full, lanes
from kvproof.harness.ir.reader import Operation, element_width


def _unary(operation: Operation, compute: Callable[[Array], Array]) -> Step:
    a, r = operation.operands[0].number, operation.result.number

    def step(values: list[Array | None], _frame: Frame) -> None:
        values[r] = compute(values[a])  # type: ignore[arg-type]  # SSA: defined

    return step


def _binary(operation: Operation, compute: Callable[[Array, Array], Array]) -> Step:
    a, b = (o.number for o in operation.operands)
    r = operation.result.number

    def step(values: list[Array | None], _frame: Frame) -> None:
        values[r] = compute(values[a], values[b])  # type: ignore[arg-type]  # SSA: defined

    return step


def _constant_step(operation: Operation, value: Array) -> Step:
    r = operation.result.number

    def step(values: list[Array | None], _frame: Frame) -> None:
        values[r] = value

    return step


# ---- arithmetic ---------------------------------------------------------------


def _integer(operation: Operation, planner: Planner) -> Step:
    element = operation.result.type.element
    right = planner.known.get(operation.operands[1].number)
    if right is not None and (alone := integers.by_constant(operation.name, element, right)) is not None:
        return _unary(operation, alone)
    return _binary(operation, integers.binary(operation.name, element))


def _compare_integers(operation: Operation, _planner: Planner) -> Step:
    return _binary(operation, integers.compare(operation.words[0], operation.operands[0].type.element))


def _float(operation: Operation, _planner: Planner) -> Step:
    return _floats(operation, operation.name)


def _floats(operation: Operation, name: str) -> Step:
    compute = floats.function(name, operation.result.type.element)
    numbers = [o.number for o in operation.operands]
    r = operation.result.number
    if len(numbers) == 2:
        return _binary(operation, compute)

    def step(values: list[Array | None], _frame: Frame) -> None:
        values[r] = compute(*(values[n] for n in numbers))

    return step


def _clamp(operation: Operation, _planner: Planner) -> Step:
    element = operation.result.type.element
    propagate = operation.attributes.get("propagateNan") == "all"
    numbers = [o.number for o in operation.operands]
    r = operation.result.number

    def step(values: list[Array | None], _frame: Frame) -> None:
        x, low, high = (to_single(values[n], element) for n in numbers)  # type: ignore[arg-type]  # SSA: defined
        larger, smaller = (np.maximum, np.minimum) if propagate else (np.fmax, np.fmin)
        values[r] = from_single(smaller(larger(x, low), high), element)

    return step


def _external(operation: Operation, _planner: Planner) -> Step:
    symbol = str(operation.attributes.get("symbol", ""))
    if symbol not in floats.EXTERNAL:
        raise UnsupportedOperation(f"library function {symbol!r}")
    return _floats(operation, floats.EXTERNAL[symbol])


def _compare_floats(operation: Operation, _planner: Planner) -> Step:
    element = operation.operands[0].type.element
    return _binary(operation, floats.compare(operation.words[0], element))


def _select(operation: Operation, _planner: Planner) -> Step:
    c, a, b = (o.number for o in operation.operands)
    r = operation.result.number
    # A scalar condition may choose between tensors.
    extra = len(operation.result.type.shape) - len(operation.operands[0].type.shape)

    def step(values: list[Array | None], _frame: Frame) -> None:
        condition = values[c]
        if extra:
            condition = condition.reshape(condition.shape + (1,) * extra)  # type: ignore[union-attr]
        values[r] = np.where(condition, values[a], values[b])  # type: ignore[arg-type]  # SSA: defined

    return step


# ---- conversions -----------------------------------------------------------------


def _convert(operation: Operation, _planner: Planner) -> Step:
    source, target = operation.operands[0].type.element, operation.result.type.element
    carrier(source)
    name = operation.name.removeprefix("arith.")
    if name in {"index_cast", "index_castui"}:
        wider = element_width(target) >= element_width(source)
        name = ("extsi" if name == "index_cast" else "extui") if wider else "trunci"
    toward_zero = operation.attributes.get("rounding") == "rtz"
    signed = name in {"extsi", "fptosi"}
    conversions: dict[str, Callable[[Array], Array]] = {
        "trunci": lambda v: integers.truncate(v, target),
        "sitofp": lambda v: floats.from_int(integers.extend(v, "i64", signed=True), target),
        "uitofp": lambda v: floats.from_int(_unsigned(v), target),
        **dict.fromkeys(("extsi", "extui"), integers.extension(source, target, signed=signed)),
        **dict.fromkeys(("fptosi", "fptoui"), lambda v: floats.to_int(v, source, target, signed=signed)),
    }

    def rounded(value: Array) -> Array:
        return from_single(to_single(value, source), target, toward_zero=toward_zero)

    return _unary(operation, conversions.get(name, rounded))


def _unsigned(value: Array) -> Array:
    return value.astype(np.int64) if value.dtype == np.bool_ else integers.unsigned(value)


def _bitcast(operation: Operation, _planner: Planner) -> Step:
    source, target = operation.operands[0].type.element, operation.result.type.element
    dtype = carrier(target)
    if source == target:
        return _unary(operation, lambda v: v)
    if "i1" in {source, target}:
        return _unary(operation, lambda v: v.astype(dtype))
    return _unary(operation, lambda v: np.ascontiguousarray(v).view(dtype))


# ---- shapes ----------------------------------------------------------------------


def _splat(operation: Operation, _planner: Planner) -> Step:
    tail = lanes(operation.result.type.shape)[1:]
    return _unary(operation, lambda v: v.reshape(v.shape[0], *tail))


def _unsplat(operation: Operation, _planner: Planner) -> Step:
    return _unary(operation, lambda v: v.reshape(v.shape[0], -1)[:, 0])


def _same(operation: Operation, _planner: Planner) -> Step:
    return _unary(operation, lambda v: v)


def _expand_dims(operation: Operation, _planner: Planner) -> Step:
    where = (*(slice(None),) * (int(operation.attributes["axis"]) + 1), None)
    return _unary(operation, lambda v: v[where])


def _reshape(operation: Operation, _planner: Planner) -> Step:
    source, shape = operation.operands[0].type, operation.result.type.shape
    return _unary(operation, lambda v: full(v, source).reshape(v.shape[0], *shape))


def _transpose(operation: Operation, _planner: Planner) -> Step:
    order = (0, *(int(axis) + 1 for axis in operation.attributes["order"]))
    return _unary(operation, lambda v: v.transpose(order))


def _join(operation: Operation, _planner: Planner) -> Step:
    return _binary(operation, lambda a, b: np.stack(np.broadcast_arrays(a, b), axis=-1))


def _cat(operation: Operation, _planner: Planner) -> Step:
    type_ = operation.operands[0].type

    def concatenate(a: Array, b: Array) -> Array:
        count = max(a.shape[0], b.shape[0])
        parts = [np.broadcast_to(full(x, type_), (count, *type_.shape)) for x in (a, b)]
        return np.concatenate(parts, axis=1)

    return _binary(operation, concatenate)


def _split(operation: Operation, _planner: Planner) -> Step:
    type_ = operation.operands[0].type
    a = operation.operands[0].number
    first, second = (r.number for r in operation.results)

    def step(values: list[Array | None], _frame: Frame) -> None:
        value = full(values[a], type_)  # type: ignore[arg-type]  # SSA: defined
        values[first], values[second] = value[..., 0], value[..., 1]

    return step


def _gather(operation: Operation, _planner: Planner) -> Step:
    source, index = (o.type for o in operation.operands)
    axis = int(operation.attributes["axis"]) + 1

    def gather(a: Array, b: Array) -> Array:
        count = max(a.shape[0], b.shape[0])
        wide = np.broadcast_to(full(a, source), (count, *source.shape))
        where = np.broadcast_to(full(b, index), (count, *index.shape))
        return np.take_along_axis(wide, where.astype(np.int64), axis)

    return _binary(operation, gather)


# ---- programs, constants, pointers --------------------------------------------------


def _make_constant(operation: Operation, _planner: Planner) -> Step:
    return _constant_step(operation, constant(str(operation.attributes["value"]), operation.result.type))


def _make_poison(operation: Operation, _planner: Planner) -> Step:
    type_ = operation.result.type
    return _constant_step(operation, np.full(lanes(type_.shape), poison(type_.element)))


def _range(operation: Operation, _planner: Planner) -> Step:
    start, end = (int(operation.attributes[name]) % 2**32 for name in ("start", "end"))
    return _constant_step(operation, np.arange(start, end, dtype=np.int32)[None])


_AXES = {"x": 0, "y": 1, "z": 2}
_FIRST = np.zeros(1, np.int64)


def _program_id(operation: Operation, _planner: Planner) -> Step:
    axis = _AXES[operation.words[0]]
    r = operation.result.number

    def step(values: list[Array | None], frame: Frame) -> None:
        x, y, z = frame.grid
        linear = frame.programs
        if y * z > 1:
            number = (linear % x, linear // x % y, linear // (x * y))[axis]
        else:
            number = linear if axis == 0 else _FIRST
        values[r] = number.astype(np.int32)

    return step


def _num_programs(operation: Operation, _planner: Planner) -> Step:
    axis = _AXES[operation.words[0]]
    r = operation.result.number

    def step(values: list[Array | None], frame: Frame) -> None:
        values[r] = np.array([frame.grid[axis]], np.int32)

    return step


def _add_pointer(operation: Operation, planner: Planner) -> Step:
    size = max(element_width(operation.result.type.pointee) // 8, 1)

    if size == 1:
        return _binary(operation, np.add)
    # An array, so that narrower offsets are widened before they are scaled.
    scale = np.array([size], np.int64)
    pointer, offset = operation.operands
    scaled = None if pointer.number in planner.known else planner.before(offset, lambda o: o * scale)
    if scaled is not None:
        return _add(pointer.number, scaled, operation.result.number)
    return _binary(operation, lambda pointer, offset: pointer + offset * scale)


def _add(a: int, b: int, r: int) -> Step:
    def step(values: list[Array | None], _frame: Frame) -> None:
        values[r] = np.add(values[a], values[b])  # type: ignore[arg-type]  # SSA: defined

    return step


def _nothing(_operation: Operation, _planner: Planner) -> Step:
    return lambda _values, _frame: None


_CONVERSIONS = (
    "arith.extsi arith.extui arith.trunci arith.extf arith.truncf arith.sitofp arith.uitofp "
    "arith.fptosi arith.fptoui arith.index_cast arith.index_castui tt.fp_to_fp"
)

POINTWISE: dict[str, Maker] = {
    **dict.fromkeys(integers.BINARY, _integer),
    **dict.fromkeys([*floats.ARITHMETIC, *floats.TRANSCENDENTAL], _float),
    **dict.fromkeys(
        _CONVERSIONS.split(),
        _convert,
    ),
    **dict.fromkeys(("arith.bitcast", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int"), _bitcast),
    **dict.fromkeys(("tt.print", "llvm.intr.assume", "gpu.barrier", "ttg.barrier", "tt.debug_barrier"), _nothing),
    "math.absi": lambda operation, _planner: _unary(operation, np.abs),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.constant": _make_constant,
    "ub.poison": _make_poison,
    "tt.clampf": _clamp,
    "tt.extern_elementwise": _external,
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.broadcast": _same,
    "tt.expand_dims": _expand_dims,
    "tt.reshape": _reshape,
    "tt.trans": _transpose,
    "tt.join": _join,
    "tt.cat": _cat,
    "tt.split": _split,
    "tt.gather": _gather,
    "tt.make_range": _range,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.addptr": _add_pointer,
}
"""Adding a pointwise operation is one entry."""
