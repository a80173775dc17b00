"""``kvproof doctor``: what is here and what is missing."""

from __future__ import annotations

from kvproof.harness.cli.registry import command


@command("doctor")
def doctor() -> None:
    """Print versions, solvers and devices, and what to install for those that are missing.

    \b
    Example:
      kvproof doctor
    """
    from kvproof.harness.cli import engines
    from kvproof.reports import environment

    print(
        f"kvproof    {environment.package_version('kvproof') or '(source tree)'} {environment.commit()}".rstrip()
    )
    machine = environment.machine()
    print(f"machine    {machine['processor']}, {machine['cores']} cores, {machine['system']}")
    print(f"python     {environment.versions()['python']}")
    missing: list[str] = []
    for package, needed_for in engines.PACKAGES.items():
        found = environment.package_version(package)
        print(f"{package:10} {found or 'missing'}")
        if not found:
            missing.append(f"{package} (for {needed_for}): {engines.INSTALL_HINTS[package]}")
    absent: list[str] = []
    for device in engines.find_devices("all"):
        here = device.availability.available
        print(f"device     {device.name}: {'yes' if here else 'no'}, {device.availability.detail}")
        if not here:
            absent.append(device.name)
    for line in missing:
        print(f"install    {line}")
    if absent:
        print(f"without    {', '.join(absent)}: kernels are NOT_RUN there; everything else works")
    if not missing and not absent:
        print("nothing is missing")
