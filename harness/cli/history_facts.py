"""What the site shows of the lock file of proofs."""

from __future__ import annotations

from kvproof.harness.cli.proving import default_lock


def certificates() -> dict[str, str]:
    """Certificates and what each solver's units add up to; empty without a lock file."""
    from kvproof.harness.prove.certificates import LockError, load_lock

    path = default_lock([])
    try:
        lock = load_lock(path)
    except LockError as error:
        return {"certificates": f"the lock file cannot be believed: {error}"}
    if not lock.certificates:
        return {}
    solvers = sorted(lock.solvers)
    both = sum(all(name in c.resources for name in solvers) for c in lock.certificates.values())
    units = (f"{name} {sum(c.resources.get(name, 0) for c in lock.certificates.values()):,}" for name in solvers)
    versions = " and ".join(f"{name} {lock.solvers[name]}" for name in solvers)
    return {
        "certificates": f"{len(lock.certificates):,} in {path}",
        "solver agreement": f"{both:,} of {len(lock.certificates):,} refuted by {versions} alike",
        "resource units": ", ".join(units),
    }


def resource_units() -> dict[str, dict[str, int]]:
    """Of each solver, the resource units of each subject's proofs: they count work, on every machine alike."""
    from kvproof.harness.prove.certificates import LockError, load_lock

    try:
        lock = load_lock(default_lock([]))
    except LockError:
        return {}
    found: dict[str, dict[str, int]] = {}
    for (subject, _), proof in lock.proofs.items():
        for line in proof.obligations:
            certificate = lock.certificates.get(line.rsplit(" ", 1)[-1])
            for solver, units in (certificate.resources if certificate else {}).items():
                of = found.setdefault(solver, {})
                of[subject] = of.get(subject, 0) + units
    return found
