"""What ``kvproof fuzz`` would run, as a table."""

from __future__ import annotations

from rich.table import Table

from kvproof.harness.cli import engines
from kvproof.harness.cli.campaign import Plan
from kvproof.harness.cli.terminal import output_console


def print_fuzz_tasks(plan: Plan) -> None:
    """Print each property that a plan would fuzz: on what, on which device, and what it needs for a PASS.

    Raises:
        UsageError: an unknown device.
    """
    devices = engines.find_devices(plan.device)
    tasks = engines.fuzz_tasks(plan.subjects, devices, any_layout=plan.any_layout, systems=plan.systems)
    table = Table("property", "device", "cases of", "cases", "events", box=None, header_style="")
    for task in tasks:
        seen = ", ".join(f"{event} {count}" for event, count in task.needs.events.items())
        table.add_row(task.property_name, task.device or "-", task.subject, str(task.needs.cases), seen)
    console = output_console()
    console.print(table)
    console.print(f"{len(tasks)} properties")
    for found in devices:
        if not found.availability.available:
            console.print(f"device {found.name}: not here, {found.availability.detail}")
