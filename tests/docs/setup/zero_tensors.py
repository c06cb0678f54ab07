"""Writes safetensors files of zeros: what `posenc convert` prints depends on names and shapes alone."""

import json
import math
import struct
from pathlib import Path

_BYTES = {"BF16": 2, "F32": 4}


def write(name, dtype, shapes):
    header, at = {}, 0
    for tensor, shape in shapes.items():
        end = at + math.prod(shape) * _BYTES[dtype]
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(name).write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
