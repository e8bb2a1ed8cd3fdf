"""The training steps that table.py measures."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Work:
    """A network and its batch: images of image_size x image_size, or sequences of so many tokens.
    `steps` take a few seconds. Both mezzo and PyTorch use the optimizer."""
    network: str
    batch: int
    steps: int
    image_size: int | None = None
    tokens: int | None = None
    optimizer: str = "sgd"

    @property
    def name(self):
        return f"{self.network}:{self.batch}" + (f"x{self.tokens}" if self.tokens else "")

    @property
    def size(self):
        """The part of a result's row that says how large an example is."""
        return {"tokens": self.tokens} if self.tokens else {"image_size": self.image_size}

    @property
    def options(self):
        """Those that `mezzo bench` and pytorch_step.py have in common."""
        size = ["--tokens", self.tokens] if self.tokens else ["--image-size", self.image_size]
        return ["--model", self.network, *size, "--batch-size", self.batch, "--steps", self.steps,
                "--warmup", min(self.steps, 20), "--optimizer", self.optimizer]


def gpt(network, batch, tokens, steps):
    return Work(network, batch, steps, tokens=tokens, optimizer="adamw")


WORKS = [
    Work("resnet50", 16, 3, image_size=224),
    Work("resnet50", 32, 2, image_size=224),
    Work("resnet18", 128, 8, image_size=32),
    Work("resnet20", 128, 20, image_size=32),
    Work("lenet5", 32, 300, image_size=32),
    Work("mlp", 64, 300, image_size=28),
    Work("vit_b_16", 8, 3, image_size=224, optimizer="adamw"),
    gpt("gpt-tiny", 12, 256, 3),
    gpt("gpt-tiny", 3, 1024, 3),
    gpt("gpt-tiny", 1, 4096, 2),
    gpt("gpt2", 4, 64, 3),
    gpt("gpt2", 4, 256, 2),
]
