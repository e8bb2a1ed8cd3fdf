#!/usr/bin/env python3
"""Writes golden.json: PyTorch's results for the networks, weights and images of networks.py.

usage: make_golden.py [--weights FOLDER] [--rounding]

Per network: logits of batch 0 in inference mode, and the losses of 20 steps of SGD with momentum 0.9 on
batches 0 to 19, all in f32. state_names.json gets the names and shapes of torchvision's state_dicts.
--weights also writes the weights to FOLDER/MODEL.safetensors. --rounding repeats the steps in f64 and
prints the largest difference of a loss, which is the effect of rounding alone. Batch norm over few
pixels makes a training chaotic, and a value that rounding moves across 0 changes the gradient at once.
Images of large squares, residual branches a quarter as strong as usual and low learning rates keep that
difference far below the 1e-3 that the test allows.
"""
import argparse
import json
import pathlib

import torch
import torchvision

import networks
import safetensors_file

HERE = pathlib.Path(__file__).parent
CLASSES = 10
STEPS = 20
MOMENTUM = 0.9
# Name, channels, pixels, images per batch, learning rate.
RUNS = [("lenet5", 1, 28, 8, 0.01), ("mlp", 1, 28, 8, 0.01), ("unet", 1, 16, 8, 0.3),
        ("resnet18", 3, 32, 16, 1e-4), ("resnet50", 3, 32, 16, 1e-5)]


def logits_of(net, images):
    net.eval()
    with torch.no_grad():
        return net(images)


def losses_of(net, batches, lr):
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=MOMENTUM)
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(name, channels, pixels, size, lr, rounding):
    batches = [networks.batch(i, size, channels, pixels, CLASSES) for i in range(STEPS)]
    net = networks.fill(networks.create(name, CLASSES))
    logits = logits_of(net, batches[0][0])
    losses = losses_of(net, batches, lr)
    print(f"{name}: largest logit {logits.abs().max():.3g}, losses {losses[0]:.3f} to {losses[-1]:.3f}")
    if rounding:
        exact = losses_of(networks.fill(networks.create(name, CLASSES)).double(),
                          [(images.double(), labels) for images, labels in batches], lr)
        print(f"{name}: f64 differs by {max(abs(a - b) for a, b in zip(losses, exact)):.2g}")
    return {"channels": channels, "pixels": pixels, "batch": size, "lr": lr, "momentum": MOMENTUM,
            "classes": CLASSES, "logits": logits.tolist(), "losses": losses}


def state_names():
    """Names and shapes of torchvision's networks with 1000 classes."""
    return {name: {key: list(value.shape) for key, value in
                   getattr(torchvision.models, name)().state_dict().items()}
            for name in ("resnet18", "resnet34", "resnet50", "resnet101")}


def write_lines(path, entries):
    """JSON with a line per entry."""
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", type=pathlib.Path)
    parser.add_argument("--rounding", action="store_true")
    options = parser.parse_args()
    folder = options.weights
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, *_ in RUNS:
            state = networks.fill(networks.create(name, CLASSES)).state_dict()
            safetensors_file.write(folder / f"{name}.safetensors", state)
    made = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    made |= {name: run(name, *numbers, options.rounding) for name, *numbers in RUNS}
    write_lines(HERE / "golden.json", made)
    write_lines(HERE / "state_names.json", state_names())


if __name__ == "__main__":
    main()
