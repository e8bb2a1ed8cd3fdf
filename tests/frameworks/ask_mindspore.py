"""Asks MindSpore: the levels of auto_mixed_precision on CPUs, and its loss scalers."""
import contextlib
import tempfile

import mindspore as ms
import numpy
from mindspore import amp, nn, ops

import common

NAMES = {ms.float32: "f32", ms.float16: "f16", ms.bfloat16: "bf16", ms.float64: "f64"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}

# The parameters of operations that are layers: all of their arrays but the first.
LAYERS = {
    "conv2d": (lambda: nn.Conv2d(4, 4, 3, pad_mode="valid", has_bias=True), ["weight", "bias"]),
    "conv_transpose2d": (lambda: nn.Conv2dTranspose(4, 4, 3, pad_mode="valid", has_bias=True),
                         ["weight", "bias"]),
    "linear": (lambda: nn.Dense(8, 8), ["weight", "bias"]),
    "batch_norm": (lambda: nn.BatchNorm2d(4).set_train(), ["gamma", "beta"]),
    "layer_norm": (lambda: nn.LayerNorm((8,)), ["gamma", "beta"]),
    "group_norm": (lambda: nn.GroupNorm(2, 4), ["gamma", "beta"]),
    "relu": (nn.ReLU, []), "leaky_relu": (nn.LeakyReLU, []), "gelu": (nn.GELU, []),
    "silu": (nn.SiLU, []), "sigmoid": (nn.Sigmoid, []), "tanh": (nn.Tanh, []),
    "softmax": (lambda: nn.Softmax(1), []), "log_softmax": (lambda: nn.LogSoftmax(1), []),
    "max_pool2d": (lambda: nn.MaxPool2d(2, 2), []), "avg_pool2d": (lambda: nn.AvgPool2d(2, 2), []),
    "cross_entropy": (nn.CrossEntropyLoss, []), "mse_loss": (nn.MSELoss, []),
    "l1_loss": (nn.L1Loss, []), "smooth_l1_loss": (nn.SmoothL1Loss, []),
    "huber_loss": (nn.HuberLoss, []), "binary_cross_entropy": (lambda: nn.BCELoss(reduction="mean"), []),
    "binary_cross_entropy_with_logits": (nn.BCEWithLogitsLoss, []),
}
FUNCTIONS = {
    "matmul": ops.matmul, "embedding": lambda table, i: ops.gather(table, i, 0),
    "clamp": lambda x: ops.clamp(x, 0.2, 0.8), "abs": ops.abs, "exp": ops.exp, "log": ops.log,
    "pow": lambda x: ops.pow(x, 3), "sqrt": ops.sqrt,
    "sum": lambda x: ops.ReduceSum()(x, 1), "mean": lambda x: ops.ReduceMean()(x, 1),
    "max": lambda x: ops.ReduceMax()(x, 1), "add_number": lambda x: x + 1,
    "div_number": lambda x: x / 3, "add": ops.add, "sub": ops.sub, "mul": ops.mul, "div": ops.div,
    "maximum": ops.maximum, "minimum": ops.minimum,
    "where": lambda a, b: ops.where(ops.greater(a, 0.5), a, b), "cat": lambda a, b: ops.cat((a, b)),
    "upsample_nearest2d": lambda x: ops.interpolate(x, scale_factor=2.0, mode="nearest",
                                                    recompute_scale_factor=True),
    "upsample_bilinear2d": lambda x: ops.interpolate(x, scale_factor=2.0, mode="bilinear",
                                                     recompute_scale_factor=True),
}
# O1 rewrites networks from their source, which fails for lambdas and for LeakyReLU.
REWRITABLE = [name for name in common.OPERATIONS
              if name in LAYERS and name != "leaky_relu"
              or name in FUNCTIONS and FUNCTIONS[name].__name__ != "<lambda>"]
SEEN = []


class Layer(nn.Cell):
    """A network of one layer, which records the layer's output, since outputs of networks are cast.

    At O1 MindSpore rewrites these classes, so they record nothing; outputs are not cast there.
    """

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x):
        y = self.layer(x)
        SEEN.append(y)
        return y


class Loss(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, target):
        y = self.layer(x, target)
        SEEN.append(y)
        return y


