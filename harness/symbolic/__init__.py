"""Symbolic integers and conditions on which models/ and properties/ run unchanged."""

from kvproof.harness.symbolic.execution import (
    DeadEnd,
    Execution,
    NoCase,
    Obligation,
    PathBudgetError,
    UnsupportedError,
    VacuousPath,
    current,
)
from kvproof.harness.symbolic.values import SymBool, SymInt, condition_term, index_term

__all__ = [
    "DeadEnd",
    "Execution",
    "NoCase",
    "Obligation",
    "PathBudgetError",
    "SymBool",
    "SymInt",
    "UnsupportedError",
    "VacuousPath",
    "condition_term",
    "current",
    "index_term",
]
