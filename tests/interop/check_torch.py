"""Weights and trainings, against PyTorch and torchvision."""
import json
import pathlib
import sys

import common

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # of --data cifar10
STEPS, BATCH, LR, MOMENTUM, CLASSES = 20, 16, 1e-4, 0.9, 10
F32, BF16, LOSS = 1e-4, 2e-2, 1e-3  # tolerances: parts of the largest logit; of a loss


def images_of(path):
    import numpy
    import torch
    records = numpy.fromfile(path, numpy.uint8).reshape(-1, 1 + 3 * 32 * 32)
    pixels = records[:, 1:].reshape(-1, 3, 32, 32) / 255
    mean, deviation = (numpy.array(values).reshape(3, 1, 1) for values in (MEAN, DEVIATION))
    images = ((pixels - mean) / deviation).astype(numpy.float32)
    return torch.from_numpy(images), torch.from_numpy(records[:, 0].astype(numpy.int64))


def assert_same_logits(folder, net, weights, model, level, tolerance):
    """mezzo's logits of a weight file are those of a network."""
    import numpy
    import torch
    common.mezzo("eval", "--model", model, "--data", f"cifar10:{folder}", "--weights", weights,
                 "--amp", level, "--logits", folder / "logits.npy")
    net.eval()
    with torch.no_grad():
        expected = net(images_of(folder / "test_batch.bin")[0]).numpy()
    error = abs(numpy.load(folder / "logits.npy") - expected).max() / abs(expected).max()
    assert error <= tolerance, f"{model} {level}: differs by {error:.2g} of the largest logit"


def losses_of(net, folder):
    import torch
    batches = [images_of(folder / f"data_batch_{i}.bin") for i in range(1, 6)]
    images, labels = (torch.cat(parts) for parts in zip(*batches))
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    net.train()
    losses = []
    for first in range(0, STEPS * BATCH, BATCH):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images[first:first + BATCH]),
                                                 labels[first:first + BATCH])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def torch_to_mezzo(folder, model):
    import networks
    import safetensors_file
    common.write_cifar10(folder)
    net = networks.fill(networks.create(model, CLASSES))
    weights = folder / "torch.safetensors"
    safetensors_file.write(weights, net.state_dict())
    assert_same_logits(folder, net, weights, model, "O0", F32)
    assert_same_logits(folder, net, weights, model, "O2", BF16)
    return net, weights


def logits(folder):
    """ResNet-50 with PyTorch's weights gives PyTorch's logits, in f32 and bf16"""
    torch_to_mezzo(folder, "resnet50")


def vision_transformer(folder):
    """a vision transformer with torchvision's names gives its logits, in f32 and bf16"""
    torch_to_mezzo(folder, "vit_ti_16")


def training(folder):
    """ResNet-18 with PyTorch's weights gives the same logits, and losses of 20 steps"""
    net, weights = torch_to_mezzo(folder, "resnet18")
    lines = folder / "run.json"
    common.mezzo("train", "--model", "resnet18", "--data", f"cifar10:{folder}", "--weights", weights,
                 "--amp", "O0", "--no-shuffle", "--no-augment", "--steps", STEPS, "--batch-size",
                 BATCH, "--lr", LR, "--momentum", MOMENTUM, "--json", lines)
    found = [event["loss"] for event in map(json.loads, lines.read_text().splitlines())
             if event["event"] == "step"]
    expected = losses_of(net, folder)
    error = max(abs(a - b) for a, b in zip(found, expected))
    assert len(found) == STEPS and error <= LOSS, f"losses differ by {error:.2g}"


def mezzo_to_torch(folder):
    """torchvision loads mezzo's trained ResNets and vision transformer (strict), with equal logits"""
    import networks
    import safetensors_file
    data = common.write_cifar10(folder, training=8)
    for model in ("resnet18", "resnet50", "vit_ti_16"):
        weights = folder / f"{model}.safetensors"
        common.mezzo("train", "--model", model, "--data", data, "--steps", 3, "--batch-size", 8,
                     "--save", weights)
        net = networks.create(model, CLASSES)
        net.load_state_dict(safetensors_file.read(weights), strict=True)
        assert_same_logits(folder, net, weights, model, "O0", F32)


if __name__ == "__main__":
    common.main(["numpy", "torch", "torchvision"], [logits, vision_transformer, training, mezzo_to_torch])
