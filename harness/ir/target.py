"""The GPUs that kernels are compiled for. Named without torch or triton, so that a command line can list them."""

from __future__ import annotations

from dataclasses import dataclass


class TargetError(ValueError):
    """A target text that names no GPU."""


@dataclass(frozen=True)
class Target:
    """What a kernel is compiled for.

    Attributes:
        backend: "cuda" or "hip".
        arch: compute capability as digits ("90"), or the gfx name.
    """

    backend: str
    arch: str

    @property
    def warp_size(self) -> int:
        """Threads of a warp; only gfx9 has 64."""
        return 64 if self.arch.startswith("gfx9") else 32

    @property
    def fp8(self) -> str:
        """Triton's name of the 8-bit float that a contract's "fp8" is on this GPU."""
        return "fp8e4b8" if self.arch == "gfx942" else "fp8e4nv"

    def __str__(self) -> str:
        return f"{self.backend}:{self.arch}"


CUDA_90 = Target("cuda", "90")
HIP_GFX942 = Target("hip", "gfx942")
HIP_GFX950 = Target("hip", "gfx950")

DEFAULT_TARGETS = (CUDA_90, HIP_GFX942, HIP_GFX950)
"""Hopper, MI300 and MI350: what the production code runs on."""


def parse_target(text: str) -> Target:
    """The target of "cuda:90" or "hip:gfx942".

    Raises:
        TargetError: another form.
    """
    backend, _, arch = text.partition(":")
    if (backend == "cuda" and arch.isdigit()) or (backend == "hip" and arch.startswith("gfx")):
        return Target(backend, arch)
    raise TargetError(f"target is {text!r}; allowed: cuda:<digits> as in cuda:90, hip:<gfx> as in hip:gfx942")


def parse_targets(text: str) -> tuple[Target, ...]:
    """The targets of a comma-separated list, each once."""
    return tuple(dict.fromkeys(parse_target(part.strip()) for part in text.split(",")))
