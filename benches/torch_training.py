"""Times steps of training of PyTorch, each when it is asked to: a line with a case's name comes in, a line with the
nanoseconds of a call goes out. `peak NAME` gives the KiB that three calls take at most. The argument is the number of
threads."""

from torch_side import answer, torch

import torch.nn.functional as F


def numbers(*sizes):
    n = 1
    for size in sizes:
        n *= size
    return ((torch.arange(n) % 1000).float() - 500).mul_(1e-4).view(*sizes)


def chain(x, length):
    y = x * 1.0001
    for _ in range(length - 1):
        y = y * 1.0001
    return y


def descend(parameters):
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(parameter.grad, alpha=-1e-3)
            parameter.grad = None


def case(name):
    """The call that a name stands for; its tensors are made here."""
    if name.startswith("chain"):
        x = numbers(1).requires_grad_()
        length = 1000 if name.startswith("chain 1e3") else 100_000
        if name.endswith("forward"):
            return lambda: chain(x, length)

        def both():
            chain(x, length).backward()
            x.grad = None

        return both
    if name.startswith("mlp"):
        sizes = [(256, 784), (256,), (256, 256), (256,), (10, 256), (10,)]
        p = [numbers(*size).requires_grad_() for size in sizes]
        x, target = numbers(64, 784), torch.arange(64) % 10

        def step():
            y = F.relu(F.linear(x, p[0], p[1]))
            y = F.relu(F.linear(y, p[2], p[3]))
            F.cross_entropy(F.linear(y, p[4], p[5]), target).backward()
            descend(p)

        return step
    sizes = [(16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (10, 32 * 7 * 7), (10,)]
    p = [numbers(*size).requires_grad_() for size in sizes]
    x, target = numbers(32, 1, 28, 28), torch.arange(32) % 10

    def step():
        y = F.max_pool2d(F.relu(F.conv2d(x, p[0], p[1], padding=1)), 2)
        y = F.max_pool2d(F.relu(F.conv2d(y, p[2], p[3], padding=1)), 2)
        F.cross_entropy(F.linear(y.reshape(32, -1), p[4], p[5]), target).backward()
        descend(p)

    return step


def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


def peak(call):
    for _ in range(3):
        call()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS:")
    for _ in range(3):
        call()
    return status("VmHWM:") - before


answer(case, peak)
