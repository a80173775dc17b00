"""Index arithmetic: the few operations that the specification needs beyond ``+ - * // %``.

An *index value* is a Python ``int``, an int64 numpy array (a whole batch at once) or a symbolic integer
(a proof). Every formula of :mod:`kvproof.models` is written once and runs on all three, so it must not
branch with ``if``, chain comparisons or raise on an index value; it uses these functions instead.

``//`` and ``%`` are Python's floor division and remainder on all three kinds. What a device computes with
C semantics is written with :func:`trunc_div` and :func:`trunc_mod`.

A symbolic type takes part by carrying ``__index_ops__``, an object with the methods of :class:`IndexOps`;
this module never imports one.
"""

from __future__ import annotations

import operator
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from kvproof.models.errors import LayoutError

IndexValue: TypeAlias = Any
"""int | int64 array | symbolic integer. ``Any``, since operators over that union cannot be typed."""

Condition: TypeAlias = Any
"""bool | bool array | symbolic condition. Combine with ``&``, ``|`` and :func:`negate`, never ``and``/``or``."""

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class IndexOps(Protocol):
    """What a symbolic integer type supplies for the functions below."""

    def require(self, condition: Condition, message: str) -> None: ...
    def select(self, condition: Condition, then: IndexValue, otherwise: IndexValue) -> IndexValue: ...
    def negate(self, condition: Condition) -> Condition: ...


def _is_array(value: object) -> TypeGuard[npt.NDArray[Any]]:
    return isinstance(value, np.ndarray)


def _ops(*values: object) -> IndexOps | None:
    for value in values:
        ops = getattr(type(value), "__index_ops__", None)
        if ops is not None:
            return cast("IndexOps", ops)
    return None


def require(condition: Condition, message: str, **values: IndexValue) -> None:
    """Refuse an argument: raise :class:`LayoutError` with ``message.format(**values)`` unless it holds.

    On arrays the condition must hold everywhere and the message shows the first offender. On symbolic
    values it becomes an obligation that the caller's premises must imply (or, while a layout is being
    assumed, one of the premises).
    """
    ops = _ops(condition)
    if ops is not None:
        ops.require(condition, message)
        return
    if _is_array(condition):
        if condition.all():
            return
        at = tuple(int(i) for i in np.argwhere(~condition)[0])
        shown: dict[str, IndexValue] = {}
        for name, value in values.items():
            array = np.broadcast_to(np.asarray(value), condition.shape)
            shown[name] = array[at].item()
        raise LayoutError(message.format(**shown))
    if not condition:
        raise LayoutError(message.format(**values))


def select(condition: Condition, then: IndexValue, otherwise: IndexValue) -> IndexValue:
    """``then`` where the condition holds, else ``otherwise``. Both sides are evaluated."""
    ops = _ops(condition, then, otherwise)
    if ops is not None:
        return ops.select(condition, then, otherwise)
    if _is_array(condition):
        return cast("IndexValue", np.where(condition, then, otherwise))
    return then if condition else otherwise


def negate(condition: Condition) -> Condition:
    """Logical not. (``~`` on a Python bool is an integer complement.)"""
    ops = _ops(condition)
    if ops is not None:
        return ops.negate(condition)
    if _is_array(condition):
        return np.logical_not(condition)
    return not condition


def minimum(a: IndexValue, b: IndexValue) -> IndexValue:
    """The smaller of two index values."""
    return select(a <= b, a, b)


def maximum(a: IndexValue, b: IndexValue) -> IndexValue:
    """The larger of two index values."""
    return select(a >= b, a, b)


def within(value: IndexValue, low: IndexValue, stop: IndexValue) -> Condition:
    """``low <= value < stop``, which as a chained comparison works on plain ints only."""
    return (low <= value) & (value < stop)


def implies(premise: Condition, conclusion: Condition) -> Condition:
    """Holds unless the premise holds and the conclusion does not."""
    return negate(premise) | conclusion


def cdiv(a: IndexValue, b: IndexValue) -> IndexValue:
    """``a / b`` rounded up, for ``b > 0``."""
    return -(-a // b)


def round_up(a: IndexValue, multiple: IndexValue) -> IndexValue:
    """The least multiple of ``multiple`` (> 0) that is not below ``a``."""
    return cdiv(a, multiple) * multiple


def trunc_div(a: IndexValue, b: IndexValue) -> IndexValue:
    """C division: rounds towards zero. What ``//`` means inside a Triton kernel."""
    quotient = abs(a) // abs(b)
    return select((a < 0) ^ (b < 0), -quotient, quotient)


def trunc_mod(a: IndexValue, b: IndexValue) -> IndexValue:
    """C remainder: takes the sign of the dividend. What ``%`` means inside a Triton kernel."""
    rest = abs(a) % abs(b)
    return select(a < 0, -rest, rest)


def as_index_value(name: str, value: IndexValue) -> IndexValue:
    """Check an argument that may be one integer or a batch of them, and return it at full width.

    Arrays of narrower integers become int64, in which a formula's products do not wrap; symbolic integers pass.

    Raises:
        LayoutError: a truth value, a float, or anything else that is no integer.
    """
    if type(value) is int or _ops(value) is not None:
        return value
    if _is_array(value):
        if value.dtype.kind not in "iu":
            raise LayoutError(f"{name} must be integers, got an array of {value.dtype}")
        return value if value.dtype == np.int64 else value.astype(np.int64)
    return as_index(name, value)


def as_index(name: str, value: IndexValue, *, at_least: int | None = None, below: int | None = None) -> IndexValue:
    """Check an argument that must be one integer and return it as a Python ``int``.

    Anything with ``__index__`` is an integer here, except ``bool``: passing a truth value for a count is a
    mistake worth refusing. Symbolic integers pass through; their bounds become :func:`require` conditions.

    Raises:
        LayoutError: not an integer, or outside the stated range.
    """
    if type(value) is int and (at_least is None or value >= at_least) and (below is None or value < below):
        return value  # by far the most frequent case
    allowed = "an integer"
    if at_least is not None and below is not None:
        allowed = f"an integer from {at_least} to {below - 1}"
    elif at_least is not None:
        allowed = f"an integer of at least {at_least}"
    if _ops(value) is None:
        if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
            raise LayoutError(f"{name} must be {allowed}, got {value!r}")
        try:
            value = operator.index(value)
        except TypeError:
            raise LayoutError(f"{name} must be {allowed}, got {value!r}") from None
    # `name` may hold braces of a format string; only the value is to be filled in.
    label = name.replace("{", "{{").replace("}", "}}")
    if at_least is not None:
        require(value >= at_least, f"{label} must be {allowed}, got {{value}}", value=value)
    if below is not None:
        require(value < below, f"{label} must be {allowed}, got {{value}}", value=value)
    return value
