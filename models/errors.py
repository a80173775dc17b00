"""Errors raised by the specification. Each message names the argument, its value and what is allowed."""

from __future__ import annotations


class LayoutError(ValueError):
    """A layout, or an argument of one of its formulas, is not one the specification gives a meaning to."""


class AbsentClassError(LayoutError, KeyError):
    """An address was asked of a compress class that has no layers in this layout.

    Also a ``KeyError``, since the layout's classes are a mapping and callers look classes up in it.
    """

    def __str__(self) -> str:
        # KeyError quotes its argument; the message is a sentence.
        return str(self.args[0]) if self.args else ""
