"""ONNX files, against onnxruntime."""
import common

MODELS = ("lenet5", "mlp", "resnet20", "resnet18", "resnet34", "resnet50", "resnet101",
          "resnet50_cifar", "vit_ti_16")
# Means and deviations of --data cifar10; see the command's documentation.
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
TOLERANCE = 1e-4  # of the largest logit


def run_named(path, inputs, outputs=None):
    import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(outputs, inputs)


def run(path, images):
    return run_named(path, {"input": images})[0]


def assert_close(found, expected):
    import numpy
    error = numpy.abs(found - expected).max() / numpy.abs(expected).max()
    assert error <= TOLERANCE, f"differs by {error:.2g} of the largest"


def test_images(folder):
    import numpy
    records = numpy.fromfile(folder / "test_batch.bin", numpy.uint8).reshape(-1, 1 + 3 * 32 * 32)
    pixels = records[:, 1:].reshape(-1, 3, 32, 32) / 255
    mean, deviation = (numpy.array(values).reshape(3, 1, 1) for values in (MEAN, DEVIATION))
    return ((pixels - mean) / deviation).astype(numpy.float32)


def check_model(folder, model):
    import numpy
    data = common.write_cifar10(folder, training=4, test=5)
    weights, path, logits = (folder / name for name in ("weights", "net.onnx", "logits.npy"))
    common.mezzo("train", "--model", model, "--data", data, "--steps", 2, "--batch-size", 8,
                 "--amp", "O0", "--save", weights)
    common.mezzo("export", "--model", model, "--weights", weights, "--out", path,
                 "--channels", 3, "--image-size", 32, "--classes", 10)
    common.mezzo("eval", "--model", model, "--data", data, "--weights", weights, "--amp", "O0",
                 "--logits", logits)
    images = test_images(folder)
    assert_close(run(path, images), numpy.load(logits))
    assert_close(run(path, images[:1]), numpy.load(logits)[:1])


def check_of(model):
    def check(folder):
        check_model(folder, model)
    check.__doc__ = f"logits of {model} are mezzo's"
    return check


def operations(folder):
    """operations that no network of the command uses"""
    import numpy
    common.files("onnx", folder)
    assert_close(run(folder / "net.onnx", numpy.load(folder / "input.npy")),
                 numpy.load(folder / "output.npy"))
    assert_close(run(folder / "tokens.onnx", numpy.load(folder / "ids.npy")),
                 numpy.load(folder / "rows.npy"))


def several(folder):
    """a network of several inputs and results, with a tied weight"""
    import numpy
    common.files("onnx", folder)
    inputs = {"x0": "ids", "images": "images", "hidden": "hidden"}
    found = run_named(folder / "several.onnx",
                      {name: numpy.load(folder / f"{file}.npy") for name, file in inputs.items()},
                      ["seen", "logits"])
    assert_close(found[0], numpy.load(folder / "seen.npy"))
    assert_close(found[1], numpy.load(folder / "logits.npy"))


def lengths(folder):
    """language models with other batches and lengths than those of the export"""
    import numpy
    common.files("lengths", folder)
    common.mezzo("export", "--model", "gpt-tiny", "--weights", folder / "weights",
                 "--out", folder / "gpt.onnx")
    for name, path in (("gpt", "gpt.onnx"), ("llama", "net.onnx")):
        for size in ("1x3", "1x40", "4x3", "4x40"):
            found = run(folder / path, numpy.load(folder / f"ids_{size}.npy"))
            expected = numpy.load(folder / f"{name}_{size}.npy")
            assert found.shape == expected.shape, f"{name} {size}: the shape is {found.shape}"
            assert_close(found, expected)


if __name__ == "__main__":
    common.main(["numpy", "onnxruntime"], [*map(check_of, MODELS), operations, several, lengths])
