"""What the user did wrong, in one line."""

from __future__ import annotations


class UsageError(ValueError):
    """An option or argument has a value that it may not have. Names it, the value and what is allowed."""
