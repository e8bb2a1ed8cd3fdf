"""Asks OneFlow: GradScaler and StaticGradScaler in graphs on CPUs, and what its losses accept.

Its autocast and `enable_amp` do nothing on CPUs, so its lists of operations are copied from its
sources.
"""
import ctypes
import importlib.util
import pathlib
import warnings

import numpy

import common


def load_libraries():
    """Loads the CUDA libraries that OneFlow's only wheel needs, which are separate packages."""
    folder = pathlib.Path(importlib.util.find_spec("nvidia").submodule_search_locations[0])
    for name in ("cublas/lib/libcublasLt.so.11", "cublas/lib/libcublas.so.11",
                 *(f"cudnn/lib/libcudnn_{part}.so.8" for part in (
                     "ops_infer", "ops_train", "cnn_infer", "cnn_train"))):
        ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)


load_libraries()
import oneflow as flow  # noqa: E402

# The operations that mezzo has, by its names, unless OneFlow composes them from others, as it does
# for most losses. There, a mean is a sum and a product.
SOURCE = "Oneflow-Inc/oneflow at 25c8978c (2025-08-20), auto_mixed_precision_lists.cpp"
LISTS = {
    "white": ["conv2d", "linear", "matmul", "binary_cross_entropy_with_logits"],
    "gray": ["add", "sub", "mul", "div", "add_number", "div_number", "pow", "sum", "tanh", "sqrt",
             "avg_pool2d", "mean", "layer_norm", "group_norm", "batch_norm", "softmax", "log_softmax", "gelu",
             "silu", "cross_entropy"],
    "clear": ["max_pool2d", "relu", "cat", "embedding", "where", "upsample_nearest2d"],
    "on no list": ["conv_transpose2d", "exp", "log", "upsample_bilinear2d", "smooth_l1_loss",
                   "binary_cross_entropy", "sigmoid", "max", "maximum", "minimum", "clamp", "abs",
                   "leaky_relu"],
}


class Net(flow.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = flow.nn.Parameter(flow.ones(1))

    def forward(self, x):
        return (self.weight * x).sum()


class Step(flow.nn.Graph):
    def __init__(self, net, scaler):
        super().__init__()
        self.net = net
        self.add_optimizer(flow.optim.SGD(net.parameters(), lr=1.0))
        if scaler is not None:
            self.config.enable_amp(True)
            self.set_grad_scaler(scaler)

    def build(self, x):
        loss = self.net(x)
        loss.backward()
        return loss


def scale_in(graph):
    """The graph's scale, if it has one, and the name of its dtype."""
    for name, value in graph.state_dict().items():
        if name.endswith("-LossScale"):
            return float(value.numpy()[0]), {flow.float32: "f32"}[value.dtype]
    return None, None


def steps_with(make_scaler):
    def run(options, steps):
        net = Net()
        graph = Step(net, make_scaler(*options))
        scales, taken = [], []
        for step in steps:
            flow.nn.init.ones_(net.weight)
            # A finite gradient, even when multiplied by any scale.
            value = {"F": 2.0**-10, "I": float("inf"), "N": float("nan")}[step]
            graph(flow.tensor(numpy.full(1, value, "float32")))
            taken.append(float(net.weight.numpy()[0]) != 1)
            scale = scale_in(graph)[0]
            scales.append(options[0] if scale is None else scale)
        return scales, taken
    return run


def defaults():
    scaler = flow.amp.GradScaler()
    return [scaler._init_scale, scaler._growth_factor, scaler._backoff_factor,
            scaler._growth_interval]


def scalers():
    net = Net()
    graph = Step(net, flow.amp.GradScaler())
    graph(flow.ones(1))
    return {
        "oneflow.amp.GradScaler": {
            "defaults": defaults(), "scale is kept in": scale_in(graph)[1],
            "trajectories": common.trajectories(steps_with(flow.amp.GradScaler))},
        "oneflow.amp.StaticGradScaler": {
            "trajectories": common.trajectories(
                steps_with(lambda scale, *_: flow.amp.StaticGradScaler(scale)), common.PLAIN)}}


def takes_labels_of_one_column():
    logits, labels = flow.zeros(4, 3), flow.zeros(4, 1, dtype=flow.int32)
    flow.nn.CrossEntropyLoss()(logits, labels)
    return "taken"


def main():
    warnings.simplefilter("ignore")
    lists = {name: kind for kind, names in LISTS.items() for name in names}
    common.write("oneflow", "OneFlow", flow.__version__, scalers=scalers(),
                 lists={"from": SOURCE, "lists": lists},
                 facts=common.facts({"labels of [n, 1]": takes_labels_of_one_column}))


if __name__ == "__main__":
    main()
