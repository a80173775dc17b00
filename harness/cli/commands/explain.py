"""``kvproof explain``: an obligation, or a counterexample, in words."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kvproof.harness.cli import options
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.registry import command


@command("explain")
def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="STATEMENT|FINDING", help="A statement's name ('window/window'), or a finding's id or file."
        ),
    ],
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            "-c",
            metavar="NAME|PATH",
            help="The configuration. Default: v4-flash; 'any' is every size.",
        ),
    ] = None,
    kv: options.Kv = None,
    draft: options.Draft = None,
    draft_tokens: options.DraftTokens = None,
    block_size: options.BlockSize = None,
    as_test: Annotated[bool, typer.Option("--test", help="Print a finding as a regression test instead.")] = False,
) -> None:
    """Explain a proof: the statement in words, its premises, lemmas, what each solver said; or a counterexample.

    A counterexample is shown with both addresses, how each is computed, and the rows around them.

    \b
    Examples:
      kvproof explain window/window --config v4-pro
      kvproof explain "least height" --config any
      kvproof explain 3f2a9c0d1b4e
    """
    from kvproof.harness.cli.subjects import launch_options
    from kvproof.properties.statement import all_statements

    statements = all_statements()
    if what in statements:
        if as_test:
            raise UsageError("--test is for findings; a statement has no counterexample")
        launch = launch_options(kv, draft, draft_tokens, block_size)
        code = _explain_statement(statements[what], config or "v4-flash", launch)
    else:
        code = _explain_finding(what, as_test, list(statements))
    raise typer.Exit(code)


def _explain_statement(statement: Any, config: str, launch: Any) -> int:
    from kvproof.harness.cli.subjects import load_subject
    from kvproof.harness.prove.discharge import Solvers
    from kvproof.harness.prove.explain import explain as explained
    from kvproof.harness.prove.explain import explanation_lines
    from kvproof.harness.prove.subject import CONFIG_SYSTEMS, config_subject
    from kvproof.harness.prove.systems import system_subjects
    from kvproof.harness.prove.theorems import OUT_OF_REACH, THEOREMS, theorem_subject
    from kvproof.harness.solve.backends import backend, installed
    from kvproof.models.row_space import ENTRY_ORDER
    from kvproof.reports.verdict import Status, Verdict, combine, exit_status

    if config == "any":
        if statement.name in OUT_OF_REACH:
            reason, counter = OUT_OF_REACH[statement.name]
            print(f"{statement.name}, of every size\n  claims     {statement.words}")
            print(f"UNKNOWN: {reason}; {counter} in kvproof.harness.prove.small_scopes counts small ones out")
            return exit_status([Verdict(Status.UNKNOWN, reason)])
        if statement.name not in THEOREMS:
            raise UsageError(f"{statement.name} is not stated for every size; it is proved for each configuration")
        subject = theorem_subject(ENTRY_ORDER)
    elif statement.system in CONFIG_SYSTEMS:
        subject = config_subject(load_subject(config, launch), statement.system)
    else:
        subject = system_subjects(statement.system)[0]
    explanation = explained(subject, statement, Solvers([backend(name) for name in installed()]))
    for line in explanation_lines(explanation):
        print(line)
    problems = explanation.proof.problems
    return exit_status([combine(problems)]) if problems else 0


def _explain_finding(what: str, as_test: bool, statements: list[str]) -> int:
    from kvproof.harness.prove.explain import addresses_of, picture
    from kvproof.harness.prove.regression import regression_test
    from kvproof.harness.prove.systems import described_subject
    from kvproof.properties.statement import all_statements

    finding = _finding(what, statements)
    if as_test:
        print(regression_test(finding))
        return 0
    print(f"finding {finding.id}: {finding.property_name}, {finding.subject}")
    print(f"  states  {finding.words}")
    print(f"  fails   {finding.message}")
    statement = all_statements().get(finding.property_name)
    if finding.engine != "proof" or statement is None or statement.system != "row-space":
        return 0
    space = described_subject(finding.case, statement.system).build(finding.case["sizes"])
    found = addresses_of(space, finding.case["choices"])
    for address in found:
        print(f"{address.name}")
        for line in address.lines:
            print(f"    {line}")
    for line in picture(space, found):
        print(line)
    return 0


def _finding(what: str, statements: list[str]) -> Any:
    import difflib

    from kvproof.reports.errors import ReportError
    from kvproof.reports.store import Store

    try:
        return Store().find(what)
    except ReportError as error:
        close = difflib.get_close_matches(what, statements, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"{what!r} is no statement and no finding{hint} ({error})") from error
