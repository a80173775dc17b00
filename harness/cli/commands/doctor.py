"""``kvproof doctor``: what is here and what is missing."""

from __future__ import annotations

from kvproof.harness.cli.registry import command


@command("doctor")
def doctor() -> None:
    """Print versions, solvers and devices, and what to install for those that are missing.

    Each package is imported once, in a process of its own: one that is installed but broken counts as missing.

    \b
    Example:
      kvproof doctor
    """
    from kvproof.harness.cli import engines
    from kvproof.harness.cli.imports import import_faults
    from kvproof.reports import environment

    print(
        f"kvproof    {environment.package_version('kvproof') or '(source tree)'} {environment.commit()}".rstrip()
    )
    machine = environment.machine()
    print(f"machine    {machine['processor']}, {machine['cores']} cores, {machine['system']}")
    print(f"python     {environment.versions()['python']}")
    missing: list[str] = []
    present = [package for package in engines.PACKAGES if environment.package_version(package)]
    faults = import_faults(present)
    for package, needed_for in engines.PACKAGES.items():
        found = environment.package_version(package)
        fault = f", but it cannot be imported: {faults[package]}" if package in faults else ""
        print(f"{package:10} {found or 'missing'}{fault}")
        if not found or fault:
            missing.append(f"{package} (for {needed_for}): {engines.INSTALL_HINTS[package]}")
    absent: list[str] = []
    # Looking at devices imports these here, and what ends one process would end this one too.
    broken = [package for package in ("numpy", "torch", "triton", "ml-dtypes") if package in faults]
    if broken:
        print(f"device     not looked at, since {', '.join(broken)} cannot be imported")
    for device in [] if broken else engines.find_devices("all"):
        here = device.availability.available
        print(f"device     {device.name}: {'yes' if here else 'no'}, {device.availability.detail}")
        if not here:
            absent.append(device.name)
    for line in missing:
        print(f"install    {line}")
    if absent:
        print(f"without    {', '.join(absent)}: kernels are NOT_RUN there; everything else works")
    if not missing and not absent and not broken:
        print("nothing is missing")
