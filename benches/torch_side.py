"""What the scripts share that time PyTorch when they are asked to."""

import sys
import time

try:
    import torch
except ImportError:
    print("no torch", flush=True)
    sys.exit(0)


def calls_for(call):
    count = 1
    while True:
        began = time.perf_counter_ns()
        for _ in range(count):
            call()
        if time.perf_counter_ns() - began >= 20e6 or count >= 1 << 20:
            return count
        count *= 2


def answer(case, peak=None):
    """Answers each line of the input: the nanoseconds of a call of the case that it names, by `case`; of a line
    `peak NAME` what `peak` gives for the call. The program's argument is the number of threads."""
    torch.set_num_threads(int(sys.argv[1]))
    known = {}
    print("torch " + torch.__version__, flush=True)
    for line in sys.stdin:
        name = line.strip()
        if peak and name.startswith("peak "):
            print(peak(case(name.removeprefix("peak "))), flush=True)
            continue
        if name not in known:
            call = case(name)
            # Tensors of one case at a time.
            known = {name: (call, calls_for(call) if call else 0)}
        call, count = known[name]
        if call is None:
            print("unknown", flush=True)
            continue
        began = time.perf_counter_ns()
        for _ in range(count):
            call()
        print((time.perf_counter_ns() - began) / count, flush=True)
