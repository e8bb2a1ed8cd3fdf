#!/usr/bin/env python3
"""Times PyTorch's recurrent layers as benchmarks/recurrent.cpp times mezzo's. Needs torch."""
import argparse
import statistics
import time

import torch


def milliseconds(net, x, grad, repeats, dtype):
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            y, _ = net(x)
        y.backward(grad.to(y.dtype))
        times.append(1000 * (time.perf_counter() - start))
        x.grad = None
        net.zero_grad()
    return statistics.median(times[1:])  # the first pass allocates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as PyTorch chooses")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtype", choices=["f32", "bf16"], nargs="*", default=["f32"])
    options = parser.parse_args()
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    for dtype in options.dtype:
        for kind in torch.nn.LSTM, torch.nn.GRU:
            torch.manual_seed(1)
            net = kind(options.hidden, options.hidden, options.layers, batch_first=True)
            x = torch.randn(options.batch_size, options.steps, options.hidden, requires_grad=True)
            grad = torch.randn(options.batch_size, options.steps, options.hidden)
            elapsed = milliseconds(net, x, grad, options.repeats, dtype)
            print(f"{kind.__name__.lower():20} {dtype:5} {elapsed:10.1f}", flush=True)


if __name__ == "__main__":
    main()
