"""Checking a kernel of one's own: any ``@triton.jit`` function and a contract, from a test.

What each parameter is follows from its name: ``x`` or ``x_ptr`` is the tensor ``x``, ``x_stride`` the distance
of its rows, anything else the extent or scalar of that name. What does not is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvproof.harness.ir.compile import Signature, compile_ttir, jit_function
from kvproof.harness.ir.reader import ReadError, read_module
from kvproof.harness.ir.target import CUDA_90, Target
from kvproof.harness.prove.kernels.arguments import ITEM_BYTES, SymbolicArguments
from kvproof.harness.prove.kernels.ask import Asker
from kvproof.harness.prove.kernels.check import Failure, PropertyResult, check_modules, unsupported
from kvproof.harness.prove.kernels.launch import (
    INT32,
    Launch,
    Quantity,
    Setting,
    contract_view,
    rows_apart,
    stride_variable,
    symbol,
    symbolic_tensor,
)
from kvproof.harness.prove.kernels.probing import LARGEST_TENSOR
from kvproof.harness.prove.kernels.properties import Property
from kvproof.harness.prove.kernels.views import View
from kvproof.harness.solve.term import Term, variable
from kvproof.harness.symbolic.values import index_term
from kvproof.models.contract import Contract, Scalar, Tensor
from kvproof.reports.verdict import Verdict, combine

TRITON_TYPES = {
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "fp32": "fp32",
    "fp16": "fp16",
    "bf16": "bf16",
}

Value = int | str | Callable[[Any], Any]
"""What a parameter is: a number, the name of an extent, scalar or tensor, or a function of the arguments."""


@dataclass(frozen=True)
class KernelReport:
    """What a check of one kernel found.

    Attributes:
        kernel: its name.
        target: the GPU that it was compiled for.
        results: one a property, with their failures and counterexamples.
    """

    kernel: str
    target: Target
    results: tuple[PropertyResult, ...]

    @property
    def verdict(self) -> Verdict:
        """All properties in one."""
        return combine(r.verdict for r in self.results)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Everything that is not PASS."""
        return tuple(failure for result in self.results for failure in result.failures)

    @property
    def passed(self) -> bool:
        """Whether every property is PASS."""
        return self.verdict.passed

    def __str__(self) -> str:
        lines = [f"{self.kernel} for {self.target}: {self.verdict.status}"]
        for result in self.results:
            lines.append(f"  {result.property}: {result.verdict.status}")
            lines += [f"    {failure}" for failure in result.failures]
        return "\n".join(lines)


def check_kernel(
    kernel: Any,
    contract: Contract,
    *,
    grid: Callable[[Any], tuple[Any, ...]],
    arguments: Mapping[str, Value] | None = None,
    dtypes: Mapping[str, str] | None = None,
    target: Target = CUDA_90,
    identical: tuple[str, ...] = (),
    asker: Asker | None = None,
) -> KernelReport:
    """Check a kernel against a contract, for all extents, scalars and contents that the contract allows.

    Args:
        kernel: ``@triton.jit`` function.
        contract: what it promises, and what its caller guarantees.
        grid: programs along x, y, z, of the contract's arguments.
        arguments: what a parameter is, where its name does not say; a compile-time parameter needs its number.
        dtypes: element type of each tensor that accepts several.
        target: GPU to compile for.
        identical: tensors of which several may write one cell as long as they write the same.
        asker: the solver; z3 by default.

    Raises:
        ValueError: a parameter that is nothing of the contract's.
        CompileError: the kernel does not compile.
    """
    setting = setting_of(kernel, contract, grid=grid, arguments=arguments or {}, dtypes=dtypes or {})
    launch = setting.launches[0]
    text = compile_ttir(kernel, launch.signature, target).text
    try:
        module = read_module(text)
    except ReadError as error:
        results = [unsupported(name, str(error)) for name in Property]
    else:
        results = check_modules(setting, [(launch, module)], asker or Asker(), frozenset(identical))
    return KernelReport(jit_function(kernel).__name__, target, tuple(results))


