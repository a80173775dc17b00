"""Reading a profile from a TOML file: what is wrong in it is said by file, key, value and what is allowed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from kvproof.harness.targets.contracts import all_contracts
from kvproof.harness.targets.profile import Entry, Profile
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.errors import LayoutError

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def read_profile(path: Path) -> tuple[Profile, Path]:
    """The profile of a TOML file, and the folder of the project's code, which it names as ``root``.

    Its keys are the attributes of :class:`Profile` and :class:`Entry` (tables ``[[entries]]``); an adapter is
    "module:function", found beside the file. Without ``name`` it is called as the file is.

    Raises:
        LayoutError: no such file, or something in it that no profile has; the message says where, and what is
            allowed.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LayoutError(f"profile {str(path)!r} cannot be read: {error}") from error
    data = {"name": path.stem, "marker": ".", **data}
    found = _Table(path, "", data).read(_PROFILE)
    tables = found.pop("entries", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in cast("list[Any]", tables)):
        _refuse(path, "entries", data["entries"], "tables [[entries]]")
    entries = [
        _entry(path, f"entries[{number}].", table)
        for number, table in enumerate(cast("list[dict[str, Any]]", tables))
    ]
    if not (entries or found.get("host") or found.get("kernels")):
        raise LayoutError(f"profile {path} names nothing to check; allowed: [[entries]], host or kernels")
    root = path.parent / found.pop("root", ".")
    return Profile(**found, entries=tuple(entries)), root


def _entry(path: Path, where: str, data: Mapping[str, Any]) -> Entry:
    found = _Table(path, where, data).read(_ENTRY)
    for name in ("contract", "function"):
        if name not in found:
            raise LayoutError(
                f"profile {path}: {where[:-1]} needs {name!r}; it has {', '.join(data) or 'nothing'}"
            )
    arguments = [argument.name for argument in all_contracts()[found["contract"]].contract.arguments]
    for key in ("rename", "drop", "returns"):
        for name in found.get(key, ()):
            if name not in arguments:
                allowed = f"arguments of {found['contract']}: {', '.join(arguments)}"
                _refuse(path, f"{where}{key}", name, allowed)
    return Entry(**found)


def _refuse(path: Path, key: str, value: Any, allowed: str) -> NoReturn:
    raise LayoutError(f"profile {path}: {key} is {value!r}; allowed: {allowed}")


class _Table:
    """One table of the file, and where in it that lies."""

    def __init__(self, path: Path, where: str, data: Mapping[str, Any]) -> None:
        self.path, self.where, self.data = path, where, data

    def read(self, known: Mapping[str, _Reader]) -> dict[str, Any]:
        """Its values, each as its reader takes it."""
        for key in self.data:
            if key not in known:
                raise LayoutError(
                    f"profile {self.path}: {self.where}{key} = {self.data[key]!r}: {key!r} is nothing of it; "
                    f"allowed: {', '.join(sorted(known))}"
                )
        return {key: known[key](self, key, value) for key, value in self.data.items()}

    def refuse(self, key: str, value: Any, allowed: str) -> NoReturn:
        """Say what is wrong."""
        _refuse(self.path, f"{self.where}{key}", value, allowed)


_Reader = Callable[[_Table, str, Any], Any]
"""Called with the table, the key and the value; gives the value as a profile has it."""


def _text(table: _Table, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        table.refuse(key, value, "a text that is not empty")
    return value


def _words(table: _Table, key: str, value: Any) -> str:
    """A text, perhaps empty."""
    return value if isinstance(value, str) else table.refuse(key, value, "a text")


def _reference(table: _Table, key: str, value: Any) -> str:
    if not isinstance(value, str) or not _REFERENCE.fullmatch(value):
        table.refuse(key, value, 'a text "module:name"')
    return value


def _anything(_table: _Table, _key: str, value: Any) -> Any:
    return value


def _one_of(names: Callable[[], Collection[str]]) -> _Reader:
    def read(table: _Table, key: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names():
            table.refuse(key, value, ", ".join(sorted(names())))
        return value

    return read


def _list_of(one: _Reader) -> _Reader:
    def read(table: _Table, key: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            table.refuse(key, value, "a list of texts")
        return tuple(one(table, f"{key}[{at}]", each) for at, each in enumerate(cast("list[Any]", value)))

    return read


def _table_of(one: _Reader, names: _Reader | None = None) -> _Reader:
    def read(table: _Table, key: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            table.refuse(key, value, "a table")
        if names is not None:
            for name in cast("dict[str, Any]", value):
                names(table, f"{key}, a name in it,", name)
        return {name: one(table, f"{key}.{name}", each) for name, each in cast("dict[str, Any]", value).items()}

    return read


_contract = _one_of(all_contracts)

_PROFILE: Mapping[str, _Reader] = {
    "name": _text,
    "marker": _text,
    "root": _text,
    "packages": _list_of(_text),
    "stubs": _table_of(_table_of(_anything)),
    "absent": _list_of(_text),
    "types": _table_of(_reference),
    "entries": _anything,
    "missing": _table_of(_text, _contract),
    "host": _table_of(_reference),
    "kernels": _list_of(_text),
    "hints": _table_of(_anything),
    "relevant": _list_of(_text),
}
_ENTRY: Mapping[str, _Reader] = {
    "contract": _contract,
    "function": _reference,
    "rename": _table_of(_text),
    "former": _table_of(_list_of(_text)),
    "drop": _list_of(_text),
    "constants": _table_of(_anything),
    "passes": _list_of(_text),
    "returns": _list_of(_text),
    "adapter": _reference,
    "layouts": _list_of(_one_of(lambda: CONFIGS)),
    "era": _words,
}
"""What a file may say. Attributes that are code (narrowings, callers, tame, fit) it cannot."""
