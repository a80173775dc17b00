"""Write the IR texts of this folder with the Triton that is installed: ``python tests/data/ttir/make.py``.

One folder a Triton release and target. Paths are cut to the file's name, so that a text is the same on
every machine.
"""

import importlib
import re
import sys
from pathlib import Path

from kvproof.harness.ir.compile import Signature, compile_ttir
from kvproof.harness.ir.target import CUDA_90, HIP_GFX942

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def main() -> None:
    """Compile every kernel for both vendors."""
    kernels = importlib.import_module("kernels")

    for target in (CUDA_90, HIP_GFX942):
        for name, (kernel, types, constants) in kernels.SIGNATURES.items():
            compiled = compile_ttir(kernel, Signature(types, constants), target, debug=name == "calls")
            text = re.sub(r'loc\("[^"]*/([^/"]+/[^/"]+)":', r'loc("\1":', compiled.text)
            release = ".".join(compiled.triton.split(".")[:2])
            folder = HERE / f"triton-{release}-{target.backend}"
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.ttir").write_text(text)
            sys.stdout.write(f"{folder.name}/{name}.ttir\n")


if __name__ == "__main__":
    main()
