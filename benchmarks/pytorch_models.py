"""The networks that pytorch_step.py trains: torchvision's, and others that it does not have."""
import torch
from torch import nn
from torch.nn import functional

import products

HEAD_WIDTH = 64
POSITIONS = 1024  # and more, where sequences are longer
DROPOUT = 0.1


def lenet5():
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                         nn.ReLU(), nn.Linear(512, 10))


class ResidualBlock(nn.Module):
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
            x = functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.more))
        return torch.relu(y + x)


def resnet20():
    """He et al. 2015, section 4.2, with the shortcuts of option A."""
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels_in = 16
    for channels in (16, 32, 64):
        for _ in range(3):
            layers.append(ResidualBlock(channels_in, channels, 1 if channels == channels_in else 2))
            channels_in = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Attention(nn.Module):
    """Causal attention that drops no probabilities: the fused kernel for CPUs cannot, and PyTorch
    would take the elementary operations instead, with all their [tokens, tokens] numbers."""

    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        thirds = self.c_attn(x).chunk(3, dim=-1)
        q, k, v = (third.unflatten(-1, (self.heads, -1)).transpose(1, 2) for third in thirds)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(heads, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        x = x + self.dropout(self.attn(self.ln_1(x)))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class Gpt(nn.Module):
    """GPT-2's structure (Radford et al. 2019), with a head that is the table of tokens."""

    def __init__(self, sizes, tokens):
        super().__init__()
        width = sizes.width
        self.wte = nn.Embedding(sizes.classes, width)
        self.wpe = nn.Embedding(max(tokens, POSITIONS), width)
        self.dropout = nn.Dropout(DROPOUT)
        self.h = nn.Sequential(*(Block(width // HEAD_WIDTH, width) for _ in range(sizes.layers)))
        self.ln_f = nn.LayerNorm(width)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.wte(tokens) + self.wpe(positions))
        return functional.linear(self.ln_f(self.h(x)), self.wte.weight)


def is_gpt(name):
    return name in products.GPTS


def maker(name, image_size, tokens):
    """A function that makes the network; its modules are imported first, so that their code does not
    count as the network's memory."""
    own = {"lenet5": lenet5, "mlp": mlp, "resnet20": resnet20}
    if name in own:
        return own[name]
    if is_gpt(name):
        return lambda: Gpt(products.GPTS[name], tokens)
    import torchvision
    more = {"image_size": image_size} if name.startswith("vit") else {}
    return lambda: getattr(torchvision.models, name)(num_classes=1000, **more)
