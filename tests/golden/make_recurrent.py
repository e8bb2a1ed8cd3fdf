#!/usr/bin/env python3
"""Writes recurrent.json: results and gradients of PyTorch's LSTM and GRU, with weights of networks.py.

Two layers, both directions, sequences of several lengths and initial states. The gradients are those of
the sum of all results, each times a number of the formula.
"""
import json
import pathlib

import torch

import networks

HERE = pathlib.Path(__file__).parent
LENGTHS = [4, 2, 5]
STEPS = 5
FEATURES = 3
HIDDEN = 6
LAYERS = 2


def values(number, *shape):
    """Numbers in [-1, 1): stream IMAGES + number."""
    count = torch.Size(shape).numel()
    return torch.from_numpy(networks.units(networks.IMAGES + number, count)).reshape(shape)


def run(kind):
    net = networks.fill(kind(FEATURES, HIDDEN, LAYERS, batch_first=True, bidirectional=True))
    x = values(0, len(LENGTHS), STEPS, FEATURES).requires_grad_()
    states = [values(1 + i, 2 * LAYERS, len(LENGTHS), HIDDEN).requires_grad_()
              for i in range(2 if kind is torch.nn.LSTM else 1)]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    sequence, last = net(packed, tuple(states) if len(states) == 2 else states[0])
    sequence, _ = torch.nn.utils.rnn.pad_packed_sequence(sequence, batch_first=True, total_length=STEPS)
    results = [sequence, *(last if len(states) == 2 else [last])]
    sum((result * values(10 + i, *result.shape)).sum() for i, result in enumerate(results)).backward()
    gradients = {"x": x, "h0": states[0]} | ({"c0": states[1]} if len(states) == 2 else {}) | dict(net.named_parameters())
    return {"results": [result.flatten().tolist() for result in results],
            "gradients": {name: tensor.grad.flatten().tolist() for name, tensor in gradients.items()}}


def main():
    made = {"torch": torch.__version__, "lengths": LENGTHS, "steps": STEPS, "features": FEATURES,
            "hidden": HIDDEN, "layers": LAYERS, "lstm": run(torch.nn.LSTM), "gru": run(torch.nn.GRU)}
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in made.items()]
    (HERE / "recurrent.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
