"""Asks PyTorch: autocast on CPUs and, with tensors that have no elements, on CUDA; GradScaler."""
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

import common

NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.float64: "f64"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}

FUNCTIONS = {
    "conv2d": F.conv2d, "conv_transpose2d": F.conv_transpose2d, "linear": F.linear,
    "matmul": torch.matmul,
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "layer_norm": lambda x, w, b: F.layer_norm(x, w.shape, w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "embedding": lambda table, i: F.embedding(i, table),
    "relu": F.relu, "leaky_relu": F.leaky_relu, "gelu": F.gelu, "silu": F.silu,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "clamp": lambda x: x.clamp(0.2, 0.8),
    "abs": torch.abs, "exp": torch.exp, "log": torch.log, "pow": lambda x: x.pow(3),
    "sqrt": torch.sqrt, "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, 1), "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1), "max": lambda x: x.amax(1), "add_number": lambda x: x + 1,
    "div_number": lambda x: x / 3, "add": torch.add, "sub": torch.sub, "mul": torch.mul,
    "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "where": lambda a, b: torch.where(a > 0.5, a, b), "cat": lambda a, b: torch.cat([a, b]),
    "max_pool2d": lambda x: F.max_pool2d(x, 2), "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "upsample_nearest2d": lambda x: F.interpolate(x, scale_factor=2),
    "upsample_bilinear2d": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i.long()), "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss, "smooth_l1_loss": F.smooth_l1_loss, "huber_loss": F.huber_loss,
    "binary_cross_entropy": F.binary_cross_entropy,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
}


def on_cpu(lower):
    def call(name, tensors):
        with torch.autocast("cpu", dtype=DTYPES[lower]):
            return FUNCTIONS[name](*tensors)

    def make(array, dtype):
        tensor = torch.from_numpy(array)
        return tensor if dtype is None else tensor.to(DTYPES[dtype])

    return common.Caster(call, make, lambda y: NAMES[y.dtype],
                         lambda y: y.float().numpy()).answers(lower)


class FakeCuda(common.Caster):
    """Fake CUDA tensors that only have a dtype: no GPU is needed, and nothing is computed."""

    def answer(self, operation, arrays, dtypes, lower):
        return self.dtype_of(self.result(operation, arrays, dtypes))


def on_cuda(lower):
    def make(array, dtype):
        kind = torch.int64 if dtype is None else DTYPES[dtype]
        return torch.empty(array.shape, dtype=kind, device="cuda")

    def call(name, tensors):
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", DTYPES[lower])
        try:
            return FUNCTIONS[name](*tensors)
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.clear_autocast_cache()

    with FakeTensorMode():
        return FakeCuda(call, make, lambda y: NAMES[y.dtype], None).answers(lower)


def scale_steps(options, steps):
    init, growth, backoff, interval = options
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=init, growth_factor=growth,
                                  backoff_factor=backoff, growth_interval=interval)
    scales, taken = [], []
    for step in steps:
        before = weight.detach().clone()
        scaler.scale(torch.ones(1))
        weight.grad = torch.full((1,), {"F": 1.0, "I": float("inf"), "N": float("nan")}[step])
        weight.grad *= scaler.get_scale()
        scaler.step(optimizer)
        taken.append(bool(weight != before))
        weight.data.fill_(1)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, taken


def scalers():
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    return {"torch.amp.GradScaler": {
        "defaults": [scaler.get_scale(), scaler.get_growth_factor(), scaler.get_backoff_factor(),
                     scaler.get_growth_interval()],
        "scale is kept in": NAMES[scaler._scale.dtype],
        "trajectories": common.trajectories(scale_steps)}}


def derivatives(function, at, order):
    x = torch.tensor(at, requires_grad=True)
    y = function(x)
    for _ in range(order):
        y, = torch.autograd.grad(y, x, create_graph=True)
    return f"{y.item():.0e}" if abs(y.item()) > 1e3 else f"{y.item():g}"


def facts():
    infinity = float("inf")
    state = torch.amp.GradScaler("cpu").state_dict()
    norm = torch.nn.BatchNorm2d(1, momentum=0.9)
    norm(torch.ones(4, 1, 2, 2))
    questions = {
        "keys of the scaler's state": lambda: " ".join(sorted(state)),
        "running mean of ones, momentum 0.9": lambda: f"{norm.running_mean.item():g}",
        "dropout of p = 1": lambda: str(F.dropout(torch.ones(2), 1.0).tolist()),
        "labels of [n, 1]": lambda: F.cross_entropy(torch.zeros(4, 3),
                                                    torch.zeros(4, 1, dtype=torch.long)) and "taken",
    }
    for name, function in (("gelu", F.gelu), ("silu", F.silu)):
        questions[f"{name}(-inf)"] = lambda f=function: derivatives(f, -infinity, 0)
        for at in (infinity, -infinity):
            questions[f"gradient of {name} at {at}"] = lambda f=function, x=at: derivatives(f, x, 1)
    for p in (0.0, 1.0):
        questions[f"second derivative of binary_cross_entropy at {p:g}"] = lambda p=p: derivatives(
            lambda x: F.binary_cross_entropy(x, torch.tensor(1 - p)), p, 2)
    return common.facts(questions)


def main():
    casts = {f"autocast on CPUs, {lower}": {"level": "auto", "lower": lower, "answers": on_cpu(lower)}
             for lower in ("bf16", "f16")}
    for lower in ("bf16", "f16"):
        casts[f"autocast on CUDA, {lower}"] = {"level": "auto", "lower": lower,
                                               "answers": on_cuda(lower)}
    common.write("pytorch", "PyTorch", torch.__version__.split("+")[0], casts=casts,
                 scalers=scalers(), facts=facts())


if __name__ == "__main__":
    main()
