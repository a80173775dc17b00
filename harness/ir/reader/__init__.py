"""Reader of TTIR text: a small typed SSA form with source locations."""

from kvproof.harness.ir.reader.cursor import ReadError
from kvproof.harness.ir.reader.form import (
    Block,
    Frame,
    Function,
    Location,
    Module,
    Operation,
    Region,
    Successor,
    Type,
    Value,
    element_width,
)
from kvproof.harness.ir.reader.parser import read_module
from kvproof.harness.ir.reader.structure import structure, structure_hash

__all__ = [
    "Block",
    "Frame",
    "Function",
    "Location",
    "Module",
    "Operation",
    "ReadError",
    "Region",
    "Successor",
    "Type",
    "Value",
    "element_width",
    "read_module",
    "structure",
    "structure_hash",
]
