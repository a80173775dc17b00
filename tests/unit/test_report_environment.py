"""What a run says of where it took place."""

import os
import re
import subprocess
import sys
from pathlib import Path

import kvproof
from kvproof.reports import environment


def test_versions_name_absent_packages_as_empty():
    found = environment.versions()
    assert found["python"].startswith("3.")
    assert re.match(r"\d", found["numpy"])
    assert environment.package_version("no-such-distribution-of-this-name") == ""


def test_the_commit_is_that_of_this_checkout_not_of_the_working_directory(tmp_path):
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*git, "-C", str(tmp_path), "commit", "-q", "--allow-empty", "-m", "other"], check=True)
    other = subprocess.run(
        [*git, "-C", str(tmp_path), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    script = "from kvproof.reports.environment import commit; print(commit())"
    source = Path(kvproof.__file__).absolute().parent.parent
    seen = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert not seen.stdout.startswith(other)
    assert re.fullmatch(r"([0-9a-f]{40}(\+dirty)?)?\n", seen.stdout)


def test_environment_imports_nothing_that_it_reports_on():
    script = (
        "import sys; from kvproof.reports import environment; environment.environment();"
        "print([n for n in ('torch', 'triton', 'z3', 'cvc5', 'numpy') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
