"""Transformers at full size, against Hugging Face's and torchvision's networks with their random weights."""
import pathlib
import sys

import common

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))

LOSS, GRADIENT = 1e-4, 1e-4  # of a loss; of the norm of a parameter's gradient
BATCHES = 3
STEPS, RATE = 10, 1e-3


def gpt(layers, width, vocabulary):
    import transformers
    config = transformers.GPT2Config(vocab_size=vocabulary, n_positions=1024, n_layer=layers, n_embd=width,
                                     n_head=width // 64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return transformers.GPT2LMHeadModel(config)


def token_batches(count, batch, length, vocabulary):
    import torch
    tokens = torch.randint(vocabulary, (count, batch, length + 1))
    return tokens[:, :, :-1].contiguous(), tokens[:, :, 1:].contiguous()


def loss_of(net, inputs, labels):
    import torch
    output = net(inputs)
    logits = getattr(output, "logits", output)
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


def pytorch_steps(net, inputs, labels, rate):
    """The losses, and the gradients of the first batch."""
    import torch
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.1)
    losses, gradients = [], {}
    for x, y in zip(inputs, labels):
        optimizer.zero_grad()
        loss = loss_of(net, x, y)
        loss.backward()
        losses.append(loss.item())
        if not gradients:
            gradients = {name.removeprefix("transformer."): parameter.grad.clone()
                         for name, parameter in net.named_parameters()}
        optimizer.step()
    return losses, gradients


def mezzo_steps(folder, model, net, inputs, labels, rate):
    import numpy
    import safetensors_file
    state = {name.removeprefix("transformer."): tensor for name, tensor in net.state_dict().items()
             if name != "lm_head.weight"}
    safetensors_file.write(folder / "weights.safetensors", state)
    numpy.save(folder / "inputs.npy", inputs.numpy())
    numpy.save(folder / "labels.npy", labels.numpy())
    common.files("steps", model, folder, rate)
    gradients = safetensors_file.read(folder / "gradients.safetensors")
    return numpy.load(folder / "losses.npy").tolist(), gradients


def largest_difference(left, right):
    return max(abs(x - y) for x, y in zip(left, right, strict=True))


def assert_first_step(folder, model, net, inputs, labels):
    """Losses with the first weights, and first gradients."""
    ours, our_gradients = mezzo_steps(folder, model, net, inputs, labels, 0)
    theirs, their_gradients = pytorch_steps(net, inputs, labels, 0)
    errors = {name: ((our_gradients[name] - gradient).norm() / gradient.norm()).item()
              for name, gradient in their_gradients.items()}
    worst = max(errors, key=errors.get)
    loss = largest_difference(ours, theirs)
    print(f"         {model}: losses {' '.join(f'{x:.6f}' for x in ours)}, largest difference {loss:.2g}; "
          f"gradients {errors[worst]:.2g} of their norm, in {worst}")
    assert loss <= LOSS and errors[worst] <= GRADIENT


def gpt2(folder):
    """losses and gradients of GPT-2 124M"""
    import torch
    torch.manual_seed(1)
    assert_first_step(folder, "gpt2", gpt(12, 768, 50257), *token_batches(BATCHES, 2, 64, 50257))


def vit(folder):
    """losses and gradients of ViT-B/16"""
    import torch
    import torchvision
    torch.manual_seed(1)
    net = torchvision.models.vit_b_16()
    torch.nn.init.normal_(net.heads.head.weight, std=0.02)  # it begins with 0, which passes no gradient on
    images, labels = torch.randn(BATCHES, 2, 3, 224, 224), torch.randint(1000, (BATCHES, 2))
    assert_first_step(folder, "vit_b_16", net.eval(), images, labels)


def adamw(folder):
    """ten steps of AdamW, as near to PyTorch's as those with another number of threads"""
    import copy
    import torch
    torch.manual_seed(1)
    net = gpt(6, 384, 256)
    inputs, labels = token_batches(STEPS, 4, 256, 256)
    ours, _ = mezzo_steps(folder, "gpt-tiny", net, inputs, labels, RATE)
    theirs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        theirs.append(pytorch_steps(copy.deepcopy(net), inputs, labels, RATE)[0])
    from_mezzo, between = largest_difference(ours, theirs[0]), largest_difference(*theirs)
    print(f"         gpt-tiny: {STEPS} steps of AdamW differ by {from_mezzo:.2g}, PyTorch with one and two threads "
          f"by {between:.2g}")
    assert from_mezzo <= max(LOSS, between)


if __name__ == "__main__":
    common.main(["torch", "torchvision", "transformers", "numpy"], [gpt2, vit, adamw])
