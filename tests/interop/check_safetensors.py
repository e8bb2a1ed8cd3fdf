"""Weight files, against the Python package safetensors."""
import common

EMPTY, METADATA = (0, 3), {"format": "pt"}


def tensors():
    import numpy
    values = numpy.arange(-3, 21).reshape(2, 3, 4)
    result = {f"of.{dtype}": values.astype(dtype)
              for dtype in ("float64", "float32", "float16", "int64", "int32")}
    result["of.uint8"] = (values % 251).astype("uint8")
    result["of.bool"] = values % 3 == 0
    result["empty"] = numpy.zeros(EMPTY, "float32")
    result["scalar"] = numpy.array(2.5, "float32")
    return result


def equal(a, b):
    import numpy
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and numpy.array_equal(a[name], b[name]) for name in a)


def copies(folder):
    """mezzo reads the package's files, and writes the same bytes"""
    from safetensors.numpy import load_file, save_file
    save_file(tensors(), folder / "package", METADATA)
    common.files("copy-safetensors", folder / "package", folder / "mezzo")
    assert equal(load_file(folder / "mezzo"), tensors())
    assert (folder / "mezzo").read_bytes() == (folder / "package").read_bytes()


def shared(folder):
    """a tensor with several names is written once, with the others in the metadata"""
    import numpy
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
    stored = {"embed": numpy.ones((2, 3), "float32"), "z": numpy.zeros(4, "float32")}
    metadata = METADATA | {"head.weight": "embed", "zero": "z"}
    save_file(stored, folder / "package", metadata)
    common.files("copy-safetensors", folder / "package", folder / "mezzo")
    assert equal(load_file(folder / "mezzo"), stored)
    with safe_open(folder / "mezzo", "numpy") as copy:
        assert copy.metadata() == metadata


def training(folder):
    """the package reads trained weights, and evaluation takes what it writes"""
    from safetensors.numpy import load_file, save_file
    saved, changed = folder / "saved", folder / "changed"
    common.mezzo("train", "--model", "lenet5", "--steps", 2, "--save", saved)
    state = load_file(saved)
    assert sorted(state) == sorted(f"{layer}.{kind}" for kind in ("weight", "bias")
                                   for layer in ("conv1", "conv2", "fc1", "fc2", "fc3"))
    assert state["conv2.weight"].shape == (16, 6, 5, 5)
    state["fc3.weight"][:] = 0  # only the bias decides now
    save_file(state, changed)
    common.mezzo("eval", "--weights", changed, "--amp", "O0", "--logits", folder / "logits.npy")
    import numpy
    logits = numpy.load(folder / "logits.npy")
    assert numpy.array_equal(logits, numpy.broadcast_to(state["fc3.bias"], logits.shape))


if __name__ == "__main__":
    common.main(["numpy", "safetensors"], [copies, shared, training])
