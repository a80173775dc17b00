"""``kvproof story``: a failed schedule step by step, the row at fault, and a picture of the pool."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.registry import command


@command("story")
def story(
    finding: Annotated[
        str,
        typer.Argument(
            metavar="FINDING", help="A finding of a simulation: its id, its first digits, or its file."
        ),
    ],
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Also draw the pool at the failing step.")
    ] = None,
) -> None:
    """Tell how a simulated schedule fails: a line a step, and every write of the row at fault.

    Exit status: 1 it still fails, 0 it does not any more, 3 its case could not be run.

    \b
    Examples:
      kvproof story 3f2a9c0d1b4e
      kvproof story 3f2a9c0d1b4e --svg pool.svg
    """
    from kvproof.harness.cli.errors import UsageError
    from kvproof.harness.cli.values import parse_output
    from kvproof.harness.simulate.findings import stored_schedule
    from kvproof.harness.simulate.picture import pool_state
    from kvproof.harness.simulate.schedule import failure_of
    from kvproof.reports.pool_picture import pool_svg
    from kvproof.reports.store import Store, write_atomically

    path = parse_output(svg, "--svg") if svg is not None else None
    try:
        world, schedule = stored_schedule(Store().find(finding))
    except ValueError as error:
        raise UsageError(str(error)) from error
    failure = failure_of(world, schedule)
    if failure is None:
        print("the schedule holds now; nothing to tell")
        raise typer.Exit(0)
    state = pool_state(world, failure)
    for line in state.story:
        print(line)
    if state.history:
        print(f"\nhistory of row {state.row}:")
        for line in state.history:
            print(f"  {line}")
    if path is not None:
        try:
            write_atomically(path, pool_svg(state))
        except OSError as error:
            raise UsageError(f"--svg is {svg!r}, which cannot be written: {error.strerror}") from error
        print(f"\npicture: {path}")
    raise typer.Exit(1)
