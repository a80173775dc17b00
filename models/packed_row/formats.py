"""The two e4m3 formats, from their definitions: sign, 4 exponent bits, 3 mantissa bits.

- OCP (``float8_e4m3fn``): bias 7, no infinities, NaN is 0x7F or 0xFF, largest value 448.
- fnuz (``float8_e4m3fnuz``): bias 8, no infinities, one NaN (0x80) and no negative zero, largest value 240.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Float8:
    """One e4m3 format.

    Attributes:
        name: "ocp" or "fnuz".
        bias: exponent bias.
        signed_zero: whether 0x80 is -0; if not, it is the only NaN.
    """

    name: str
    bias: int
    signed_zero: bool

    @cached_property
    def values(self) -> npt.NDArray[np.float64]:
        """Value of each of the 256 codes."""
        code = np.arange(256)
        exponent, mantissa = (code >> 3) & 15, code & 7
        magnitude = np.where(
            exponent == 0,
            np.ldexp(mantissa.astype(np.float64), -2 - self.bias),  # subnormal: m/8 * 2^(1 - bias)
            np.ldexp(8.0 + mantissa, exponent - 3 - self.bias),
        )
        values = np.where(code >= 128, -magnitude, magnitude)
        nan = np.array([0x7F, 0xFF]) if self.signed_zero else np.array([0x80])
        values[nan] = np.nan
        return values

    @cached_property
    def max(self) -> float:
        """The largest value."""
        return float(np.nanmax(self.values))

    @property
    def largest_code(self) -> int:
        """Code of the largest value."""
        return 0x7E if self.signed_zero else 0x7F

    @property
    def smallest(self) -> float:
        """The least positive value."""
        return float(self.values[1])

    def encode(self, values: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """Code of the nearest value, ties to the even code. What rounds past the largest value becomes NaN.

        Looked up in the sorted list of values rather than computed from bits, as a kernel would.
        """
        exact = np.asarray(values, np.float64)
        magnitude = np.abs(exact)
        table = self.values[: self.largest_code + 1]
        # The place after the largest value, where the next step would be: what rounds there overflows.
        table = np.append(table, 2 * table[-1] - table[-2])
        above = np.minimum(np.searchsorted(table, magnitude), table.size - 1)
        below = np.maximum(above - 1, 0)
        to_above, to_below = table[above] - magnitude, magnitude - table[below]
        even = np.where(above % 2 == 0, above, below)
        code = np.where(to_above < to_below, above, np.where(to_below < to_above, below, even))
        # A magnitude past the overflow place has both distances negative or infinite.
        lost = np.isnan(exact) | (magnitude > table[-1]) | (code > self.largest_code)
        negative = np.signbit(exact)
        if self.signed_zero:
            return (np.where(lost, 0x7F, code) | np.where(negative, 0x80, 0)).astype(np.uint8)
        signed = np.where(negative & (code > 0), code | 0x80, code)
        return np.where(lost, 0x80, signed).astype(np.uint8)

    def decode(self, codes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Values of codes."""
        return self.values[np.asarray(codes, np.uint8)]


E4M3_OCP = Float8("ocp", bias=7, signed_zero=True)
E4M3_FNUZ = Float8("fnuz", bias=8, signed_zero=False)

FORMATS: Mapping[str, Float8] = {"ocp": E4M3_OCP, "fnuz": E4M3_FNUZ}
"""The formats by name. NVIDIA GPUs and gfx950 compute in the OCP one, gfx942 in fnuz."""
