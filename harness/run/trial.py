"""A target's function on drawn cases: failures of one cause after the other."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from hypothesis import strategies as st

from kvproof.harness.check import differential
from kvproof.harness.check.codec import case_json
from kvproof.harness.devices.base import Device, DeviceLostError
from kvproof.harness.run.ahead import NOT_AGAIN, Ahead, Drawn, Late, Wanted
from kvproof.harness.run.exploration import Abandon, Shrinking, explore
from kvproof.harness.targets.device import NoWorkerError
from kvproof.harness.targets.profile import Entry
from kvproof.kernels.registry import Kernel
from kvproof.models.deepseek_v4 import ModelConfig, real_configs
from kvproof.properties.strategies.cases import Case, KernelProperty

LEAST_SHRINKING = 3.0
"""Seconds for shrinking one failure, however much the others have used."""
LOST = "not shrunk to the end: nothing runs any more"

_PARTS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")
_NUMBERS = re.compile(r"\bbits [0-9a-f. ]+|0x[0-9a-f]+|-?\d+")


def cause_of(failure: differential.CaseFailed) -> str:
    """What a failure is about, without the numbers of the case: equal for cases that fail in the same way."""
    text = f"{failure.kind}: {failure.message.split('; ')[0]}"
    while _PARTS.search(text):
        text = _PARTS.sub("", text)
    return " ".join(_NUMBERS.sub("#", text).split())[:300]


class Trial:
    """Draws and checks cases. Failures of known causes are counted; one run shrinks failures of one cause.

    Args:
        kernel, device, prop: what runs, where, and what is drawn.
        subject: configuration whose layout the cases have.
        entry: the function's entry in its profile.
        tolerated: whether cases may hold what a caller should not pass.
        ahead: whether a worker runs a case while the next is drawn (see :mod:`kvproof.harness.run.ahead`).

    Attributes:
        ran: cases that ran.
        known: cases of each known cause.
        left_out: cases that the function does not take, by reason.
        lost: why nothing can be run any more; empty while it can.
        unshrunk: failures that nothing more can be found out about.
    """

    def __init__(
        self,
        kernel: Kernel,
        device: Device,
        prop: KernelProperty,
        subject: ModelConfig | None,
        entry: Entry | None,
        *,
        tolerated: bool,
        ahead: bool = True,
    ) -> None:
        self.kernel, self.device, self.prop = kernel, device, prop
        self.layouts = entry.layouts if entry and subject is None and not tolerated else ()
        named = [config for config in real_configs() if config.name in self.layouts]
        self.cases = st.one_of([prop.cases(config) for config in named]) if named else prop.cases(subject)
        self.tame = entry.tame if entry and not tolerated else None
        self.fit = entry.fit if entry else None
        self.narrowings = entry.narrowings if entry else ()
        self.callers = entry.callers if entry else ()
        self.tolerated = tolerated
        self.tolerances = {t.name for t in kernel.contract.tolerates}
        self.ahead = Ahead(self.settle) if ahead and hasattr(device, "submit") else None
        self.ran = 0
        self.known: Counter[str] = Counter()
        self.also: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.cause = ""
        self.unshrunk: list[Failure] = []
        self.lost = ""

    def _case(self, case: Case, *, counting: bool) -> Case | None:
        """The case as the function takes it; None if it is none for this run."""
        if self.tame is not None:
            case = self.tame(case)
        if not self.tolerated and self.tolerances & case.events:
            return None
        if self.fit is not None:
            case = self.fit(case)
        if not self.tolerated and not all(c.takes(case.values) for c in self.callers):
            return None
        refused = next((n for n in self.narrowings if not n.takes(case.values)), None)
        if refused is not None:
            self.left_out[refused.words] += counting
            return None
        return case

    def __call__(self, data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        """Draw a case and check it, or one before it."""
        try:
            return self._drawn(data, shrinking)
        except NoWorkerError as error:
            raise self._gone(error) from error

    def _gone(self, error: DeviceLostError) -> Abandon:
        """What ends the run, since nothing can be run any more; a failure that was being shrunk stays."""
        self.lost = str(error)
        if self.ahead is not None:
            self._judge_what_ran(self.ahead)
        return Abandon(None, LOST)

    def _drawn(self, data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        ahead = self.ahead if shrinking.stop is None else None
        counting = shrinking.stop is None and not (ahead and ahead.redrawing)
        number = ahead.place() if ahead else 0
        case = self._case(data.draw(self.cases), counting=counting)
        if ahead is not None and ahead.redrawing:
            return self._again(ahead, number, case, shrinking)
        if case is None:
            return ()
        if ahead is not None:
            return self._next(ahead, number, case)
        return self._waited_for(case, shrinking, counting=counting)

    def _waited_for(self, case: Case, shrinking: Shrinking, *, counting: bool) -> Iterable[str]:
        """Run a case and judge it; its events."""
        self.ran += counting
        try:
            differential.check_case(self.kernel, self.device, case, self.prop.explain)
        except differential.CaseFailed as failure:
            cause = cause_of(failure)
            if cause in self.known:
                self.known[cause] += counting
                return ()
            if shrinking.stop is not None and cause != self.cause:
                return ()
            self._fails(Failure(cause, zlib.compress(_key(case)[1]), failure), shrinking)
        except NoWorkerError:
            self.ran -= counting
            raise
        except DeviceLostError as error:
            # A device of this process, which the launch at hand has broken.
            failure = differential.CaseFailed("device", str(error), "the launch runs", str(error))
            self.unshrunk.append(Failure(cause_of(failure), zlib.compress(_key(case)[1]), failure, LOST))
            raise self._gone(error) from error
        return case.events

    def _fails(self, failure: Failure, shrinking: Shrinking) -> NoReturn:
        """Tell hypothesis, always from here: to it failures raised at two places are two."""
        self.cause = failure.cause
        raise shrinking.failed(failure) from None

    # ---- with a worker, which runs a case while the next is drawn -----------------------

    def _next(self, ahead: Ahead, number: int, case: Case) -> Iterable[str]:
        """Send a case; the events of one that has come back.

        Raises:
            Late: that one has failed.
        """
        check = differential.CaseCheck(self.kernel, self.device, case, self.prop.explain)
        before = ahead.next(Drawn(check, ahead.chunk, number))
        ahead.back = None
        self.ran += 1
        events = self._judged(ahead, before)
        if ahead.wanted:
            raise Late(1, self._rest(ahead))
        return events

    def settle(self) -> Iterable[str]:
        """Wait for the last cases; their events.

        Raises:
            Late: one has failed.
        """
        assert self.ahead is not None
        try:
            events = self._rest(self.ahead)
        except NoWorkerError as error:
            raise self._gone(error) from error
        if self.ahead.wanted:
            raise Late(0, events)
        return events

    def _rest(self, ahead: Ahead) -> list[str]:
        """Wait for what is on its way: it was run, so it counts, and is drawn again if it fails otherwise."""
        events: list[str] = []
        while ahead.pending:
            events += self._judged(ahead, ahead.last())
        return events

    def _judge_what_ran(self, ahead: Ahead) -> None:
        """Judge what came back before the worker was gone: the case that it died of is among that."""
        waiting, ahead.back = ahead.back, None
        self._judged(ahead, waiting)
        while ahead.pending:
            try:
                self._judged(ahead, ahead.last())
            except NoWorkerError:  # it was to be sent again, and has not run
                ahead.pending.pop(0)
                self.ran -= 1

    def _judged(self, ahead: Ahead, drawn: Drawn | None) -> Iterable[str]:
        """Events of a case that came back. One that has failed in a way not known yet is wanted again."""
        if drawn is None:
            return ()
        case = drawn.check.case
        try:
            drawn.check.judge()
        except differential.CaseFailed as failure:
            cause = cause_of(failure)
            if cause in self.known:
                self.known[cause] += 1
            elif any(wanted.failure.cause == cause for wanted in ahead.wanted):
                self.also[cause] += 1
            else:
                key, text = _key(case)
                failed = Failure(cause, zlib.compress(text), failure)
                ahead.wanted.append(Wanted(drawn.chunk, drawn.number, key, failed))
            return ()
        return case.events

    def _again(self, ahead: Ahead, number: int, case: Case | None, shrinking: Shrinking) -> Iterable[str]:
        """Run a failed case again when its turn comes, alone; pass over what came before."""
        wanted = ahead.wanted[0]
        if number < wanted.number:
            return ()
        if case is None or _key(case)[0] != wanted.key:
            raise Abandon(wanted.failure, NOT_AGAIN)
        try:
            differential.check_case(self.kernel, self.device, case, self.prop.explain)
        except differential.CaseFailed as failure:
            cause = cause_of(failure)
            if cause not in self.known:
                self._fails(Failure(cause, wanted.failure.launch, failure), shrinking)
        raise Abandon(wanted.failure, NOT_AGAIN)


def _key(case: Case) -> tuple[str, bytes]:
    """(hash of a case, the case as JSON)."""
    text = json.dumps(case_json(case), sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest(), text


@dataclass(frozen=True)
class Failure:
    """One cause, with the smallest case that shows it.

    Attributes:
        cause: see :func:`cause_of`.
        launch: the case as JSON, compressed.
        failed: what went wrong.
        note: what is unusual about it.
    """

    cause: str
    launch: bytes
    failed: differential.CaseFailed
    note: str = ""

    @property
    def message(self) -> str:
        """What went wrong, in words."""
        return f"{self.failed} ({self.note})" if self.note else str(self.failed)

    @property
    def case(self) -> Any:
        """The case as JSON values."""
        return json.loads(zlib.decompress(self.launch))


@dataclass(frozen=True)
class Hunt:
    """Causes found, and how many cases showed each event."""

    failures: tuple[Failure, ...]
    events: Mapping[str, int]


def find_causes(
    trial: Trial,
    *,
    budget_seconds: float,
    seed: int,
    case_target: int | None,
    most_causes: int,
    shrink_seconds: float,
) -> Hunt:
    """Run a trial again and again, each time for one cause more, until the budget or the cases are used up.

    Shrinking takes no more time than the budget, or than one failure may take if that is more; when most of it is
    used up, each further failure has :data:`LEAST_SHRINKING`.
    """
    failures: list[Failure] = []
    events: Counter[str] = Counter()
    spent, chunk, left = 0.0, 0, max(budget_seconds, shrink_seconds)
    while len(failures) < most_causes and not trial.lost:
        trial.cause = ""
        run = explore(
            trial,
            budget_seconds=max(budget_seconds - spent, 0.0),
            seed=seed,
            enough=lambda _cases, _events: case_target is not None and trial.ran >= case_target,
            first_chunk=chunk,
            shrink_seconds=min(shrink_seconds, max(left, LEAST_SHRINKING)),
        )
        events.update(run.events)
        spent += min(run.seconds, budget_seconds)
        left -= run.shrink_seconds
        chunk += 1 + run.cases // 100
        if run.failure is None:
            break
        failures.append(replace(run.failure, note=run.note))
        trial.known[failures[-1].cause] += 1 + trial.also.pop(failures[-1].cause, 0)
    for failure in (*trial.unshrunk, *_behind(trial)):
        failures.append(failure)
        trial.known[failure.cause] += 1
    return Hunt(tuple(failures), events)


def _behind(trial: Trial) -> list[Failure]:
    """What failed behind the last cause that was looked for."""
    note = LOST if trial.lost else "not shrunk: as many causes were found as were asked for"
    return [replace(wanted.failure, note=note) for wanted in (trial.ahead.wanted if trial.ahead else ())]
