"""z3 as a solver of SMT-LIB text."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvproof.harness.solve.query import Answer, Budget, Outcome
from kvproof.harness.solve.smtlib import Script
from kvproof.harness.solve.term import Value


class Z3Backend:
    """z3 with a fixed seed and a budget in its own resource units.

    Raises:
        ImportError: z3 is not installed.
    """

    name = "z3"

    def __init__(self) -> None:
        # A machine without z3 can still fuzz, so it is imported at first use; and it has no type stubs.
        z3: Any = importlib.import_module("z3")
        self._z3 = z3
        # Of its own: z3's main context is shared by the process and not safe between threads.
        self._context = z3.Context()
        self._counted = 0
        self.version = z3.get_version_string()

    def solve(self, script: Script, budget: Budget) -> Answer:
        """Answer one query."""
        start = time.perf_counter()
        # The plain SMT core: a fraction of the set-up cost of the strategies, which only some queries need.
        answer = self._attempt(self._z3.SimpleSolver(ctx=self._context), script, budget)
        if answer.outcome is Outcome.UNKNOWN:
            left = replace(budget, seconds=max(0.0, budget.seconds - (time.perf_counter() - start)))
            answer = self._attempt(self._z3.Solver(ctx=self._context), script, left)
        return replace(answer, seconds=time.perf_counter() - start)

    def core(self, script: Script, budget: Budget) -> tuple[Answer, tuple[int, ...]]:
        """Answer a query that is expected to be unsat, and if it is, name assertions that cannot hold together.

        Returns:
            The answer, without a model, and the places of the assertions that it rests on; all of them if it
            is not unsat.
        """
        z3 = self._z3
        start = time.perf_counter()
        solver = z3.SimpleSolver(ctx=self._context)
        self._limit(solver, budget)
        places = tuple(range(len(script.assertions)))
        try:
            solver.from_string(script.labelled())
            outcome = Outcome(str(solver.check()))
            if outcome is Outcome.UNSAT:
                places = tuple(sorted(int(name.decl().name()[2:]) for name in solver.unsat_core()))
        except z3.Z3Exception as error:
            return Answer(Outcome.UNKNOWN, self.name, reason=f"z3: {error}"), places
        reason = f"{solver.reason_unknown()}: {self._limits(budget)}" if outcome is Outcome.UNKNOWN else ""
        resources, seconds = self._resources(solver), time.perf_counter() - start
        return Answer(outcome, self.name, {}, reason, seconds, resources), places

    def _limit(self, solver: Any, budget: Budget) -> None:
        milliseconds = max(1, int(budget.seconds * 1000))
        solver.set("rlimit", budget.resources, "timeout", milliseconds, "random_seed", budget.seed)

    @staticmethod
    def _limits(budget: Budget) -> str:
        return f"budget of {budget.resources} resource units or {budget.seconds:g} s"

    def _attempt(self, solver: Any, script: Script, budget: Budget) -> Answer:
        self._limit(solver, budget)
        try:
            solver.from_string(script.text)
            outcome = Outcome(str(solver.check()))
        except self._z3.Z3Exception as error:
            return Answer(Outcome.UNKNOWN, self.name, reason=f"z3: {error}")
        model = self._model(solver.model(), script) if outcome is Outcome.SAT else {}
        reason = ""
        if outcome is Outcome.UNKNOWN:
            reason = f"{solver.reason_unknown()}: {self._limits(budget)}"
        return Answer(outcome, self.name, model, reason, resources=self._resources(solver))

    def _resources(self, solver: Any) -> int:
        statistics = solver.statistics()
        total = 0
        for place in range(len(statistics) - 1, -1, -1):  # it is among the last
            key, value = statistics[place]
            if key == "rlimit count":
                total = int(value)
                break
        used, self._counted = max(0, total - self._counted), total  # z3 counts per context, not per check
        return used

    def _model(self, model: Any, script: Script) -> Mapping[str, Value]:
        z3 = self._z3
        values: dict[str, Value] = {}
        for symbol, name, sort in script.symbols:
            make = z3.Int if sort == "Int" else z3.Bool
            # Completed: what the answer leaves open may be anything, and is 0 or false.
            value = model.eval(make(symbol, self._context), model_completion=True)
            values[name] = value.as_long() if sort == "Int" else z3.is_true(value)
        return values
