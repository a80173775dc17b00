"""Workers on a GPU: a device assert and an illegal access poison one process, and only that one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kvproof.harness.check.differential import CaseFailed, check_case
from kvproof.harness.devices.registry import GPUS, find_device
from kvproof.harness.targets.device import IsolatedDevice, WorkerError
from kvproof.harness.targets.revisions import open_target
from kvproof.harness.targets.workers.outcomes import Limits
from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import TensorValue, contiguous
from kvproof.properties.strategies.cases import Case, poison

pytestmark = pytest.mark.gpu

KERNEL = all_kernels()["row_scatter"]
PROFILE = """
name = "deadly"
marker = "deadly.py"

[[entries]]
contract = "row_scatter"
function = "deadly:scatter"
"""


def case(tokens: int) -> Case:
    return Case(
        {
            "kv": TensorValue("fp32", poison(2, "fp32", 4 * tokens), (tokens, 4), (4, 1)),
            "dest_rows": contiguous("int32", np.arange(tokens)),
            "batch_id_per_token": contiguous("int32", np.zeros(tokens)),
            "pool": TensorValue("fp32", poison(1, "fp32", 40), (6, 4), (6, 1), 4),
        }
    )


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IsolatedDevice]:
    name = next((n for n in GPUS if find_device(n).probe().available), None)
    if name is None:
        pytest.skip("no GPU is here")
    folder = tmp_path_factory.mktemp("deadly")
    shutil.copy(Path(__file__).with_name("deadly.py"), folder / "deadly.py")
    (folder / "deadly.toml").write_text(PROFILE)
    found = IsolatedDevice(
        open_target(str(folder / "deadly.toml"), folder), name, Limits(seconds=20, first_seconds=60)
    )
    yield found
    found.close()


@pytest.mark.parametrize(("tokens", "words"), [(2, "assert"), (3, "illegal memory access")])
def test_a_poisoned_context_is_never_used_again(device: IsolatedDevice, tokens: int, words: str) -> None:
    check_case(KERNEL, device, case(1))
    starts = device.worker.starts
    with pytest.raises(CaseFailed) as failed:
        check_case(KERNEL, device, case(tokens))
    cause = failed.value.__cause__
    assert isinstance(cause, WorkerError)
    assert cause.kind == "lost"
    assert words in str(failed.value)
    check_case(KERNEL, device, case(1))  # the same kernel, in a new process
    assert device.worker.starts == starts + 1


def test_a_stray_write_into_the_guards_is_seen(device: IsolatedDevice) -> None:
    with pytest.raises(CaseFailed, match="outside it, was written"):
        check_case(KERNEL, device, case(4))
    check_case(KERNEL, device, case(1))
