"""Times large operators of PyTorch, each when it is asked to: a line with a case's name comes in, a line with
the nanoseconds of a call goes out. The argument is the number of threads."""

from torch_side import answer, torch

import torch.nn.functional as F

torch.set_grad_enabled(False)


def vector(n):
    return torch.arange(n, dtype=torch.float32).mul_(1e-6)


def matrix(rows, columns):
    return vector(rows * columns).view(rows, columns)


def case(name):
    """The call that a name stands for; its tensors are made here."""
    if name.startswith("matmul "):
        n = int(name.split()[1])
        a, b = matrix(n, n), matrix(n, n)
        return lambda: a.mm(b)
    a, b = vector(1_000_000), vector(1_000_000)
    m, tall, row = matrix(512, 2048), matrix(2048, 512), vector(2048)
    image, kernel = vector(8 * 64 * 56 * 56).view(8, 64, 56, 56), vector(64 * 64 * 9).view(64, 64, 3, 3)
    calls = {
        "add 1e6": lambda: a.add(b),
        "mul 1e6": lambda: a.mul(b),
        "exp 1e6": lambda: a.exp(),
        "sum 1e6": lambda: a.sum(),
        "add of transposed 512x2048": lambda: m.t().add(tall),
        "broadcast add 512x2048 + 2048": lambda: m.add(row),
        "softmax 2048x512": lambda: tall.softmax(1),
        "conv2d 8x64x56x56, 64 of 3x3": lambda: F.conv2d(image, kernel, padding=1),
    }
    return calls.get(name)


answer(case)
