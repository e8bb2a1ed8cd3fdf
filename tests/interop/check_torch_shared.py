"""Weights that modules share, against PyTorch and the package safetensors."""
import common


def tied(value):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5)
            self.head.weight = self.embed.weight
            self.register_buffer("first", torch.full((2,), float(value)))
            self.register_buffer("again", self.first)

    net = Net()
    torch.nn.init.constant_(net.embed.weight, value)
    return net


def models(folder):
    """save_model() and load_model() exchange shared weights and buffers with mezzo"""
    from safetensors import safe_open
    from safetensors.torch import load_file, load_model, save_model
    save_model(tied(3), folder / "package", {"format": "pt"})
    common.files("copy-safetensors", folder / "package", folder / "mezzo")
    assert load_file(folder / "mezzo").keys() == load_file(folder / "package").keys()
    with safe_open(folder / "mezzo", "pt") as ours, safe_open(folder / "package", "pt") as theirs:
        assert ours.metadata() == theirs.metadata()
    net = tied(0)
    missing, unexpected = load_model(net, folder / "mezzo")
    assert not missing and not unexpected
    assert (net.head.weight == 3).all() and (net.again == 3).all()
    assert net.head.weight is net.embed.weight


if __name__ == "__main__":
    common.main(["torch", "safetensors"], [models])