def setting_of(
    kernel: Any,
    contract: Contract,
    *,
    grid: Callable[[Any], tuple[Any, ...]],
    arguments: Mapping[str, Value],
    dtypes: Mapping[str, str],
) -> Setting:
    """The setting of a single kernel, everything in it that the contract leaves open being free."""
    kinds = {t.name: dtypes.get(t.name, t.dtypes[0]) for t in contract.tensors}
    values = _values(contract, kinds)
    a = SymbolicArguments(values)
    function = jit_function(kernel)
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    scalars: dict[str, Term] = {}
    views: dict[str, View] = {}
    tensors = {t.name: t for t in contract.tensors}
    for parameter in function.params:
        name = parameter.name
        given = arguments.get(name, _by_name(name, values))
        if parameter.is_constexpr:
            constants[name] = given
        elif isinstance(given, str) and given in tensors:
            views[name] = contract_view(tensors[given], kinds[given], values, name)
            types[name] = "*" + TRITON_TYPES[kinds[given]]
        elif given is None:
            raise ValueError(f"parameter {name} of {function.__name__} is nothing of contract {contract.name!r}")
        else:
            value = values[given] if isinstance(given, str) else given(a) if callable(given) else given
            scalars[name] = index_term(value)
            types[name] = parameter.annotation_type or "i32"
    sizes = tuple(index_term(size) for size in (*grid(a), 1, 1)[:3])
    launch = Launch(function, Signature(types, constants), scalars, views, (sizes[0], sizes[1], sizes[2]))
    return Setting(
        function.__name__,
        contract,
        values,
        tuple(_quantities(contract, kinds)),
        (launch,),
        {},
        (
            f"no tensor is larger than {LARGEST_TENSOR >> 30} GiB",
            "integer scalars and the distances of rows fit 32 bits",
            *(f"within a row {t.name} is dense" for t in contract.tensors if t.strides == "any"),
        ),
        tuple(p for t in contract.tensors for p in rows_apart(t, kinds[t.name], values)),
    )


def _by_name(parameter: str, values: Mapping[str, Any]) -> Value | None:
    for name in (parameter, parameter.removesuffix("_ptr")):
        if name in values:
            return name
    return None


def _values(contract: Contract, kinds: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for tensor in contract.tensors:
        values.update({extent: symbol(extent) for extent in tensor.shape if isinstance(extent, str)})
    for argument in contract.arguments:
        if isinstance(argument, Scalar):
            values[argument.name] = symbol(argument.name)
    for tensor in contract.tensors:
        values[tensor.name] = symbolic_tensor(tensor, kinds[tensor.name], values)
        if tensor.strides != "contiguous" and len(tensor.shape) > 1:
            values[f"{tensor.name}_stride"] = symbol(f"{tensor.name}.stride")
    return values


def _quantities(contract: Contract, kinds: Mapping[str, str]) -> list[Quantity]:
    found: dict[str, Quantity] = {}
    for tensor in contract.tensors:
        constant = ITEM_BYTES[kinds[tensor.name]]
        for extent in tensor.shape:
            constant *= extent if isinstance(extent, int) else 1
        most = min(2**31 - 1, LARGEST_TENSOR // max(constant, 1))
        for extent in tensor.shape:
            if isinstance(extent, str):
                known = found.get(extent)
                high = most if known is None or known.range[1] is None else min(most, known.range[1])
                found[extent] = Quantity(extent, variable(extent), (0, high))
        if tensor.strides != "contiguous" and len(tensor.shape) > 1:
            found[f"{tensor.name}.stride"] = _stride(tensor)
    for argument in contract.arguments:
        if isinstance(argument, Scalar) and argument.name not in found:
            found[argument.name] = Quantity(argument.name, variable(argument.name), INT32)
    return list(found.values())


def _stride(tensor: Tensor) -> Quantity:
    width = 1
    for extent in tensor.shape[1:]:
        width *= extent if isinstance(extent, int) else 1
    low = width if tensor.role != "in" else 0
    dense = width if all(isinstance(extent, int) for extent in tensor.shape[1:]) else None
    return Quantity(f"{tensor.name}.stride", stride_variable(tensor.name), (low, 2**31 - 1), dense)
