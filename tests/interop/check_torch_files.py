"""Weights in PyTorch's own files, against torch.save()."""
import pathlib
import sys

import common

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))


def assert_same(folder, content, expected, **options):
    """mezzo reads a file of torch.save(content): the same names, dtypes, shapes and bits as `expected`."""
    import safetensors_file
    import torch
    torch.save(content, folder / "saved.pth", **options)
    common.files("copy-pytorch", folder / "saved.pth", folder / "mezzo")
    read = safetensors_file.read(folder / "mezzo")
    assert read.keys() == expected.keys(), f"{sorted(read)} instead of {sorted(expected)}"
    for name, tensor in expected.items():
        found, wanted = read[name], tensor.detach().contiguous()
        assert found.dtype == wanted.dtype and found.shape == wanted.shape, name
        assert torch.equal(found.reshape(-1).view(torch.uint8), wanted.reshape(-1).view(torch.uint8)), name


def tensors():
    import torch
    values = torch.arange(24).reshape(2, 3, 4) - 3
    result = {str(dtype): values.to(dtype) for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32)}
    result["bool"] = values % 3 == 0
    result["uint8"] = (values % 251).to(torch.uint8)
    result["scalar"] = torch.tensor(2.5)
    result["empty"] = torch.zeros(0, 3)
    result["infinite"] = torch.tensor([float("inf"), float("nan"), -0.0, 1e-45])
    return result


def networks_of():
    import networks
    import torch
    embedding = torch.nn.Embedding(50, 16)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 64, norm_first=True)
    head = torch.nn.Linear(16, 50, bias=False)
    head.weight = embedding.weight
    gpt = torch.nn.ModuleDict({"wte": embedding, "h": torch.nn.ModuleList([layer]), "lm_head": head})
    return {"resnet18": networks.fill(networks.create("resnet18", 10)), "gpt": gpt}


def states(folder):
    """state dicts of a ResNet and a GPT with tied weights, by three ways to save them"""
    import torch
    for net in networks_of().values():
        state = net.state_dict()
        assert_same(folder, state, state)
        assert_same(folder, state, state, pickle_protocol=5)
        assert_same(folder, net.state_dict(keep_vars=True), state)
        net.to(memory_format=torch.channels_last)
        assert_same(folder, net.state_dict(), state)


def dtypes(folder):
    """every dtype, a number, an empty tensor, and files without checksums"""
    import torch
    assert_same(folder, tensors(), tensors())
    torch.serialization.set_crc32_options(False)
    assert_same(folder, tensors(), tensors())
    torch.serialization.set_crc32_options(True)


def views(folder):
    """views with strides and offsets, and names that share a storage"""
    import torch
    x = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    content = {"whole": x, "again": x, "transposed": x.transpose(0, 2), "part": x[1:, 1:3, ::2], "row": x[2, 3],
               "one": x[0, 0, 1], "expanded": x[:, :1, 0].expand(3, 7), "parameter": torch.nn.Parameter(x)}
    assert_same(folder, content, content)


def checkpoints(folder):
    """the state in a whole checkpoint, under `state_dict` or `model`, with an optimizer beside it"""
    import torch
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    for key in ("state_dict", "model"):
        assert_same(folder, {"epoch": 3, "arch": "linear", "best": 0.5, key: net.state_dict(), "seed": 2**64 - 1,
                             "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}, net.state_dict())


def refusals(folder):
    """whole networks, TorchScript and files of before 1.6 are refused with what to do"""
    import torch
    net = torch.nn.Linear(3, 2)
    torch.save(net, folder / "network")
    torch.save(net.state_dict(), folder / "legacy", _use_new_zipfile_serialization=False)
    torch.jit.save(torch.jit.trace(net, torch.ones(1, 3)), folder / "script")
    torch.save({"a": torch.ones(2, dtype=torch.int16)}, folder / "short")
    for name, message in (("network", "torch.nn.modules.linear.Linear"), ("legacy", "before 1.6"),
                          ("script", "TorchScript"), ("short", "torch.ShortStorage")):
        try:
            common.files("copy-pytorch", folder / name, folder / "mezzo")
        except RuntimeError as error:
            assert "[pytorch]" in str(error) and message in str(error), error
        else:
            raise AssertionError(f"{name} was read")


def logits(folder):
    """`mezzo eval --weights` of a file of torch.save() gives PyTorch's logits"""
    import check_torch
    import networks
    import torch
    common.write_cifar10(folder)
    net = networks.fill(networks.create("resnet18", check_torch.CLASSES))
    torch.save(net.state_dict(), folder / "pytorch_model.bin")
    check_torch.assert_same_logits(folder, net, folder / "pytorch_model.bin", "resnet18", "O0", check_torch.F32)


if __name__ == "__main__":
    common.main(["numpy", "torch", "torchvision"], [states, dtypes, views, checkpoints, refusals, logits])
