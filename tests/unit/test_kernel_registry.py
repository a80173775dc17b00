"""Every registered kernel has all of its parts."""

from __future__ import annotations

import importlib
import importlib.util
import inspect

import pytest

from kvproof.kernels.registry import Kernel, all_kernels, register, resolve
from kvproof.models.contract import Access
from kvproof.properties.strategies.cases import all_kernel_properties


@pytest.fixture(params=all_kernels())
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """Each registered kernel."""
    return all_kernels()[request.param]


def test_it_lies_in_a_folder_of_its_name(kernel: Kernel) -> None:
    for part in ("kernel", "spec", "contract", "cases"):
        assert importlib.util.find_spec(f"kvproof.kernels.{kernel.name}.{part}") is not None, part


def test_its_contract_is_complete(kernel: Kernel) -> None:
    contract = kernel.contract
    assert kernel.summary
    assert contract.summary
    assert contract.source
    assert contract.tolerates
    for argument in contract.arguments:
        assert argument.meaning, argument.name
    writes: list[Access] = [access for access in contract.writes if access.mode == "must"]
    assert writes
    assert all((access.value is None) is not (access.bound is None) and access.words for access in writes)
    written = {access.buffer for access in contract.writes}
    assert written >= {tensor.name for tensor in contract.tensors if tensor.role == "out"}
    names = [clause.name for clause in contract.requires] + [tolerance.name for tolerance in contract.tolerates]
    assert len(set(names)) == len(names)


def test_it_has_a_fuzz_property(kernel: Kernel) -> None:
    item = all_kernel_properties()[kernel.name]
    assert item.words
    assert item.needs.cases > 0
    assert item.needs.events


def test_its_launcher_takes_the_contracts_arguments(kernel: Kernel) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    # Anything else that it takes has a default.
    inspect.signature(kernel.load()).bind(**{argument.name: None for argument in kernel.contract.arguments})
    for reference in kernel.triton:
        assert resolve(reference).arg_names


def test_it_has_production_cases(kernel: Kernel) -> None:
    assert callable(resolve(kernel.cases))


def test_every_property_is_of_a_kernel() -> None:
    assert set(all_kernel_properties()) == set(all_kernels())


def test_a_name_cannot_be_registered_twice(kernel: Kernel) -> None:
    assert register(kernel) is kernel
    with pytest.raises(ValueError, match="registered twice"):
        register(Kernel(kernel.name, kernel.contract, "", (), "", ""))


def test_the_registry_imports_neither_torch_nor_triton() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from kvproof.kernels.registry import all_kernels; all_kernels(); "
        "print([m for m in ('torch', 'triton') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
