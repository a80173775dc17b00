"""A process that times series when asked, on the CPU or on a GPU, so that two versions of the code can take turns.

Reads a JSON line ``{"series": NAME, "count": N, "repeats": R}`` and answers ``{"samples": [...], "repeats": R}``
in microseconds, or ``{"error": TEXT}``. R is 0 in the first question of a comparison, and in all others what the
first side found then. What it times is the kvproof that it imports, whichever tree that comes from.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from kvproof.harness.bench.cpu_series import cpu_series
from kvproof.harness.bench.measure import CallSampler

ON_GPU = " on gpu"
"""What the names of series on a GPU end in."""


def serve(lines: TextIO, answers: TextIO) -> None:
    """Answer every line until there is none."""
    makers = cpu_series()
    samplers: dict[tuple[str, int], Any] = {}
    for line in lines:
        asked = json.loads(line)
        name, repeats = asked["series"], asked.get("repeats", 0)
        answer: dict[str, Any]
        try:
            if (name, repeats) not in samplers:
                if name.endswith(ON_GPU):
                    samplers[name, repeats] = _on_gpu(name, repeats)
                else:
                    samplers[name, repeats] = CallSampler(makers[name](), repeats=repeats or None)
            sampler = samplers[name, repeats]
            answer = {"samples": sampler(asked["count"]), "repeats": sampler.repeats}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(answer), file=answers, flush=True)


def _on_gpu(name: str, repeats: int) -> Any:
    from kvproof.harness.bench.gpu_series import gpu_sampler  # noqa: PLC0415  (needs torch)

    return gpu_sampler(name, repeats)


def main() -> None:
    """Serve on standard input and output."""
    # A stray print of what is imported must not be taken for an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
