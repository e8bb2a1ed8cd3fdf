"""Trains gpt-tiny on a text in PyTorch as `mezzo train` does: the network is Hugging Face's GPT-2.

usage: gpt_text.py [OPTION]... MEZZO TEXT

MEZZO is the command. It makes the initial weights of the seed; batches and dropout come from its random streams (see
philox.py). So losses differ by rounding alone, and what rounding grows to in training. The settings are those of the
section on English text in docs/experiments.md; with each step comes a line with its loss. check_torch_text.py compares
a few steps, and the experiment compares all of them.
"""
import argparse
import dataclasses
import json
import math
import os
import pathlib
import tempfile
import time

import common
import philox

LAYERS, HEADS, WIDTH, VOCABULARY, DROPOUT = 6, 6, 384, 256, 0.1


@dataclasses.dataclass
class Settings:
    text: pathlib.Path
    tokens: int = 256
    batch: int = 12
    steps: int = 300
    seed: int = 1
    rate: float = 1e-3
    last_rate: float = 1e-4
    warmup: int = 100
    betas: tuple = (0.9, 0.99)
    decay: float = 0.1
    clip: float = 1.0

    def data_options(self):
        return ["--model", "gpt-tiny", "--data", f"text:{self.text}", "--tokens", self.tokens,
                "--batch-size", self.batch]

    def mezzo_options(self):
        """Those of `mezzo train`, but for the precision."""
        betas = ",".join(map(str, self.betas))
        return [*self.data_options(), "--optimizer", "adamw", "--lr", self.rate, "--betas", betas, "--weight-decay",
                self.decay, "--decay-matrices", "--clip", self.clip, "--warmup-steps", self.warmup, "--lr-schedule",
                "half-cosine", "--lr-end", self.last_rate, "--steps", self.steps, "--seed", self.seed]

    def rate_of(self, step):
        """The learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return self.last_rate + (self.rate - self.last_rate) * (1 + math.cos(math.pi * progress)) / 2


def words_of_step(settings):
    """How many random words dropout takes in a step."""
    stream = settings.batch * settings.tokens * WIDTH
    return (1 + 2 * LAYERS) * stream + LAYERS * settings.batch * HEADS * settings.tokens**2


def beginning(settings, folder):
    """The initial weights, as Hugging Face names and stores them, and the stream of the first step.

    No weight notices a step at such a rate, and a checkpoint says where the stream was after it. Neither depends on the
    text, so that a short one will do.
    """
    from safetensors.torch import load_file
    short = dataclasses.replace(settings, text=folder / "short.txt")
    short.text.write_bytes(bytes(12 * settings.batch * settings.tokens))
    common.mezzo("train", *short.data_options(), "--steps", 1, "--lr", 1e-30, "--seed", settings.seed, "--amp", "O0",
                 "--save", folder / "first.safetensors", "--checkpoint-dir", folder / "first", "--quiet")
    manifest, = (folder / "first").glob("*/*.json")
    place = json.loads(manifest.read_text())["random"]["default"]
    stream = philox.Dropout(place["seed"], place["offset"] - words_of_step(settings))
    return load_file(folder / "first.safetensors"), stream


def network(weights):
    import transformers
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=1024, n_layer=LAYERS, n_embd=WIDTH, n_head=HEADS, resid_pdrop=DROPOUT,
        embd_pdrop=DROPOUT, attn_pdrop=DROPOUT, activation_function="gelu_pytorch_tanh", attn_implementation="eager",
        use_cache=False, bos_token_id=None, eos_token_id=None)
    net = transformers.GPT2LMHeadModel(config)
    missing, unexpected = net.transformer.load_state_dict(weights, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    net.tie_weights()
    return net


def drop_from(stream):
    """Makes all dropout in PyTorch's modules draw from a stream."""
    import torch

    def dropout(x, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return x
        return x * torch.from_numpy(stream.factors(tuple(x.shape), p))

    torch.nn.functional.dropout = dropout


class Text:
    """Sequences of a text's bytes. Its last tenth is for testing."""

    def __init__(self, settings):
        import torch
        tokens = torch.frombuffer(bytearray(settings.text.read_bytes()), dtype=torch.uint8).long()
        self.training, self.test = tokens[:len(tokens) - len(tokens) // 10], tokens[len(tokens) - len(tokens) // 10:]
        self.settings = settings

    def sequences(self, tokens, places):
        """The tokens of sequences that begin at these places, and the token after each."""
        import torch
        rows = torch.stack([tokens[place:place + self.settings.tokens + 1] for place in places])
        return rows[:, :-1], rows[:, 1:]

    def training_batch(self, step):
        """A batch of the first epoch."""
        s = self.settings
        assert (step + 1) * s.batch <= (len(self.training) - 1) // s.tokens, "a step after the first epoch"
        ends = len(self.training) - s.tokens
        places = [philox.below(philox.stream_of(s.seed, 0, number), ends)
                  for number in range(step * s.batch, (step + 1) * s.batch)]
        return self.sequences(self.training, places)

    def test_batches(self):
        s = self.settings
        places = [s.tokens * number for number in range((len(self.test) - 1) // s.tokens)]
        for first in range(0, len(places), s.batch):
            yield self.sequences(self.test, places[first:first + s.batch])


def loss_of(net, inputs, labels):
    import torch
    return torch.nn.functional.cross_entropy(net(inputs).logits.flatten(0, 1), labels.flatten())


def optimizer_of(net, settings):
    """AdamW, whose decay is for matrices alone."""
    import torch
    parameters = list(net.parameters())
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": settings.decay},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=settings.rate, betas=settings.betas, eps=1e-8)


def train(net, text, settings, steps):
    """Yields the loss of each step."""
    import torch
    optimizer = optimizer_of(net, settings)
    net.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate_of(step)
        optimizer.zero_grad()
        loss = loss_of(net, *text.training_batch(step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), settings.clip)
        optimizer.step()
        yield loss.item()


def test_loss(net, text):
    """The mean over all tokens."""
    import torch
    net.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for inputs, labels in text.test_batches():
            total += loss_of(net, inputs, labels).item() * labels.numel()
            count += labels.numel()
    return total / count


def main():
    import torch
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300, help="those of the schedule")
    parser.add_argument("--stop", type=int, help="end after so many of them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("mezzo", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    options = parser.parse_args()
    os.environ["MEZZO"] = str(options.mezzo.resolve())
    torch.set_num_threads(options.threads)
    settings = Settings(options.text.resolve(), steps=options.steps, seed=options.seed)
    text = Text(settings)
    with tempfile.TemporaryDirectory(prefix="mezzo_interop_") as folder:
        weights, stream = beginning(settings, pathlib.Path(folder))
    net = network(weights)
    drop_from(stream)
    began = time.monotonic()
    for step, loss in enumerate(train(net, text, settings, options.stop or settings.steps), 1):
        print(f"step {step}: loss {loss:.6f}, {time.monotonic() - began:.2f} s", flush=True)
    print(f"test loss {test_loss(net, text):.6f}")


if __name__ == "__main__":
    main()
