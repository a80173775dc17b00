"""The SSA form that TTIR is read into: functions of blocks of operations on typed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_WIDTHS = {"index": 64, "ptr": 64, "bf16": 16}


@dataclass(frozen=True, slots=True)
class Type:
    """Type of a value.

    Attributes:
        element: "i1", "i32", "f32", "bf16", "f8E4M3FN", "index", "ptr"; the raw text of any other.
        shape: extents of a tensor, () for a scalar.
        pointee: element type behind a pointer, else empty.
    """

    element: str
    shape: tuple[int, ...] = ()
    pointee: str = ""

    @property
    def is_int(self) -> bool:
        """Whether elements are integers (``index`` included)."""
        return self.element == "index" or (self.element[:1] == "i" and self.element[1:].isdigit())

    @property
    def pointee_bytes(self) -> int:
        """Of a pointer, bytes of what it points to."""
        return max(self.with_element(self.pointee).width // 8, 1)

    @property
    def is_pointer(self) -> bool:
        """Whether elements are pointers to single elements."""
        return self.element == "ptr"

    @property
    def is_float(self) -> bool:
        """Whether elements are floats of any width."""
        return self.element == "bf16" or (self.element[:1] == "f" and self.element[1:2].isdigit())

    @property
    def width(self) -> int:
        """Bits of an element.

        Raises:
            ValueError: the element is none whose width is known.
        """
        return element_width(self.element)

    def with_element(self, element: str, pointee: str = "") -> Type:
        """The same shape with another element."""
        return Type(element, self.shape, pointee)

    def __str__(self) -> str:
        element = f"ptr<{self.pointee}>" if self.is_pointer else self.element
        return "x".join([*map(str, self.shape), element])


def element_width(element: str) -> int:
    """Bits of an element type.

    Raises:
        ValueError: none whose width is known.
    """
    if element in _WIDTHS:
        return _WIDTHS[element]
    digits = element[1:].split("E", maxsplit=1)[0]
    if element[:1] in {"i", "f"} and digits.isdigit():
        return int(digits)
    raise ValueError(f"element type {element!r} has no known width")


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in a source file; the file as reports write it."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Location:
    """Where an operation comes from: the innermost inlined function first, then its callers."""

    frames: tuple[Frame, ...] = ()

    @property
    def frame(self) -> Frame | None:
        """The innermost frame outside Triton's own library; None if nothing is known."""
        own = (f for f in self.frames if not f.file.startswith("triton/"))
        return next(own, self.frames[0] if self.frames else None)

    def __str__(self) -> str:
        own = [f for f in self.frames if not f.file.startswith("triton/")] or list(self.frames)
        return ", called at ".join(dict.fromkeys(map(str, own))) or "unknown place"


@dataclass(slots=True, eq=False)
class Value:
    """An SSA value. Two values are equal only if they are the same one; ``number`` is unique in its module."""

    number: int
    name: str
    type: Type

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class Successor:
    """A branch target and what is passed to its arguments."""

    block: int
    operands: tuple[Value, ...] = ()


@dataclass(slots=True, eq=False)
class Operation:
    """One operation.

    Attributes:
        name: "arith.addi".
        results: values it defines.
        operands: values it uses, branch arguments excluded.
        attributes: by name; positional words under "words".
        regions: nested regions.
        successors: branch targets, as indices into the region's blocks.
        location: where it comes from.
        known: whether the reader knows its form; if not, its result types are a guess from the text.
    """

    name: str
    results: tuple[Value, ...]
    operands: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    successors: tuple[Successor, ...] = ()
    location: Location = Location()
    known: bool = True

    @property
    def words(self) -> tuple[str, ...]:
        """Positional words ("slt" of a comparison)."""
        return self.attributes.get("words", ())

    @property
    def result(self) -> Value:
        """Its only result."""
        (value,) = self.results
        return value

    def __repr__(self) -> str:
        return f"{self.name} at {self.location}"


@dataclass(slots=True, eq=False)
class Block:
    """Operations in order; the last one leaves the block."""

    arguments: tuple[Value, ...]
    operations: list[Operation]


@dataclass(slots=True, eq=False)
class Region:
    """Blocks; the first is entered."""

    blocks: list[Block]

    @property
    def block(self) -> Block:
        """Its only block.

        Raises:
            ValueError: it has several.
        """
        (block,) = self.blocks
        return block

    def walk(self) -> Iterator[Operation]:
        """Every operation, nested ones after the one that holds them."""
        for block in self.blocks:
            for operation in block.operations:
                yield operation
                for region in operation.regions:
                    yield from region.walk()


@dataclass(slots=True, eq=False)
class Function:
    """A function: its name, arguments and body."""

    name: str
    arguments: tuple[Value, ...]
    results: tuple[Type, ...]
    body: Region
    public: bool = True
    location: Location = Location()


@dataclass(slots=True, eq=False)
class Module:
    """The functions of a compiled kernel; the public one is entered."""

    functions: dict[str, Function]

    @property
    def entry(self) -> Function:
        """The kernel.

        Raises:
            ValueError: none is public, or several are.
        """
        (function,) = (f for f in self.functions.values() if f.public)
        return function

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of operations that the reader does not know, each once."""
        names = (o.name for f in self.functions.values() for o in f.body.walk() if not o.known)
        return tuple(dict.fromkeys(names))
