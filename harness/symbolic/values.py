"""Integers and conditions that stand for every value they may have.

They support what index arithmetic uses, with Python's meaning: ``+ - * // %``, divmod, abs, comparisons, and
the functions of :mod:`kvproof.models.index`. ``//`` and ``%`` round towards minus infinity; what a device
computes is written with ``trunc_div`` and ``trunc_mod`` there. Anything else raises :class:`UnsupportedError`
by name rather than returning something that merely looks right.
"""

from __future__ import annotations

import operator
from typing import Any

from kvproof.harness.solve import term as t
from kvproof.harness.symbolic.execution import UnsupportedError, current


class _Ops:
    """How :mod:`kvproof.models.index` works on symbolic values."""

    @staticmethod
    def require(condition: Any, message: str) -> None:
        current().require(condition_term(condition), message)

    @staticmethod
    def select(condition: Any, then: Any, otherwise: Any) -> Any:
        test = condition_term(condition)
        if isinstance(then, (bool, SymBool)) and isinstance(otherwise, (bool, SymBool)):
            return SymBool(t.ite(test, condition_term(then), condition_term(otherwise)))
        return simplest(t.ite(test, index_term(then), index_term(otherwise)))

    @staticmethod
    def negate(condition: Any) -> Any:
        return SymBool(t.not_(condition_term(condition)))


def index_term(value: Any) -> t.Term:
    """The term of an int or a symbolic integer.

    Raises:
        UnsupportedError: anything else, truth values included.
    """
    if isinstance(value, SymInt):
        return value.term
    if isinstance(value, (bool, SymBool)) or not hasattr(value, "__index__"):
        raise UnsupportedError(f"{value!r} ({type(value).__name__}) is not an integer")
    try:
        return t.integer(operator.index(value))
    except TypeError as error:  # an array has __index__, and refuses
        raise UnsupportedError(f"{value!r} ({type(value).__name__}) is not an integer") from error


def condition_term(value: Any) -> t.Term:
    """The term of a truth value or a symbolic condition.

    Raises:
        UnsupportedError: anything else; an integer has no truth value here.
    """
    if isinstance(value, SymBool):
        return value.term
    if isinstance(value, bool) or type(value).__name__ in {"bool_", "bool"}:
        return t.boolean(bool(value))
    raise UnsupportedError(f"{value!r} ({type(value).__name__}) is not a condition")


def simplest(term: t.Term) -> Any:
    """A plain int where the term is a literal, so that what is concrete stays so."""
    return term.payload if term.is_const and term.sort == t.INT else SymInt(term)


def _is_index(value: Any) -> bool:
    return isinstance(value, SymInt) or (
        hasattr(value, "__index__") and not isinstance(value, bool) and type(value).__name__ != "bool_"
    )


