#!/usr/bin/env python3
"""Times training steps of PyTorch on generated input, as `mezzo bench` times mezzo's.

Prints one JSON line. The step is that of PyTorch's guide to mixed precision: forward pass and loss
under autocast, backward, and the optimizer in its fused form. Needs torch and, for torchvision's
networks, torchvision; --compile also needs a C++ compiler and the headers of Python. Started as one
of several processes, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, it trains with the
others, by DistributedDataParallel over gloo, and the first one prints the line.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import time

import torch
import torch.distributed
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

import products
import pytorch_models

IMAGE_SIZES = {"lenet5": 32, "mlp": 28, "resnet20": 32}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--tokens", type=int, default=256, help="length of a GPT's sequences")
    parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as PyTorch chooses")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--reduce-dtype", choices=["f32", "bf16"], default="f32",
                        help="of the gradients that processes exchange")
    parser.add_argument("--compile", action="store_true", help="forward pass and loss, and backward")
    arguments = parser.parse_args()
    if arguments.image_size is None:
        arguments.image_size = IMAGE_SIZES.get(arguments.model, 224)
    return arguments


def example_batch(arguments):
    """Normal pixels with classes in turn; or random tokens, with the following ones as labels."""
    n, size = arguments.batch_size, arguments.image_size
    if pytorch_models.is_gpt(arguments.model):
        vocabulary = products.GPTS[arguments.model].classes
        tokens = torch.randint(vocabulary, (n, arguments.tokens + 1))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    images = torch.randn(n, 1 if arguments.model in ("lenet5", "mlp") else 3, size, size)
    if arguments.channels_last:
        images = images.to(memory_format=torch.channels_last)
    return images, torch.arange(n) % 10


def optimizer_of(name, net):
    """With the settings that `mezzo bench` has by default."""
    if name == "adamw":
        return torch.optim.AdamW(net.parameters(), lr=0.001, weight_decay=0.01, fused=True)
    return torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)


def load_code(optimizer):
    """Does a step of one number, as PyTorch loads much of its code at the first one."""
    net = torch.nn.Linear(1, 1)
    net(torch.ones(1, 1)).sum().backward()
    optimizer_of(optimizer, net).step()


def resident_bytes():
    pages = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def peak_resident_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def processes():
    return int(os.environ.get("WORLD_SIZE", "1"))


def shared(arguments, net):
    """The network as one of several processes trains it."""
    torch.distributed.init_process_group("gloo")
    net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    if arguments.reduce_dtype == "bf16":
        net.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return net


def step_of(arguments, net):
    """A function that does one step."""
    x, labels = example_batch(arguments)
    if arguments.channels_last:
        net = net.to(memory_format=torch.channels_last)
    if processes() > 1:
        net = shared(arguments, net)
    optimizer = optimizer_of(arguments.optimizer, net)

    def loss_of(x, labels):
        return torch.nn.functional.cross_entropy(net(x).flatten(0, -2), labels.flatten())

    if arguments.compile:
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.dtype == "bf16"):
            loss = loss_of(x, labels)
        loss.backward()
        optimizer.step()

    return step


def main():
    arguments = parse_arguments()
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    make_net = pytorch_models.maker(arguments.model, arguments.image_size, arguments.tokens)
    load_code(arguments.optimizer)
    before = resident_bytes()
    step = step_of(arguments, make_net())
    times = []
    for i in range(arguments.warmup + arguments.steps):
        start = time.perf_counter()
        step()
        if i >= arguments.warmup:
            times.append(1000 * (time.perf_counter() - start))
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps({"event": "result", "torch": torch.__version__,
                          "step_ms_median": statistics.median(times), "step_ms_min": min(times),
                          "peak_bytes": peak_resident_bytes() - before}))
    if processes() > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
