"""Asks MegEngine: autocast on CPUs, and GradScaler."""
import megengine as mge
import megengine.functional as F
import numpy

import common

NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def batch_norm(x, w, b):
    one = [mge.tensor(numpy.full((1, 4, 1, 1), value, "float32")) for value in (0, 1)]
    w, b = (F.reshape(array, (1, 4, 1, 1)) for array in (w, b))
    return F.batch_norm(x, one[0], one[1], w, b, training=True, inplace=False)[0]


FUNCTIONS = {
    "conv2d": lambda x, w, b: F.conv2d(x, w, F.reshape(b, (1, 4, 1, 1))),
    "conv_transpose2d": lambda x, w, b: F.conv_transpose2d(x, w, F.reshape(b, (1, 4, 1, 1))),
    "linear": F.linear, "matmul": F.matmul, "batch_norm": batch_norm,
    "layer_norm": lambda x, w, b: F.nn.layer_norm(x, w.shape, True, w, b),
    "group_norm": lambda x, w, b: F.nn.group_norm(x, 2, True, w, b),
    "embedding": lambda table, i: F.embedding(i, table),
    "relu": F.relu, "leaky_relu": F.leaky_relu, "gelu": F.gelu, "silu": F.silu,
    "sigmoid": F.sigmoid, "tanh": F.tanh, "clamp": lambda x: F.clip(x, 0.2, 0.8), "abs": F.abs,
    "exp": F.exp, "log": F.log, "pow": lambda x: F.pow(x, 3), "sqrt": F.sqrt,
    "softmax": lambda x: F.softmax(x, 1), "log_softmax": lambda x: F.logsoftmax(x, 1),
    "sum": lambda x: F.sum(x, 1), "mean": lambda x: F.mean(x, 1), "max": lambda x: F.max(x, 1),
    "add_number": lambda x: x + 1, "div_number": lambda x: x / 3,
    "add": F.add, "sub": F.sub, "mul": F.mul, "div": F.div, "maximum": F.maximum,
    "minimum": F.minimum, "where": lambda a, b: F.where(a > 0.5, a, b),
    "cat": lambda a, b: F.concat([a, b]),
    "max_pool2d": lambda x: F.max_pool2d(x, 2), "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "upsample_nearest2d": lambda x: F.vision.interpolate(x, scale_factor=2, mode="nearest"),
    "upsample_bilinear2d": lambda x: F.vision.interpolate(x, scale_factor=2, mode="bilinear"),
    "cross_entropy": F.nn.cross_entropy, "mse_loss": F.nn.square_loss, "l1_loss": F.nn.l1_loss,
    "binary_cross_entropy": lambda p, t: F.nn.binary_cross_entropy(p, t, with_logits=False),
    "binary_cross_entropy_with_logits": F.nn.binary_cross_entropy,
}


def in_region(lower):
    def call(name, tensors):
        if name not in FUNCTIONS:
            raise common.Missing
        with mge.amp.autocast(low_prec_dtype=DTYPES[lower]):
            return FUNCTIONS[name](*tensors)

    def make(array, dtype):
        tensor = mge.tensor(array)
        return tensor if dtype is None else tensor.astype(DTYPES[dtype])

    return common.Caster(call, make, lambda y: NAMES[numpy.dtype(y.dtype).name],
                         lambda y: y.astype("float32").numpy()).answers(lower)


def scale_steps(options, steps):
    init, growth, backoff, interval = options
    weight = mge.Parameter(numpy.ones(1, "float32"))
    scaler = mge.amp.GradScaler(init_scale=init, growth_factor=growth, backoff_factor=backoff,
                                growth_interval=interval)
    scales, taken = [], []
    for step in steps:
        value = {"F": 1.0, "I": float("inf"), "N": float("nan")}[step]
        weight.grad = mge.tensor(numpy.full(1, value * scaler.scale_factor, "float32"))
        scaler.unscale([weight])
        taken.append(weight.grad is not None)
        scaler.update()
        scales.append(scaler.scale_factor)
    return scales, taken


def scalers():
    scaler = mge.amp.GradScaler()
    return {"megengine.amp.GradScaler": {
        "defaults": [scaler.scale_factor, scaler.growth_factor, scaler.backoff_factor,
                     scaler.growth_interval],
        "scale is kept in": {float: "f64"}[type(scaler.scale_factor)],
        "trajectories": common.trajectories(scale_steps)}}


def facts():
    norm = mge.module.BatchNorm2d(1, momentum=0.9)
    norm(mge.tensor(numpy.ones((4, 1, 2, 2), "float32")))
    return common.facts({
        "keys of the scaler's state": lambda: " ".join(sorted(mge.amp.GradScaler().state_dict())),
        "running mean of ones, momentum 0.9": lambda: f"{norm.running_mean.numpy().item():g}"})


def main():
    # Computing in bf16 on a CPU ends the process, since there are no kernels for it.
    casts = {"autocast on CPUs, f16": {"level": "auto", "lower": "f16",
                                       "answers": in_region("f16")}}
    common.write("megengine", "MegEngine", mge.__version__, casts=casts, scalers=scalers(),
                 facts=facts())


if __name__ == "__main__":
    main()
