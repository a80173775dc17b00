"""``python -m kvproof`` is the ``kvproof`` command."""

from kvproof.harness.cli.main import run

if __name__ == "__main__":
    run()
