#!/usr/bin/env python3
"""Times training steps of PyTorch on generated input, as `mezzo bench` times mezzo's.

Prints one JSON line. The step is that of PyTorch's guide to mixed precision: forward pass and loss
under autocast, backward, SGD with momentum. Needs torch and, for ResNets, torchvision.
"""
import argparse
import json
import pathlib
import resource
import statistics
import time

IMAGE_SIZES = {"lenet5": 32, "mlp": 28, "resnet20": 32}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as PyTorch chooses")
    parser.add_argument("--channels-last", action="store_true")
    return parser.parse_args()


def lenet5(torch):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def mlp(torch):
    nn = torch.nn
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                         nn.ReLU(), nn.Linear(512, 10))


def resnet20(torch):
    """He et al. 2015, section 4.2, with the shortcuts of option A."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, channels_in, channels, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            self.stride, self.more = stride, channels - channels_in

        def forward(self, x):
            y = torch.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            if self.more:
                x = nn.functional.pad(x[:, :, ::self.stride, ::self.stride],
                                      (0, 0, 0, 0, 0, self.more))
            return torch.relu(y + x)

    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels_in = 16
    for channels in (16, 32, 64):
        for _ in range(3):
            layers.append(Block(channels_in, channels, 1 if channels == channels_in else 2))
            channels_in = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def maker(torch, name):
    """A function that makes the network; its modules are imported first, so that their code does not
    count as the network's memory."""
    own = {"lenet5": lenet5, "mlp": mlp, "resnet20": resnet20}
    if name in own:
        return lambda: own[name](torch)
    import torchvision
    return lambda: getattr(torchvision.models, name)(num_classes=1000)


def resident_bytes():
    pages = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def peak_resident_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    import torch
    arguments = parse_arguments()
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    make_net = maker(torch, arguments.model)
    before = resident_bytes()
    net = make_net()
    size = arguments.image_size or IMAGE_SIZES.get(arguments.model, 224)
    images = torch.randn(arguments.batch_size, 1 if arguments.model in ("lenet5", "mlp") else 3,
                         size, size)
    if arguments.channels_last:
        net = net.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    labels = torch.arange(arguments.batch_size) % 10
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    mixed = arguments.dtype == "bf16"

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()

    times = []
    for i in range(arguments.warmup + arguments.steps):
        start = time.perf_counter()
        step()
        if i >= arguments.warmup:
            times.append(1000 * (time.perf_counter() - start))
    print(json.dumps({"event": "result", "torch": torch.__version__,
                      "step_ms_median": statistics.median(times), "step_ms_min": min(times),
                      "peak_bytes": peak_resident_bytes() - before}))


if __name__ == "__main__":
    main()
