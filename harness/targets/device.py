"""A worker as a device: a launch goes to another process, and whatever becomes of that is a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvproof.harness.devices.base import AccessError, Availability, DeviceError, DeviceLostError
from kvproof.harness.targets.spec import TargetSpec
from kvproof.harness.targets.workers.outcomes import Launched, Limits, NotReached, NotStarted, WorkerDied
from kvproof.harness.targets.workers.parent import Worker
from kvproof.harness.targets.workers.protocol import CorruptReply, checksum
from kvproof.kernels.registry import Kernel
from kvproof.models.contract import STORAGE_DTYPES, TensorValue


class WorkerError(DeviceError):
    """A launch cost its worker.

    Attributes:
        kind: "killed", "exit", "hang", "out of memory", "corrupt reply" or "lost" (the GPU's context).
    """

    def __init__(self, kind: str, detail: str) -> None:
        self.kind = kind
        super().__init__(detail)


class NoWorkerError(DeviceLostError):
    """The worker does not start any more. No launch has done that, so it is no fault of the one at hand."""


class IsolatedDevice:
    """A device in a worker process, which runs a target's functions. It lives through everything they do.

    Args:
        target: whose functions.
        name: device that the worker uses ("cuda", "hip", "ir", "interpret").
        limits: what the worker may take.

    Attributes:
        worker: the worker; ``worker.deaths`` tells what it has died of.
    """

    def __init__(self, target: TargetSpec, name: str, limits: Limits | None = None) -> None:
        self.name = name
        self.target = target
        self.worker = Worker(target.to_json(), name, limits or Limits())
        self._ran: set[str] = set()

    def probe(self) -> Availability:
        """Whether the worker starts and its device is here."""
        try:
            described = self.worker.describe()
        except WorkerDied as died:
            return Availability(False, f"the worker of {self.target.label} did not start: {died}")
        return Availability(bool(described["available"]), str(described["detail"]))

    def offered(self) -> Mapping[str, Mapping[str, Any]]:
        """The functions that the target offers, by contract."""
        return self.worker.describe()["offered"]

    def not_offered(self) -> Mapping[str, str]:
        """Contracts that it does not offer, with the reason."""
        return self.worker.describe()["not_offered"]

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        """Run one launch and wait for it.

        Raises:
            AccessError: as the device says.
            WorkerError: it cost the worker; the next launch gets a new one.
            NoWorkerError: none starts any more.
            DeviceError: the launch failed otherwise.
        """
        return self.submit(kernel, values)()

    def submit(self, kernel: Kernel, values: Mapping[str, Any]) -> Callable[[], Mapping[str, TensorValue]]:
        """Begin a launch; what it returns waits for the end of it, and raises as :meth:`run` does.

        One more may be begun before it is waited for; launches are waited for in the order in which they began.
        """
        pending = self._submit(kernel, [values])

        def result() -> Mapping[str, TensorValue]:
            (outcome,) = pending()
            if isinstance(outcome, DeviceError):
                raise outcome
            return outcome

        return result

    def run_many(
        self, kernel: Kernel, cases: Sequence[Mapping[str, Any]]
    ) -> list[Mapping[str, TensorValue] | DeviceError]:
        """Run several launches from one request; each one's result, or what became of it.

        If the worker does not live through them, all of them are run again one by one.
        """
        return self._submit(kernel, cases)()

    def _submit(
        self, kernel: Kernel, cases: Sequence[Mapping[str, Any]]
    ) -> Callable[[], list[Mapping[str, TensorValue] | DeviceError]]:
        limits = self.worker.limits
        seconds = limits.seconds * len(cases) if kernel.name in self._ran else limits.first_seconds
        try:
            waiting = self.worker.start_run([(kernel.name, values) for values in cases], seconds)
        except NotStarted as gone:
            raise NoWorkerError(f"the worker of {self.target.label}: {gone}") from gone
        except WorkerDied as died:
            failure = died

            def waiting() -> Launched:
                raise failure

        def outcome() -> list[Mapping[str, TensorValue] | DeviceError]:
            try:
                launched = waiting()
            except NotReached:
                return self._submit(kernel, cases)()
            except WorkerDied as died:
                self._ran.clear()  # a new process compiles anew
                if len(cases) > 1:
                    return [self.run_many(kernel, [values])[0] for values in cases]
                return [WorkerError(died.kind, f"{kernel.name} on {self.name}: the worker died: {died}")]
            return self._outcomes(kernel, cases, launched)

        return outcome

    def _outcomes(
        self, kernel: Kernel, cases: Sequence[Mapping[str, Any]], launched: Launched
    ) -> list[Mapping[str, TensorValue] | DeviceError]:
        self._ran.add(kernel.name)
        reply = launched.reply
        if reply.get("status") != "done":
            return [_whole_failed(kernel, self.name, reply)] * len(cases)
        found: list[Mapping[str, TensorValue] | DeviceError] = []
        for number, values in enumerate(cases):
            try:
                found.append(_result(launched, number, values))
            except (KeyError, IndexError, TypeError, ValueError, CorruptReply) as error:
                self.worker.close()
                detail = f"corrupt reply: {type(error).__name__}: {error}"
                self.worker.deaths.append(detail)
                return [*found, *[WorkerError("corrupt reply", detail)] * (len(cases) - number)]
        return found

    def close(self) -> None:
        """End the worker."""
        self.worker.close()


def _whole_failed(kernel: Kernel, device: str, reply: Mapping[str, Any]) -> DeviceError:
    text = f"{kernel.name} on {device}: {reply.get('message', 'no message')}"
    return WorkerError(str(reply.get("kind")), text) if reply.get("last") else DeviceError(text)


def _result(launched: Launched, number: int, values: Mapping[str, Any]) -> Mapping[str, TensorValue] | DeviceError:
    """One launch's tensors out of the shared memory.

    Raises:
        ValueError: bytes that are not what was announced.
    """
    one = launched.reply["launches"][number]
    if one["status"] != "done":
        return _failed(one)
    described = launched.described[number]["values"]
    arrays: dict[int, Any] = {}
    results: dict[str, TensorValue] = {}
    for name, value in values.items():
        if not isinstance(value, TensorValue):
            continue
        storage = described[name]["storage"]
        if storage not in arrays:
            offset, size, _ = launched.placed[storage]
            data = launched.arena.view(offset, size).copy()
            if checksum(data) != one["checksums"][str(storage)]:
                raise ValueError(f"the checksum of {name} is wrong")
            arrays[storage] = data.view(STORAGE_DTYPES[value.dtype])
        results[name] = TensorValue(value.dtype, arrays[storage], value.shape, value.strides, value.offset)
    return results


def _failed(one: Mapping[str, Any]) -> DeviceError:
    kind, message = str(one["kind"]), str(one["message"])
    if "tensor" in one:
        programs = tuple(tuple(int(p) for p in program) for program in one["programs"])
        return AccessError(kind, str(one["tensor"]), int(one["element"]), programs, message)
    # A lost context went with its process, so for the campaign it is one failed case.
    return WorkerError(kind, message) if kind in {"lost", "out of memory"} else DeviceError(message)