class SymInt:
    """A symbolic integer.

    Attributes:
        term: what it is.
    """

    __slots__ = ("term",)
    __index_ops__ = _Ops
    # numpy must leave `array + SymInt` to us, which refuses it, instead of making an object array.
    __array_ufunc__ = None

    def __init__(self, term: t.Term) -> None:
        self.term = term

    def __repr__(self) -> str:
        return t.show(self.term)

    # ---- arithmetic ----

    def __add__(self, other: Any) -> Any:
        return simplest(t.add(self.term, index_term(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return simplest(t.sub(self.term, index_term(other)))

    def __rsub__(self, other: Any) -> Any:
        return simplest(t.sub(index_term(other), self.term))

    def __mul__(self, other: Any) -> Any:
        return simplest(t.mul(self.term, index_term(other)))

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return simplest(t.neg(self.term))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return simplest(t.ite(t.le(t.integer(0), self.term), self.term, t.neg(self.term)))

    def __floordiv__(self, other: Any) -> Any:
        return _divide(t.div, self.term, index_term(other))

    def __rfloordiv__(self, other: Any) -> Any:
        return _divide(t.div, index_term(other), self.term)

    def __mod__(self, other: Any) -> Any:
        return _divide(t.mod, self.term, index_term(other))

    def __rmod__(self, other: Any) -> Any:
        return _divide(t.mod, index_term(other), self.term)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    # ---- comparison ----

    def __lt__(self, other: Any) -> Any:
        return SymBool(t.lt(self.term, index_term(other)))

    def __le__(self, other: Any) -> Any:
        return SymBool(t.le(self.term, index_term(other)))

    def __gt__(self, other: Any) -> Any:
        return SymBool(t.lt(index_term(other), self.term))

    def __ge__(self, other: Any) -> Any:
        return SymBool(t.le(index_term(other), self.term))

    def __eq__(self, other: object) -> Any:
        if not _is_index(other):
            return NotImplemented
        return SymBool(t.eq(self.term, index_term(other)))

    def __ne__(self, other: object) -> Any:
        if not _is_index(other):
            return NotImplemented
        return SymBool(t.not_(t.eq(self.term, index_term(other))))

    def __bool__(self) -> bool:
        return current().decide(t.not_(t.eq(self.term, t.integer(0))))

    # ---- what has no symbolic meaning ----

    def _refused(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{what} of the symbolic integer {t.show(self.term)}")

    def __index__(self) -> int:
        raise self._refused("a concrete value (index, range, list subscript)")

    def __int__(self) -> int:
        raise self._refused("int()")

    def __float__(self) -> float:
        raise self._refused("float()")

    def __complex__(self) -> complex:
        raise self._refused("complex()")

    def __hash__(self) -> int:
        raise self._refused("hash (set element, dict key)")

    def __truediv__(self, other: Any) -> Any:
        raise self._refused("/ (true division)")

    def __rtruediv__(self, other: Any) -> Any:
        raise self._refused("/ (true division)")

    def __pow__(self, other: Any) -> Any:
        raise self._refused("** (power)")

    def __rpow__(self, other: Any) -> Any:
        raise self._refused("** (power)")

    def _bitwise(self, other: Any) -> Any:  # noqa: ARG002
        raise self._refused("a bitwise operation or shift")

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _bitwise
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _bitwise

    def __invert__(self) -> Any:
        raise self._refused("~ (complement)")

    def __round__(self, digits: Any = None) -> Any:
        raise self._refused("round()")

    def __trunc__(self) -> Any:
        raise self._refused("trunc()")

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._refused(f"format {spec!r}")
        return repr(self)


class SymBool:
    """A symbolic condition. Combine with ``& | ^``; ``bool()`` splits the run.

    Attributes:
        term: what it is.
    """

    __slots__ = ("term",)
    __index_ops__ = _Ops
    __array_ufunc__ = None

    def __init__(self, term: t.Term) -> None:
        self.term = term

    def __repr__(self) -> str:
        return t.show(self.term)

    def __and__(self, other: Any) -> SymBool:
        return SymBool(t.and_(self.term, condition_term(other)))

    def __rand__(self, other: Any) -> SymBool:
        return SymBool(t.and_(condition_term(other), self.term))

    def __or__(self, other: Any) -> SymBool:
        return SymBool(t.or_(self.term, condition_term(other)))

    def __ror__(self, other: Any) -> SymBool:
        return SymBool(t.or_(condition_term(other), self.term))

    def __xor__(self, other: Any) -> SymBool:
        return SymBool(t.not_(t.eq(self.term, condition_term(other))))

    __rxor__ = __xor__

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, (bool, SymBool)):
            return NotImplemented
        return SymBool(t.eq(self.term, condition_term(other)))

    def __ne__(self, other: object) -> Any:
        return self ^ other

    def __bool__(self) -> bool:
        return current().decide(self.term)

    def _refused(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{what} of the symbolic condition {t.show(self.term)}")

    def __hash__(self) -> int:
        raise self._refused("hash (set element, dict key)")

    def __index__(self) -> int:
        raise self._refused("a concrete value (index, arithmetic)")

    def __invert__(self) -> Any:
        raise self._refused("~ (on a plain bool it is an integer complement; use negate)")

    def __add__(self, other: Any) -> Any:
        raise self._refused("arithmetic")

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__
    __lt__ = __le__ = __gt__ = __ge__ = __add__


def _divide(operation: Any, a: t.Term, b: t.Term) -> Any:
    """A quotient or remainder, with the obligation that it has a divisor."""
    if b.is_const and b.payload == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if not b.is_const:
        current().require(t.not_(t.eq(b, t.integer(0))), "a divisor is zero")
    return simplest(operation(a, b))
