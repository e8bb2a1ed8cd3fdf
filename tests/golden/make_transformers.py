#!/usr/bin/env python3
"""Writes transformers.json: PyTorch's results for attention, its layers and small transformers.

usage: make_transformers.py

Needs tests/frameworks/requirements/pytorch.txt. Everything is computed in f64, so that the test can hold
mezzo's f32 against exact numbers. Per case:

  names      the state in PyTorch's names; entry i is filled from number stream i (networks.values_of)
  output     the shape and, for number streams 0 and 1, the projections of the result on them
  loss       the sum of output * units(WEIGHTS), or of a network its cross entropy
  gradients  per parameter, and per input: the norm, and projections on streams 0 and 1

A projection is the sum of the products with units(PROJECTIONS + i, size): an error anywhere shows in it, and
the file stays small. `steps` are the losses of ten steps of AdamW, for networks.
"""
import json
import pathlib

import numpy
import torch
import torchvision
import transformers

import networks

HERE = pathlib.Path(__file__).parent
INPUTS = 1 << 22
WEIGHTS = 1 << 23
PROJECTIONS = 1 << 24
SIZE, HEADS, HIDDEN = 16, 2, 24
B, T, S = 2, 5, 7
VOCABULARY = 37
STEPS = 10


def units(stream, shape):
    values = networks.units(stream, int(numpy.prod(shape))).reshape(shape)
    return torch.from_numpy(values).double()


def numbers(stream, shape, count):
    values = networks.hashed(stream, int(numpy.prod(shape))) % numpy.uint32(count)
    return torch.from_numpy(values.astype(numpy.int64)).reshape(shape)


def fill(net, skip=()):
    """Fills the state in f64 and gives its names, without `skip`."""
    state = {name: tensor for name, tensor in net.state_dict().items() if name not in skip}
    for stream, (name, tensor) in enumerate(state.items()):
        tensor.copy_(torch.from_numpy(numpy.asarray(networks.values_of(name, tuple(tensor.shape), stream))))
    return list(state)


def measured(tensor):
    tensor = tensor.detach()
    return [tensor.norm().item()] + [(tensor * units(PROJECTIONS + i, tuple(tensor.shape))).sum().item()
                                     for i in (0, 1)]


def record(net, names, output, loss, inputs=()):
    loss.backward()
    gradients = {name: measured(parameter.grad) for name, parameter in net.named_parameters() if name in names}
    gradients |= {f"input {i}": measured(x.grad) for i, x in enumerate(inputs)}
    return {"names": names, "shape": list(output.shape), "output": measured(output), "loss": loss.item(),
            "gradients": gradients}


def inputs_of(*lengths):
    return [units(INPUTS + i, (B, t, SIZE)).requires_grad_() for i, t in enumerate(lengths)]


def key_mask(length):
    """True for padding: the last key of example 0, the last three of example 1."""
    mask = torch.zeros(B, length, dtype=torch.bool)
    mask[0, -1:] = True
    mask[1, -3:] = True
    return mask


def pair_mask(queries, keys):
    """True for pairs that are left out: every third, but never all of a row."""
    pairs = torch.arange(queries)[:, None] + 2 * torch.arange(keys)[None, :]
    return pairs % 3 == 1


def causal(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def layer_case(net, call, *lengths):
    net = net.double()
    names = fill(net)
    inputs = inputs_of(*lengths)
    output = call(net, *inputs)
    return record(net, names, output, (output * units(WEIGHTS, tuple(output.shape))).sum(), inputs)


def attention_case(call, *lengths):
    return layer_case(torch.nn.MultiheadAttention(SIZE, HEADS, batch_first=True), call, *lengths)


def encoder(**options):
    return torch.nn.TransformerEncoderLayer(SIZE, HEADS, HIDDEN, 0.0, batch_first=True, **options)


def decoder(**options):
    return torch.nn.TransformerDecoderLayer(SIZE, HEADS, HIDDEN, 0.0, batch_first=True, **options)


def layers():
    return {
        "attention of x": attention_case(lambda f, x: f(x, x, x, need_weights=False)[0], T),
        "attention of x, causal": attention_case(
            lambda f, x: f(x, x, x, need_weights=False, attn_mask=causal(T), is_causal=True)[0], T),
        "attention to another": attention_case(
            lambda f, x, y: f(x, y, y, need_weights=False, key_padding_mask=key_mask(S))[0], T, S),
        "attention to two others": attention_case(
            lambda f, q, k, v: f(q, k, v, need_weights=False, key_padding_mask=key_mask(S),
                                 attn_mask=pair_mask(T, S))[0], T, S, S),
        "encoder layer": layer_case(
            encoder(), lambda f, x: f(x, src_key_padding_mask=key_mask(T)), T),
        "encoder layer, norm first": layer_case(
            encoder(norm_first=True, activation="gelu"), lambda f, x: f(x, src_mask=causal(T), is_causal=True), T),
        "decoder layer": layer_case(
            decoder(), lambda f, x, y: f(x, y, tgt_mask=causal(T), memory_key_padding_mask=key_mask(S)), T, S),
        "decoder layer, norm first": layer_case(
            decoder(norm_first=True), lambda f, x, y: f(x, y, tgt_mask=causal(T), memory_mask=pair_mask(T, S)), T, S),
    }


def losses_of(net, loss_of):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(step)[1]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def network_case(net, loss_of, skip=()):
    """loss_of(step) gives output and loss of a step's batch."""
    net = net.double().train()
    names = fill(net, skip)
    output, loss = loss_of(0)
    case = record(net, names, output, loss)
    case["steps"] = losses_of(net, loss_of)
    return case


def language_case(net, skip=()):
    def loss_of(step):
        tokens = numbers(INPUTS + step, (B, T + 1), VOCABULARY)
        logits = net(tokens[:, :-1]).logits
        return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    return network_case(net, loss_of, skip)


def gpt():
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=8, n_embd=SIZE, n_layer=2, n_head=HEADS,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return language_case(transformers.GPT2LMHeadModel(config), skip=("lm_head.weight",))


def llama():
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=SIZE, intermediate_size=HIDDEN,
                                      num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      rms_norm_eps=1e-5, tie_word_embeddings=False)
    return language_case(transformers.LlamaForCausalLM(config))


def vit():
    net = torchvision.models.VisionTransformer(image_size=16, patch_size=8, num_layers=2, num_heads=HEADS,
                                               hidden_dim=SIZE, mlp_dim=HIDDEN, num_classes=10)

    def loss_of(step):
        images, labels = networks.batch(step, B, 3, 16, 10)
        logits = net(images.double())
        return logits, torch.nn.functional.cross_entropy(logits, labels)
    return network_case(net, loss_of)


def main():
    made = {"torch": torch.__version__, "torchvision": torchvision.__version__,
            "transformers": transformers.__version__}
    made |= layers()
    made |= {"gpt": gpt(), "llama": llama(), "vit": vit()}
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in made.items()]
    (HERE / "transformers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
