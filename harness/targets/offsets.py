"""Element offsets in 32 bits of every ``@triton.jit`` kernel of a target, on GPUs that need not be here."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvproof.harness.ir.compile import Signature, compile_ttir, jit_function
from kvproof.harness.ir.offsets import narrow_offsets
from kvproof.harness.ir.reader import Module, read_module
from kvproof.harness.ir.reader.structure import structure_hash
from kvproof.harness.ir.target import parse_target
from kvproof.harness.targets.launches import launched
from kvproof.harness.targets.loading import Library
from kvproof.harness.targets.profile import Profile

_POINTERS = (
    (("region", "item", "tile", "span", "descriptor", "base", "_off", "length"), "i64"),
    (("indices", "indptr", "table", "slot", "batch", "plan", "cu_", "lens", "topk", "start", "bid", "req"), "i32"),
    (("position", "pos_ptr"), "i64"),
    (("state", "scale", "ape", "weight", "sink", "lse", "partial", "logits"), "fp32"),
    (("u8", "packed", "cache_ptr", "buffer", "pool_bytes"), "u8"),
)
"""Parts of a parameter's name, and the element type that a pointer of such a name most likely has."""


def offsets_of_session(session: Any, archs: Sequence[str], kind: str = "all") -> list[dict[str, Any]]:
    """One row a kernel and GPU: what of it is computed in 32 bits, or why that cannot be told.

    Args:
        session: the target, loaded in this process.
        archs: GPUs, as :func:`parse_target` takes them.
        kind: "all": a kernel that a case has launched is compiled as it was launched, any other with types that
            its parameters' names suggest. "launched": the former alone. "by name": all of them like the latter,
            so that it does not depend on the cases.
    """
    profile, library = session.profile, session.library
    rows: list[dict[str, Any]] = []
    for module in profile.kernels:
        try:
            importlib.import_module(module)
        except Exception as error:
            problem = f"module {module} does not import: {type(error).__name__}: {error}"
            rows += [_empty(module.rsplit(".", 1)[-1], arch, problem) for arch in archs if kind != "launched"]
            continue
        for name, function in _kernels(module):
            known = [] if kind == "by name" else _launched(function)
            if known or kind != "launched":
                rows += [_row(name, function, known, arch, profile, library) for arch in archs]
    return rows


def _kernels(module: str) -> Iterator[tuple[str, Any]]:
    """The ``@triton.jit`` functions of a module that can be launched: those that return nothing."""
    from triton.runtime.jit import JITFunction, KernelInterface  # noqa: PLC0415

    found = importlib.import_module(module)
    for owner in (found, *(v for v in vars(found).values() if inspect.isclass(v) and v.__module__ == module)):
        for value in vars(owner).values():
            inner: Any = value.__func__ if isinstance(value, staticmethod) else value
            # Below wrappers that choose a configuration.
            while isinstance(inner, KernelInterface) and not isinstance(inner, JITFunction):
                inner = getattr(inner, "fn", None)
            if isinstance(inner, JITFunction) and inner.fn.__module__ == module and not _returns(inner):
                yield f"{module.rsplit('.', 1)[-1]}:{inner.fn.__qualname__}", inner


def _tree(function: Any) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function.fn)))


def _dereferenced(function: Any) -> set[str]:
    """Names that a load or a store starts its address from."""
    found: set[str] = set()
    for node in ast.walk(_tree(function)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"load", "store"}
        ):
            address = node.args[0] if node.args else None
            while isinstance(address, ast.BinOp):
                address = address.left
            if isinstance(address, ast.Name):
                found.add(address.id)
    return found


def _returns(function: Any) -> bool:
    """Whether a function gives a value, as only device functions do."""
    tree = _tree(function)
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(tree))


def _empty(name: str, arch: str, problem: str) -> dict[str, Any]:
    return {"kernel": name, "arch": arch, "launched": False, "offsets": [], "problem": problem}


def _launched(function: Any) -> list[Signature]:
    """The specialisations of a kernel that were launched in this process."""
    return list(launched.get(f"{function.fn.__module__}:{function.fn.__qualname__}", {}).values())


def _row(
    name: str, function: Any, known: list[Signature], arch: str, profile: Profile, library: Library
) -> dict[str, Any]:
    """A kernel for one GPU: the places of every specialisation that is known, each once."""
    row = {**_empty(name, arch, ""), "launched": bool(known)}
    signatures = known or [guessed(function, profile.hints)]
    places: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    # With the most run-time numbers first: in those a factor has its name.
    for signature in sorted(signatures, key=lambda one: -len(one.types)):
        try:
            module = read_module(compile_ttir(function, signature, parse_target(arch)).text)
        except Exception as error:  # foreign source: whatever it raises is that kernel's problem
            return {**row, "problem": " ".join(str(error).split())[-300:]}
        if signature is signatures[-1]:
            row["ir"] = structure_hash(module)
        found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for offset in _offsets(module, function, signature, library):
            found.setdefault((offset["file"], offset["line"], offset["access"], offset["argument"]), []).append(
                offset
            )
        places = {**found, **places}
    return {**row, "offsets": [offset for group in places.values() for offset in group]}


def _offsets(module: Module, function: Any, signature: Signature, library: Library) -> Iterator[dict[str, Any]]:
    names = {jit_function(function).__name__: tuple(n for n in function.arg_names if n in signature.types)}
    for narrow in narrow_offsets(module, names):
        frame = narrow.places[0] if narrow.places else None
        yield {
            "file": _relative(frame.file, function, library.root) if frame else "",
            "line": frame.line if frame else 0,
            "access": narrow.access,
            "argument": narrow.argument,
            "factors": narrow.factors,
        }


def _relative(file: str, function: Any, root: Path) -> str:
    """A file of the checkout relative to it; reports may hold only the end of a path, mostly the function's."""
    own = inspect.getsourcefile(function.fn) or ""
    whole = Path(own if file and own.endswith(f"/{file}") else file)
    if whole.is_absolute() and whole.is_relative_to(root):
        return str(whole.relative_to(root))
    matches = [p for p in root.rglob(Path(file).name) if str(p).endswith(file)] if file else []
    return str(matches[0].relative_to(root)) if len(matches) == 1 else file


def guessed(function: Any, hints: Mapping[str, Any]) -> Signature:
    """A signature from the names of a kernel's parameters."""
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    pointers = _dereferenced(function)
    for parameter in function.params:
        name = parameter.name
        if parameter.is_constexpr:
            constants[name] = hints.get(name, parameter.default if parameter.has_default else _constant(name))
        elif name in hints:
            types[name] = str(hints[name])
        elif name.endswith(("_ptr", "_ptrs")) or name in pointers:
            types[name] = "*" + next((kind for parts, kind in _POINTERS if any(p in name for p in parts)), "bf16")
        else:
            types[name] = "fp32" if "scale" in name or name in {"log2e", "rms_eps", "eps"} else "i32"
    return Signature(types, constants)


def _constant(name: str) -> Any:
    upper = name.upper()
    if upper.startswith(("HAS_", "IS_", "USE_", "CHECK_", "QUANT", "INLINE", "OVERLAP", "FULL", "PRESHUFFLE")):
        return True
    for part, value in (
        ("BLOCK_D", 512),
        ("BLOCK_H", 16),
        ("HEAD", 512),
        ("NOPE", 448),
        ("ROPE", 64),
        ("NUM_TILES", 7),
    ):
        if part in upper:
            return value
    return 64