class Call(nn.Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def construct(self, *inputs):
        y = self.function(*inputs)
        SEEN.append(y)
        return y


def network_of(name, tensors):
    """The network and its arguments."""
    if name in FUNCTIONS:
        return Call(FUNCTIONS[name]), tensors
    if name not in LAYERS:
        raise common.Missing
    make, names = LAYERS[name]
    layer = make()
    for parameter, value in zip(names, tensors[1:]):
        getattr(layer, parameter).set_data(value.astype(ms.float32))
    inputs = tensors[:len(tensors) - len(names)]
    return (Layer if len(inputs) == 1 else Loss)(layer), inputs


def at_level(level, lower):
    def call(name, tensors):
        network, inputs = network_of(name, tensors)
        network = amp.auto_mixed_precision(network, level, DTYPES[lower])
        SEEN.clear()
        result = network(*inputs)
        return SEEN[-1] if SEEN else result

    def make(array, dtype):
        tensor = ms.Tensor(array)
        return tensor if dtype is None else tensor.astype(DTYPES[dtype])

    return common.Caster(call, make, lambda y: NAMES[y.dtype],
                         lambda y: y.astype(ms.float32).asnumpy()).answers(
                             lower, REWRITABLE if level == "O1" else common.OPERATIONS)


def gradient(step):
    return [ms.Tensor(numpy.full(1, {"F": 1.0, "I": float("inf"), "N": float("nan")}[step],
                                 "float32"))]


def scaler_steps(options, steps):
    """The scaler for loops that are written as functions."""
    init, growth, _, interval = options
    scaler = amp.DynamicLossScaler(init, growth, interval)
    scales, taken = [], []
    for step in steps:
        finite = amp.all_finite(gradient(step))
        scaler.adjust(finite)
        taken.append(bool(finite))
        scales.append(float(scaler.scale_value.asnumpy()))
    return scales, taken


def manager_steps(options, steps):
    """The manager, as updated by a user's own loop."""
    init, growth, _, interval = options
    manager = amp.DynamicLossScaleManager(init, growth, interval)
    scales = []
    for step in steps:
        manager.update_loss_scale(step != "F")
        scales.append(manager.get_loss_scale())
    return scales, None


def cell_steps(options, steps):
    """The cell that updates the manager's scale within a training step."""
    init, growth, _, interval = options
    cell = amp.DynamicLossScaleManager(init, growth, interval).get_update_cell()
    scale = ms.Parameter(ms.Tensor(cell.get_loss_scale(), ms.float32), name="scale")
    scales = []
    for step in steps:
        cell(scale, ms.Tensor(step != "F"))
        scales.append(float(scale.asnumpy()))
    return scales, None


def fixed_steps(options, steps):
    manager = amp.FixedLossScaleManager(options[0])
    scales = []
    for step in steps:
        manager.update_loss_scale(step != "F")
        scales.append(manager.get_loss_scale())
    return scales, None


def scalers():
    manager = amp.DynamicLossScaleManager()
    scaler = amp.DynamicLossScaler(8, 2, 3)
    return {
        "mindspore.amp.DynamicLossScaler": {
            "scale is kept in": NAMES[scaler.scale_value.dtype],
            "trajectories": common.trajectories(scaler_steps)},
        "mindspore.amp.DynamicLossScaleManager": {
            "defaults": [manager.get_loss_scale(), manager.scale_factor, 1 / manager.scale_factor,
                         manager.scale_window],
            "scale is kept in": {int: "f64", float: "f64"}[type(manager.get_loss_scale())],
            "trajectories": common.trajectories(manager_steps)},
        "mindspore.nn.DynamicLossScaleUpdateCell": {
            "scale is kept in": "f32", "trajectories": common.trajectories(cell_steps)},
        "mindspore.amp.FixedLossScaleManager": {
            "trajectories": common.trajectories(fixed_steps, common.PLAIN)}}


def facts():
    norm = nn.BatchNorm2d(1, momentum=0.9).set_train()
    norm(ops.ones((4, 1, 2, 2), ms.float32))
    return common.facts({"running mean of ones, momentum 0.9":
                         lambda: f"{norm.moving_mean.asnumpy().item():g}"})


def main():
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
    ms.set_device("CPU")
    # bf16 has next to no kernels on CPUs. O1 leaves rewritten sources in the working folder.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        casts = {f"{level}, f16": {"level": level, "lower": "f16",
                                   "answers": at_level(level, "f16")}
                 for level in ("auto", "O1", "O2", "O3")}
    common.write("mindspore", "MindSpore", ms.__version__, casts=casts, scalers=scalers(),
                 facts=facts())


if __name__ == "__main__":
    main()
