"""Fixtures of the tests of compiled IR."""

import pytest


@pytest.fixture
def run():
    """Launch on an executor of its own; gives the reports."""
    from kvproof.harness.ir.launch import Executor

    executor = Executor()

    def launch(kernel, grid, *args, **meta):
        executor(kernel, grid, *args, **meta)
        return executor.take()

    return launch
