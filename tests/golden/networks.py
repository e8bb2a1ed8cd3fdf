"""The networks of mezzo in PyTorch, with weights, images and labels from a formula.

Only their results are stored: tests/golden/formula.h computes the same numbers to the last bit. Needs
torch, torchvision and numpy: see tests/frameworks/requirements/pytorch.txt.
"""
import numpy
import torch
import torchvision

IMAGES = 1 << 20  # number streams: state entry i uses stream i
LABELS = 1 << 21


def hashed(stream, count):
    """`count` 32-bit integers: the finalizer of MurmurHash3 over a counter."""
    with numpy.errstate(over="ignore"):
        x = numpy.arange(count, dtype=numpy.uint32) + numpy.uint32(stream) * numpy.uint32(0x9E3779B9)
        x = (x ^ (x >> numpy.uint32(16))) * numpy.uint32(0x85EBCA6B)
        x = (x ^ (x >> numpy.uint32(13))) * numpy.uint32(0xC2B2AE35)
    return x ^ (x >> numpy.uint32(16))


def units(stream, count):
    """Numbers in [-1, 1): multiples of 2^-23, which f32 represents exactly."""
    whole = (hashed(stream, count) >> numpy.uint32(8)).astype(numpy.int64) - (1 << 23)
    return (whole / float(1 << 23)).astype(numpy.float32)


def values_of(name, shape, stream):
    """State entry number `stream`, with at most one f32 multiplication and one f32 addition."""
    unit = units(stream, int(numpy.prod(shape))).reshape(shape)
    if len(shape) > 1:  # a product's weight: uniform, with the variance of kaiming_normal
        fan_in = int(numpy.prod(shape[1:]))
        return unit * numpy.float32(numpy.sqrt(6.0 / fan_in))
    if name.endswith(("bn2.weight", "bn3.weight")):  # small branches: see make_golden.py
        return numpy.float32(0.25) + unit * numpy.float32(0.0625)
    if name.endswith(("weight", "running_var")):  # of batch norm
        return numpy.float32(1) + unit * numpy.float32(0.25)
    return unit * numpy.float32(0.125)


def fill(net):
    """Sets every parameter and statistic of a network; batch counts stay 0."""
    state = net.state_dict()
    for stream, (name, tensor) in enumerate(state.items()):
        if tensor.is_floating_point():
            values = values_of(name, tuple(tensor.shape), stream)
            tensor.copy_(torch.from_numpy(values))
    return net


def batch(number, size, channels, pixels, classes):
    """Batch `number` of a training run: images [size, channels, pixels, pixels], labels [size].

    Images consist of 4 x 4 squares. Fine noise would average out to nearly the same features for every
    image, and batch norm would then amplify rounding errors together with the small differences.
    """
    shape = (size, channels, 4, 4)
    squares = units(IMAGES + number, int(numpy.prod(shape))).reshape(shape)
    images = squares.repeat(pixels // 4, axis=2).repeat(pixels // 4, axis=3)
    labels = hashed(LABELS + number, size) % numpy.uint32(classes)
    return torch.from_numpy(images), torch.from_numpy(labels.astype(numpy.int64))


class LeNet5(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.fc1 = torch.nn.Linear(400, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, classes)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


class Mlp(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.fc1 = torch.nn.Linear(784, 512)
        self.fc2 = torch.nn.Linear(512, 512)
        self.fc3 = torch.nn.Linear(512, classes)

    def forward(self, x):
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


class Unet(torch.nn.Module):
    """The network of tests/unit/tiny_unet.h, with mean logits over pixels, so that it is trained like the others."""
    def __init__(self, classes):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.first_norm = torch.nn.GroupNorm(2, 8)
        self.down = torch.nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.down_norm = torch.nn.InstanceNorm2d(16, affine=True)
        self.up = torch.nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.repeat = torch.nn.Upsample(scale_factor=2)
        self.joined = torch.nn.Conv2d(32, 8, 3, padding=1)
        self.joined_norm = torch.nn.GroupNorm(4, 8)
        self.classes = torch.nn.Conv2d(8, classes, 1)

    def forward(self, x):
        wide = torch.relu(self.first_norm(self.first(x)))
        deep = torch.relu(self.down_norm(self.down(wide)))
        back = torch.cat([torch.relu(self.up(deep)), self.repeat(deep), wide], 1)
        return self.classes(torch.relu(self.joined_norm(self.joined(back)))).mean((2, 3))


def create(name, classes):
    """The network of that name in mezzo, with PyTorch's own initial values."""
    if name == "lenet5":
        return LeNet5(classes)
    if name == "mlp":
        return Mlp(classes)
    if name == "unet":
        return Unet(classes)
    if name == "vit_ti_16":  # for images of 32 pixels
        return torchvision.models.VisionTransformer(
            image_size=32, patch_size=16, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768,
            num_classes=classes)
    return getattr(torchvision.models, name)(num_classes=classes)
