"""Executor of compiled kernels: numpy over all programs and lanes at once, with the device's exact integers."""

from kvproof.harness.ir.execute.machine import Executable, Executed, execute, observe, prepare
from kvproof.harness.ir.execute.memory import Segment, Storage
from kvproof.harness.ir.execute.report import Kind, Report
from kvproof.harness.ir.execute.values import UnsupportedOperation

__all__ = [
    "Executable",
    "Executed",
    "Kind",
    "Report",
    "Segment",
    "Storage",
    "UnsupportedOperation",
    "execute",
    "observe",
    "prepare",
]
