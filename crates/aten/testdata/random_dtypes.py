"""Records what PyTorch's CPU generator draws in every dtype, in the form of random.json.gz.

    python random_dtypes.py random_dtypes.json.gz
"""

import gzip
import json
import sys

import torch

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def number(value):
    if isinstance(value, float) and value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return value


def record(name, args, dtype, out):
    data = [number(v) for v in out.flatten().tolist()]
    dtype_out = str(out.dtype).removeprefix("torch.")
    return {
        "call": name,
        "args": args,
        "kwargs": {"dtype": dtype},
        "out": {"dtype": dtype_out, "size": list(out.size()), "data": data},
    }


def fill(name, size, args, dtype):
    out = getattr(torch.empty(size, dtype=getattr(torch, dtype)), name)(*args)
    return record(name, [size, *args], dtype, out)


def one_case(seed):
    torch.manual_seed(seed)
    calls = []
    for dtype in ["bool", *INTEGERS, *FLOATS]:
        calls.append(fill("random_", [7], [], dtype))
        calls.append(fill("bernoulli_", [33], [0.625], dtype))
        calls.append(fill("random_", [5], [0, 2], dtype))
    for dtype in ["uint16", "uint32", "uint64", *INTEGERS, *FLOATS]:
        calls.append(fill("random_", [7], [3, 101], dtype))
    for dtype in ["int32", "uint32", "int64", *FLOATS[1:]]:
        calls.append(fill("random_", [7], [0, 1 << 28], dtype))
        calls.append(fill("random_", [7], [0, (1 << 28) - 1], dtype))
    for dtype in ["int64", "float32", "float64", "bfloat16"]:
        calls.append(fill("random_", [7], [-(1 << 62), 1 << 62], dtype))
        calls.append(fill("random_", [7], [-(1 << 63), None], dtype))
        calls.append(fill("random_", [7], [0, (1 << 63) - 1], dtype))
        calls.append(fill("random_", [7], [-(1 << 63), 5], dtype))
        calls.append(fill("random_", [7], [-(1 << 40) - 1, 3], dtype))
        calls.append(fill("random_", [7], [-1234567891, 987654321], dtype))
    for dtype in ["float16", "bfloat16"]:
        calls.append(fill("random_", [7], [-1001, 4097], dtype))
    for dtype in INTEGERS + FLOATS:
        calls.append(fill("geometric_", [9], [0.3], dtype))
        out = torch.randperm(11, dtype=getattr(torch, dtype))
        calls.append(record("randperm", [11], dtype, out))
    for dtype in FLOATS:
        torch_dtype = getattr(torch, dtype)
        for n in [1, 3, 16, 31, 37, 64]:
            calls.append(fill("normal_", [n], [-0.5, 2.0], dtype))
            calls.append(fill("uniform_", [n], [-1.0, 1.0 / 3.0], dtype))
        calls.append(fill("exponential_", [9], [0.75], dtype))
        calls.append(fill("cauchy_", [9], [0.5, 2.0], dtype))
        calls.append(fill("log_normal_", [9], [0.25, 0.5], dtype))
        p = [0.125, 0.5, 0.75, 1.0, 0.0, 0.3125]
        weights = torch.tensor(p, dtype=torch_dtype)
        calls.append(record("bernoulli", [p], dtype, torch.bernoulli(weights)))
        calls.append(record("multinomial", [p, 1], dtype, torch.multinomial(weights, 1)))
        calls.append(record("multinomial", [p, 5], dtype, torch.multinomial(weights, 5)))
        calls.append(record("multinomial", [p, 40, True], dtype, torch.multinomial(weights, 40, True)))
        calls.append(record("multinomial", [p, 1, True], dtype, torch.multinomial(weights, 1, True)))
    return {"seed": seed, "calls": calls}


cases = [one_case(seed) for seed in [0, 7, 2**40 + 3]]
with gzip.GzipFile(sys.argv[1], "wb", mtime=0) as file:
    file.write(json.dumps({"torch": torch.__version__, "cases": cases}).encode())
