"""How an entry point launches its kernels, found by letting it launch them.

The launcher stays the only place that says how a kernel is launched. It is run on the host a few times with
different extents, strides and scalars, each launch is caught, and every number that it passes is matched with
the quantity, or the small formula of quantities, that it equals in all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from kvproof.harness.prove.kernels.arguments import ITEM_BYTES
from kvproof.harness.prove.kernels.intervals import Interval
from kvproof.harness.prove.kernels.launch import (
    Launch,
    Quantity,
    Setting,
    contract_view,
    rows_apart,
    stride_variable,
    symbol,
    symbolic_tensor,
)
from kvproof.harness.prove.kernels.matching import Matcher, NoMatch
from kvproof.harness.prove.kernels.probing import (
    LARGEST_TENSOR,
    RUNS,
    Caught,
    Prober,
    Run,
    UnknownLaunch,
    stride_name,
)
from kvproof.harness.prove.kernels.program import LARGEST_GRID
from kvproof.harness.prove.kernels.views import View
from kvproof.harness.solve.term import Term, integer, variable
from kvproof.models.contract import Contract, Tensor, TensorValue


def probe(
    name: str,
    contract: Contract,
    launcher: Callable[..., Any],
    base: Mapping[str, Any],
    fixed: Collection[str] = (),
) -> Setting:
    """The setting of an entry point: everything that can vary without another specialisation does.

    Args:
        name: of the setting.
        contract: the entry point's contract.
        launcher: the entry point; takes the contract's arguments by name.
        base: one case: tensors as ``TensorValue``, of which only type, shape and strides count.
        fixed: extents and scalars that keep the case's number although they can vary.

    Raises:
        UnknownLaunch: it launches nothing, or passes numbers that no formula explains.
    """
    prober = Prober(contract, launcher, base)
    first = prober.run(prober.numbers)
    if first is None or not first.launches:
        raise UnknownLaunch(f"{contract.name} launches nothing on the case {name!r}")
    prober.make_room(first)
    free = [n for n in prober.free(first) if n not in fixed]
    ranges = prober.ranges(first, free)
    runs = prober.runs(first, ranges)
    # What did not vary in any run cannot be told from a constant.
    free = [n for n in free if len({run.numbers[n] for run in runs}) > 2]
    if len(runs) < RUNS:
        raise UnknownLaunch(f"{contract.name}: {len(runs)} of {RUNS} runs launch what the case {name!r} launches")
    values = _values(prober, free)
    quantities = tuple(_quantities(prober, ranges, free, values))
    return Setting(
        name,
        contract,
        values,
        quantities,
        tuple(_launches(prober, runs, free, values)),
        {n: str(v) for n, v in prober.numbers.items() if n not in free and not n.endswith(".stride")},
        (
            f"launches are as {len(runs)} runs of the launcher made them",
            f"no tensor is larger than {LARGEST_TENSOR >> 30} GiB",
            *(
                f"within a row {t.name} has the strides of dense elements"
                for t in prober.tensors
                if t.strides == "any" and len(t.shape) > 2
            ),
        ),
        tuple(p for t in prober.tensors for p in rows_apart(t, base[t.name].dtype, values)),
    )


def _values(prober: Prober, free: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for number, value in prober.numbers.items():
        if not number.endswith(".stride"):
            values[number] = symbol(number) if number in free else value
    for tensor in prober.free_strides:
        if stride_name(tensor) not in free:
            # Another stride would launch another specialisation.
            values[stride_name(tensor)] = _row(tensor, values) + prober.numbers[stride_name(tensor)]
    for argument in prober.contract.arguments:
        value = prober.base.get(argument.name)
        if isinstance(argument, Tensor) and isinstance(value, TensorValue):
            values[argument.name] = symbolic_tensor(argument, value.dtype, values)
        elif argument.name not in values:
            values[argument.name] = value
    return values


def _quantities(
    prober: Prober, ranges: Mapping[str, Interval], free: Sequence[str], values: Mapping[str, Any]
) -> Iterator[Quantity]:
    for name in free:
        if not name.endswith(".stride"):
            yield Quantity(name, variable(name), ranges[name])
    for tensor in prober.free_strides:
        if stride_name(tensor) not in free:
            continue
        width = _row(tensor, values)
        # Rows that share elements can be read, but not written.
        low = width if tensor.role != "in" else 0
        yield Quantity(
            stride_name(tensor), stride_variable(tensor.name), (low, 2**31 - 1), _dense(tensor, values, width)
        )


def _dense(tensor: Tensor, values: Mapping[str, Any], width: int) -> int | None:
    """The stride of rows next to each other, if it is a number."""
    extents = [values[e] if isinstance(e, str) else e for e in tensor.shape[1:]]
    return width if all(isinstance(e, int) for e in extents) else None


def _row(tensor: Tensor, values: Mapping[str, Any]) -> int:
    width = 1
    for extent in tensor.shape[1:]:
        found = values[extent] if isinstance(extent, str) else extent
        width *= found if isinstance(found, int) else 1
    return width


def _launches(
    prober: Prober, runs: Sequence[Run], free: Sequence[str], values: Mapping[str, Any]
) -> Iterator[Launch]:
    known: list[tuple[Term, list[int]]] = [
        (variable(name), [run.numbers[name] for run in runs]) for name in free if not name.endswith(".stride")
    ]
    for tensor in prober.free_strides:
        if stride_name(tensor) not in free:
            continue
        known.append((stride_variable(tensor.name), [run.tensors[tensor.name].stride(0) for run in runs]))
    for place, caught in enumerate(runs[0].launches):
        constants = [v for v in caught.signature.constants.values() if type(v) is int and v > 1]
        yield _launch(prober, [run.launches[place] for run in runs], runs, Matcher(known, constants), values)


def _launch(
    prober: Prober, each: Sequence[Caught], runs: Sequence[Run], matcher: Matcher, values: Mapping[str, Any]
) -> Launch:
    """One launch, from how it was made in each run."""
    loose: list[Quantity] = []

    def explained(what: str, numbers: Sequence[int], widest: Interval) -> Term:
        try:
            return matcher.term(numbers)
        except NoMatch:
            # Anything of its type: what then holds, holds of what it is.
            quantity = Quantity(what, variable(what), widest)
            loose.append(quantity)
            return quantity.term

    signature = each[0].signature
    views: dict[str, View] = {}
    arguments: dict[str, Term] = {}
    for name, value in each[0].values.items():
        numbers = [caught.values[name] for caught in each]
        if hasattr(value, "data_ptr"):
            try:
                views[name] = _view(prober, name, each[0].values, numbers, runs, matcher, values)
            except NoMatch as error:
                raise UnknownLaunch(f"{prober.contract.name}: argument {name}: {error}") from None
        elif isinstance(value, (bool, int)):
            half = 2 ** (63 if signature.types[name] == "i64" else 31)
            arguments[name] = explained(f"argument {name}", [int(n) for n in numbers], (-half, half - 1))
        # A float argument has no part in an address.
    x, y, z = (
        explained(f"grid {axis}", [caught.grid[at] for caught in each], (1, LARGEST_GRID[at]))
        for at, axis in enumerate("xyz")
    )
    return Launch(each[0].kernel, signature, arguments, views, (x, y, z), tuple(loose))


def _view(
    prober: Prober,
    argument: str,
    beside: Mapping[str, Any],
    tensors: Sequence[Any],
    runs: Sequence[Run],
    matcher: Matcher,
    values: Mapping[str, Any],
) -> View:
    item = tensors[0].element_size()
    shape = tuple(matcher.term([t.shape[d] for t in tensors]) for d in range(tensors[0].dim()))
    strides = tuple(matcher.term([t.stride(d) for t in tensors]) for d in range(tensors[0].dim()))
    for tensor in prober.tensors:
        owned = [run.tensors[tensor.name] for run in runs]
        if all(_storage(t) == _storage(o) for t, o in zip(tensors, owned, strict=True)):
            dtype = prober.base[tensor.name].dtype
            start = matcher.term([t.storage_offset() for t in tensors])
            own = contract_view(tensor, dtype, values, argument)
            same = (shape, strides, item, start) == (own.shape, own.strides, ITEM_BYTES[dtype], integer(0))
            return View(argument, tensor.name, dtype, item, shape, strides, start, same)
    # Views of one allocation are views of one tensor, wherever each begins.
    like = (n for n, t in beside.items() if hasattr(t, "data_ptr") and _storage(t) == _storage(tensors[0]))
    start = matcher.term([t.storage_offset() for t in tensors])
    return View(argument, f"scratch {next(like)}", str(tensors[0].dtype), item, shape, strides, start, same=False)


def _storage(tensor: Any) -> int:
    """What tells storages apart that have no memory."""
    return tensor.untyped_storage()._cdata
