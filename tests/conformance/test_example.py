"""A project's own test of one of its kernels: the example of docs/conformance.md, as it stands there."""

import pytest

pytest.importorskip("triton")

# The example starts here.
from standin.kernels import swa_write
from standin.layout import Window

from kvproof.conformance import check


def test_swa_write_keeps_its_contract():
    check(swa_write, "window_write", types={"WindowParams": Window})


# The example ends here.
