"""A profile: how the contracts of kernels/ map to one project's functions. Data, beside small adapters.

A project has one file in ``profiles/``, or a TOML file of its own (:mod:`kvproof.harness.targets.profile_file`),
or a plugin that registers a :class:`Profile` under the entry point group ``kvproof.targets``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kvproof.properties.strategies.cases import Case

Adapter: TypeAlias = Callable[..., None]
"""Called as ``adapter(call, given, library)``: ``given`` are the contract's arguments by name, ``call`` is the
project's function bound by name, ``library`` its types. Fills the contract's outputs."""


HostAdapter: TypeAlias = Callable[..., Any]
"""Called as ``adapter(library, given)`` with plain data; gives plain data."""


@dataclass(frozen=True)
class Narrowing:
    """Input that the contract allows and this project's function does not take. Counted, never run.

    Attributes:
        words: what it is, and why that is no fault.
        takes: called with the contract's arguments by name (plain data): whether the function takes them.
    """

    words: str
    takes: Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Entry:
    """One contract and the function that is held to it.

    Attributes:
        contract: name of the kernel in kernels/ whose contract it is.
        function: "module:name", "module:name.attribute" of the function.
        rename: contract's argument -> the function's, where they differ.
        former: the function's argument -> names that it had in older signatures.
        drop: contract's arguments that the function does not take, and need not.
        constants: further arguments of the function, always the same.
        passes: names that an adapter passes, for the check at load; by default the contract's, renamed.
        returns: contract's outputs that the function returns instead of filling.
        adapter: see :data:`Adapter`; by default a call by name.
        layouts: configurations whose layouts a run without tolerated input draws from; by default any layout.
        tame: makes a drawn case one that the project's callers pass, for a run without tolerated input.
        fit: makes a drawn case one that the function takes, within the contract (rows of its width, without gaps).
        narrowings: what the function does not take all the same.
        callers: what the project's own callers guarantee beyond the contract's *requires*; a run without tolerated
            input keeps to it.
        era: what it belongs to, in words, where a project has several.
    """

    contract: str
    function: str
    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    drop: tuple[str, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    passes: tuple[str, ...] | None = None
    returns: tuple[str, ...] = ()
    adapter: Adapter | str | None = None
    layouts: tuple[str, ...] = ()
    tame: Callable[[Case], Case] | None = None
    fit: Callable[[Case], Case] | None = None
    narrowings: tuple[Narrowing, ...] = ()
    callers: tuple[Narrowing, ...] = ()
    era: str = ""


@dataclass(frozen=True)
class Profile:
    """One project.

    Attributes:
        name: as in ``--target name:PATH``.
        marker: a path that every checkout of the project has, to refuse a wrong folder at once.
        packages: parent packages to keep bare: their own ``__init__`` would import a whole engine.
        stubs: module -> attribute -> what stands for it: "identity" (a decorator that does nothing), "absent"
            (raises when called), "torch:name", "module:name", "returns:NUMBER" (a function that does), or a
            plain value.
        absent: packages that are not there; whatever is imported from them raises when it is used.
        types: name of a models/ type -> "module:name" of the project's, constructed from the same fields.
        entries: contracts and functions. Several entries of one contract are tried in order: eras of a project.
        missing: contract -> why the project does not implement it.
        host: name of a host module's contract -> adapter that runs it (see :mod:`kvproof.harness.targets.host`).
        kernels: modules whose ``@triton.jit`` functions are checked as compiled IR.
        hints: value of a compile-time parameter, and type of a run-time one, by name, for kernels that no case
            launches.
        relevant: paths of a checkout whose change can change a result; a sweep looks at their commits.
    """

    name: str
    marker: str
    packages: tuple[str, ...] = ()
    stubs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    absent: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    entries: tuple[Entry, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    host: Mapping[str, HostAdapter | str] = field(default_factory=dict[str, "HostAdapter | str"])
    kernels: tuple[str, ...] = ()
    hints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    relevant: tuple[str, ...] = ()

    def entries_of(self, contract: str) -> tuple[Entry, ...]:
        """The entries of one contract, newest era first."""
        return tuple(entry for entry in self.entries if entry.contract == contract)

    @property
    def contracts(self) -> tuple[str, ...]:
        """Contracts that some entry maps, each once."""
        return tuple(dict.fromkeys(entry.contract for entry in self.entries))
