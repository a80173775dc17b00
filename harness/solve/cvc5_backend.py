"""cvc5 as a solver of SMT-LIB text."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from typing import Any

from kvproof.harness.solve.query import Answer, Budget, Outcome
from kvproof.harness.solve.smtlib import Script
from kvproof.harness.solve.term import Value


class Cvc5Backend:
    """cvc5 with a fixed seed and a budget in its own resource units.

    Raises:
        ImportError: cvc5 is not installed.
    """

    name = "cvc5"

    def __init__(self) -> None:
        # A machine without cvc5 can still fuzz, so it is imported at first use; and it has no type stubs.
        self._cvc5: Any = importlib.import_module("cvc5")
        self._terms = self._cvc5.TermManager()
        self.version: str = self._cvc5.__version__

    def solve(self, script: Script, budget: Budget) -> Answer:
        """Answer one query."""
        cvc5 = self._cvc5
        start = time.perf_counter()
        solver = cvc5.Solver(self._terms)
        solver.setOption("produce-models", "true")
        solver.setOption("rlimit", str(budget.resources))
        solver.setOption("tlimit-per", str(int(budget.seconds * 1000)))
        solver.setOption("seed", str(budget.seed))
        solver.setOption("sat-random-seed", str(budget.seed))
        symbols = cvc5.SymbolManager(self._terms)
        parser = cvc5.InputParser(solver, symbols)
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script.text, "query")
        try:
            while True:
                command = parser.nextCommand()
                if command.isNull():
                    break
                command.invoke(solver, symbols)
            result = solver.checkSat()
        except RuntimeError as error:
            return Answer(Outcome.UNKNOWN, self.name, reason=f"cvc5: {error}", seconds=time.perf_counter() - start)
        seconds = time.perf_counter() - start
        resources = int(solver.getStatistics()["resource::resourceUnitsUsed"]["value"])
        if result.isUnsat():
            return Answer(Outcome.UNSAT, self.name, seconds=seconds, resources=resources)
        if result.isSat():
            model = self._model(solver, symbols, script)
            return Answer(Outcome.SAT, self.name, model, "", seconds, resources)
        reason = str(result.getUnknownExplanation()).rsplit(".", 1)[-1].lower()
        return Answer(
            Outcome.UNKNOWN,
            self.name,
            {},
            f"{reason}: budget of {budget.resources} resource units or {budget.seconds:g} s",
            seconds,
            resources,
        )

    def _model(self, solver: Any, symbols: Any, script: Script) -> Mapping[str, Value]:
        by_name = {str(term): term for term in symbols.getDeclaredTerms()}
        values: dict[str, Value] = {}
        for symbol, name, sort in script.symbols:
            value = solver.getValue(by_name[symbol])
            values[name] = int(value.getIntegerValue()) if sort == "Int" else bool(value.getBooleanValue())
        return values
