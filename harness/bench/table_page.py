"""The kept benchmark table as a page: ``python3 -m kvproof.harness.bench.table_page FILE`` prints it as Markdown.

Everything is made from the file that ``bench.table --json`` wrote; no number is typed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kvproof.harness.bench.ceilings import Machine
from kvproof.harness.bench.table import LARGE_BYTES, Row, machine_lines
from kvproof.harness.bench.timing import Timing


def read_table(path: Path) -> tuple[Machine, str, list[Row]]:
    """(machine, torch version, rows) of a kept table.

    Raises:
        ValueError: not a table that ``bench.table`` wrote.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        machine = Machine(**{**kept["machine"], "chain": tuple(kept["machine"]["chain"])})
        return machine, kept["torch"], [_row(row) for row in kept["rows"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is no benchmark table: {error}") from error


def _row(kept: dict[str, Any]) -> Row:
    return Row(**{**kept, "time": None if kept["time"] is None else Timing(**kept["time"])})


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """How many cases of each kernel meet their limit, and how many are ahead of production."""
    yield "| kernel | met | latency | missed | share at the largest size | ahead of production |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for kernel in dict.fromkeys(row.kernel for row in rows if row.limit):
        mine = [row for row in rows if row.kernel == kernel and row.limit]
        count = Counter(row.verdict for row in mine)
        largest = max(mine, key=lambda row: row.bytes_moved)
        beside = [row for row in mine if row.production is not None and row.time is not None]
        ahead = sum(row.time.median < row.production for row in beside if row.time and row.production)
        yield (
            f"| `{kernel}` | {count['met']} | {count['latency']} | {count['missed']} | "
            f"{largest.share:.0%} of {largest.bytes_moved / 1e6:,.0f} MB | "
            f"{f'{ahead} of {len(beside)}' if beside else '-'} |"
        )


def every_case(rows: Sequence[Row]) -> Iterator[str]:
    """The whole table."""
    yield "| kernel | case | MB | us | quartiles | share | limit | | theirs |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |"
    for row in rows:
        head = f"| `{row.kernel}` | {row.case} | {row.bytes_moved / 1e6:,.3f} | "
        if row.time is None:
            yield f"{head}| | | | {row.error} | |"
            continue
        spread = f"{row.time.low:.1f}-{row.time.high:.1f}"
        theirs = "" if row.production is None else f"{row.production:.1f}"
        tail = (
            f"{row.share:.1%} | {row.limit:.1f} | {row.verdict} | {theirs} |"
            if row.limit
            else "| | on the host | |"
        )
        yield f"{head}{row.time.median:.1f} | {spread} | {tail}"


def page(path: Path) -> str:
    """The generated part of the page."""
    machine, torch, rows = read_table(path)
    large = [row for row in rows if row.limit and row.bytes_moved >= LARGE_BYTES and not row.operations]
    copies = sorted(machine.copies.items(), key=lambda way: -way[1])
    lines = [
        *machine_lines(machine),
        f"torch {torch}.",
        "",
        "Copies, GB/s read and written: "
        + ", ".join(f"{way} {rate / 1e9:,.0f}" for way, rate in (*copies[:3], *copies[-2:]))
        + " (the three best and the two worst ways).",
        "",
        *summary(rows),
        "",
        f"Moves of at least {LARGE_BYTES / 1e6:.0f} MB, share of the copy bandwidth: "
        + ", ".join(f"{row.kernel} {row.case} {row.share:.0%}" for row in large)
        + ".",
        "",
        *every_case(rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1])))
