"""Importing a project's modules without its engine, and binding its functions by name. Runs in a worker."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from kvproof.harness.targets.profile import Entry, Profile
from kvproof.kernels.registry import resolve
from kvproof.models.contract import Contract
from kvproof.models.row_space import UnifiedPoolGeometry


class NotOffered(Exception):  # noqa: N818  (a state, not a fault)
    """A checkout has no function for a contract, or one with another signature. The message says which."""


class Placeholder:
    """Stands for something that is not installed: can be named, imported and used as a decorator's argument."""

    def __init__(self, name: str) -> None:
        self.__name__ = self._name = name

    def __getattr__(self, attribute: str) -> Placeholder:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Placeholder(f"{self._name}.{attribute}")

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(f"{self._name} is not here: its package is no part of the check")


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of absent packages: whatever is taken from them is a :class:`Placeholder`."""

    def __init__(self, packages: Sequence[str], stubs: Mapping[str, Mapping[str, Any]]) -> None:
        self.packages = tuple(packages)
        self.stubs = stubs

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        absent = any(fullname == p or fullname.startswith(f"{p}.") for p in self.packages)
        if absent or fullname in self.stubs:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        for name, kind in self.stubs.get(module.__name__, {}).items():
            setattr(module, name, _stub(f"{module.__name__}.{name}", kind))

        def missing(attribute: str) -> Any:
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            name = f"{module.__name__}.{attribute}"
            return importlib.import_module(name) if name in self.stubs else Placeholder(name)

        module.__getattr__ = missing  # type: ignore[method-assign]


def _stub(name: str, kind: Any) -> Any:
    if kind == "identity":
        return _identity
    if isinstance(kind, str) and kind.startswith("module:"):
        return importlib.import_module(kind.removeprefix("module:"))
    if isinstance(kind, str) and kind.startswith("returns:"):
        number = int(kind.removeprefix("returns:"))
        return lambda *_args, **_options: number
    if isinstance(kind, str) and kind.startswith("torch:"):
        return resolve(kind)
    return Placeholder(name) if kind == "absent" else kind


def _identity(function: Any = None, *_args: Any, **_options: Any) -> Any:
    return function if callable(function) else _identity


@dataclass(frozen=True)
class Bound:
    """A project's function, callable with its present names.

    Attributes:
        entry: what it was bound for.
        function: the function.
        names: name of today -> name in this checkout, where they differ.
        notes: how an older signature was adapted.
    """

    entry: Entry
    function: Callable[..., Any]
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def __call__(self, **arguments: Any) -> Any:
        return self.function(**{self.names.get(name, name): value for name, value in arguments.items()})


class Library:
    """A project's code, loaded in this process.

    Args:
        profile: how.
        root: the checkout.

    Raises:
        NotOffered: the folder is none of that project.
    """

    def __init__(self, profile: Profile, root: Path) -> None:
        self.profile = profile
        self.root = root.resolve()
        if not (self.root / profile.marker).exists():
            raise NotOffered(f"{root} holds no {profile.marker!r}, which every checkout of {profile.name} has")
        sys.path.insert(0, str(self.root))
        for name in profile.packages:
            package = types.ModuleType(name)
            package.__path__ = [str(self.root.joinpath(*name.split(".")))]
            package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
            sys.modules[name] = package
            parent, _, last = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], last, package)
        sys.meta_path.insert(0, _Absent(profile.absent, profile.stubs))

    def resolve(self, reference: str) -> Any:
        """What "module:name" or "module:name.attribute" is in this checkout.

        Raises:
            NotOffered: there is no such module or name, or importing it fails.
        """
        module, _, path = reference.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except Exception as error:
            raise NotOffered(f"module {module} does not import: {type(error).__name__}: {error}") from error
        for name in path.split("."):
            if not hasattr(found, name):
                raise NotOffered(f"{module} has no {path!r}")
            found = getattr(found, name)
        return found

    def convert(self, kind: str, value: Any) -> Any:
        """A structured argument as the project's own type, made from the same fields.

        Raises:
            NotOffered: the profile names no such type, or it is constructed from something else.
        """
        if kind not in self.profile.types:
            raise NotOffered(f"profile {self.profile.name} says nothing of {kind}")
        return structured(self.resolve(self.profile.types[kind]), kind, value)

    def bound(self, entry: Entry, contract: Contract) -> Bound:
        """The function of an entry, its signature checked against what will be passed.

        Raises:
            NotOffered: the function is missing, or an argument that is needed is.
        """
        return bound_to(self.resolve(entry.function), entry, contract)


def structured(made: Callable[..., Any], kind: str, value: Any) -> Any:
    """A structured argument as a project's type, made from the same fields.

    Raises:
        NotOffered: the type is made from something else.
    """
    given = geometry_fields(value) if isinstance(value, UnifiedPoolGeometry) else _fields(value)
    try:
        return made(**given)
    except TypeError as error:
        raise NotOffered(f"{kind} of this project is not made from {', '.join(given)}: {error}") from error


def bound_to(function: Any, entry: Entry, contract: Contract) -> Bound:
    """A function, its signature checked against what an entry will pass.

    Raises:
        NotOffered: an argument is missing on either side.
    """
    if not callable(function):
        raise NotOffered(f"{entry.function} is no function but {type(function).__name__}")
    passed = entry.passes
    if passed is None:
        own = (a.name for a in contract.arguments if a.name not in (*entry.drop, *entry.returns))
        passed = tuple(entry.rename.get(name, name) for name in own)
    passed = (*passed, *entry.constants)
    parameters = inspect.signature(function).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    names: dict[str, str] = {}
    for name in passed:
        known = next((n for n in (name, *entry.former.get(name, ())) if n in parameters), None)
        if known is None and not anything:
            raise NotOffered(f"{entry.function} has no argument {name!r}; it takes {', '.join(parameters)}")
        if known is not None and known != name:
            names[name] = known
    taken = {names.get(name, name) for name in passed}
    for name, parameter in parameters.items():
        by_name = parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
        if by_name and parameter.default is parameter.empty and name not in taken:
            raise NotOffered(f"{entry.function} needs {name!r}, which the profile does not pass")
    notes = tuple(f"{new} was {old}" for new, old in names.items())
    return Bound(entry, function, names, notes)


def bind_first(library: Library, contract_name: str, contract: Contract) -> Bound:
    """The function that this checkout offers for a contract: of the newest era that fits.

    Raises:
        NotOffered: none does; the message has the reason of each era.
    """
    reasons: list[str] = []
    for entry in library.profile.entries_of(contract_name):
        try:
            return library.bound(entry, contract)
        except NotOffered as reason:
            reasons.append(str(reason))
    raise NotOffered("; ".join(dict.fromkeys(reasons)) or "the profile has no entry for it")


def adapter_of(entry: Entry) -> Callable[..., None] | None:
    """An entry's adapter, imported if it is named."""
    return resolve(entry.adapter) if isinstance(entry.adapter, str) else entry.adapter


def _fields(value: Any) -> dict[str, Any]:
    if not is_dataclass(value):
        raise NotOffered(f"{type(value).__name__} has no fields to convert")
    return {item.name: getattr(value, item.name) for item in fields(value)}


def geometry_fields(geometry: UnifiedPoolGeometry) -> dict[str, Any]:
    """A geometry as the arguments that it is constructed from."""
    from kvproof.properties.strategies.geometry import geometry_json  # noqa: PLC0415  (brings hypothesis)

    return dict(geometry_json(geometry))
