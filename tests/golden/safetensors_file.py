"""Weight files for PyTorch where the package safetensors is missing, as it is in Debian 12."""
import json
import math
import struct

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}


def write(path, state):
    """Writes a state_dict with the dtypes above but bf16, which numpy lacks."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, data = {"__metadata__": {"format": "pt"}}, []
    end = 0
    for name, tensor in state.items():
        data.append(tensor.contiguous().numpy().tobytes())
        begin, end = end, end + len(data[-1])
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data)


def read(path):
    """Reads the state_dict of a file with the dtypes above; a tensor with several names has them all."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    names = header.pop("__metadata__", {})
    state = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(data[begin:end]) or bytearray(8), dtype=DTYPES[entry["dtype"]])
        state[name] = flat[:math.prod(entry["shape"])].reshape(entry["shape"])
    return state | {name: state[stored] for name, stored in names.items() if stored in state}
