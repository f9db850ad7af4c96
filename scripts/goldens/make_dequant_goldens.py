#!/usr/bin/env python3
"""Makes tests/data/gguf/dequant.bin: random blocks of every stored format and their values by the `gguf` package.

Needs numpy and gguf (PyPI). The file: per format, a line "NAME num_elements block_bytes\n", the stored bytes, then the
values as little-endian float32. The output is a function of the seed and the gguf package's formulas alone.
"""
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES

# Byte offsets of the binary16 scales inside a block: random bytes there could be infinite or NaN.
SCALES = {"F32": [], "F16": [], "BF16": [], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
NUM_ELEMENTS = 768


def main() -> int:
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    rng = np.random.default_rng(20240731)
    with open(os.path.join(root, "tests", "data", "gguf", "dequant.bin"), "wb") as out:
        for name, scales in SCALES.items():
            kind = GGMLQuantizationType[name]
            block_elements, block_bytes = GGML_QUANT_SIZES[kind]
            num_blocks = NUM_ELEMENTS // block_elements
            if scales or name not in ("F32", "F16", "BF16"):
                blocks = rng.integers(0, 256, size=(num_blocks, block_bytes), dtype=np.uint8)
                for offset in scales:
                    values = rng.uniform(-2.0, 2.0, size=num_blocks).astype(np.float16)
                    blocks[:, offset:offset + 2] = values.view(np.uint8).reshape(num_blocks, 2)
                stored = blocks.reshape(-1)
            else:
                plain = rng.standard_normal(NUM_ELEMENTS).astype(np.float32)
                if name == "F32":
                    stored = plain.view(np.uint8)
                elif name == "F16":
                    stored = plain.astype(np.float16).view(np.uint8)
                else:
                    stored = (plain.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
            if name == "F32":
                values = stored.view(np.float32)
            elif name == "F16":
                values = stored.view(np.float16).astype(np.float32)
            else:
                values = quants.dequantize(stored, kind)
            values = np.ascontiguousarray(values.reshape(-1), dtype="<f4")
            assert values.size == NUM_ELEMENTS and np.isfinite(values).all()
            out.write(f"{name} {NUM_ELEMENTS} {stored.size}\n".encode())
            out.write(stored.tobytes())
            out.write(values.tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
