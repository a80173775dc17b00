"""A counterexample as a test: source text that a person pastes into a test file."""

from __future__ import annotations

import json
import re

from kvproof.reports.finding import Finding


def regression_test(finding: Finding) -> str:
    """A pytest function that fails as long as a proof's counterexample does.

    Args:
        finding: of the engine "proof".

    Raises:
        ValueError: another engine's finding.
    """
    if finding.engine != "proof":
        raise ValueError(
            f"finding {finding.id} is of engine {finding.engine!r}; a test is made of 'proof' findings"
        )
    name = re.sub(r"[^a-z0-9]+", "_", f"{finding.property_name} {finding.subject}".lower()).strip("_")
    case = json.dumps(finding.case, indent=4, sort_keys=True)
    lines = [
        "import json",
        "",
        "from kvproof.harness.prove.replay import replay_finding",
        "from kvproof.reports.finding import Finding",
        "",
        f"CASE = json.loads('''{case}''')",
        "",
        "",
        f"def test_{name}_{finding.id}() -> None:",
        f'    """{finding.message}"""',
        "    finding = Finding(",
        f'        engine="proof", property_name={finding.property_name!r}, words="", subject={finding.subject!r},',
        '        case=CASE, message="",',
        "    )",
        "    verdict = replay_finding(finding)",
        "    assert verdict.passed, verdict.reason",
        "",
    ]
    return "\n".join(lines)
