"""Conformance: hold a kernel of your own project to one of kvproof's contracts, from your own tests.

::

    from kvproof.conformance import check

    def test_swa_write():
        check(my_project.swa_write, "window_write", types={"WindowParams": my_project.WindowParams})

See docs/conformance.md for a complete example.
"""

from __future__ import annotations

from kvproof.harness.run.conformance import Conformance, ConformanceError, NotCheckedError, check
from kvproof.harness.targets.profile import Narrowing

__all__ = ["Conformance", "ConformanceError", "Narrowing", "NotCheckedError", "check"]
