"""Training steps that tools/gpu_check times on a GPU, compared with PyTorch's, and their targets."""
import json
import sys
import tempfile

RESNET = ["--model", "resnet50", "--amp"]
LENET = ["--model", "lenet5", "--amp"]
MLP = ["--model", "mlp", "--amp"]
GPT = ["--model", "gpt-tiny", "--tokens", "1024", "--amp"]  # attention is a fifth of its products
# The timed works: options of `mezzo bench`, batch size, and PyTorch's counterpart: a dtype, eagerly
# or with torch.compile, or none. They are in order of importance, since time may run out: those
# that targets compare come first.
WORKS = {
    "resnet50 f16 O2 graph": (RESNET + ["O2", "--dtype", "f16", "--graph"], 256, "f16"),
    "resnet50 f32 graph": (RESNET + ["O0", "--graph"], 256, None),
    "resnet50 tf32 graph": (RESNET + ["O0", "--tf32", "--graph"], 256, "tf32"),
    # Small steps, whose time is mostly that of queueing them.
    "lenet5 b32 f32 graph": (LENET + ["O0", "--graph"], 32, "f32"),
    "mlp b64 f32 graph": (MLP + ["O0", "--graph"], 64, "f32"),
    "resnet50 f16 O2": (RESNET + ["O2", "--dtype", "f16"], 256, "f16 compile"),
    "resnet50 bf16 O2 graph": (RESNET + ["O2", "--dtype", "bf16", "--graph"], 256, "bf16"),
    "resnet50 f32": (RESNET + ["O0"], 256, "f32"),
    "resnet50 tf32": (RESNET + ["O0", "--tf32"], 256, None),
    "resnet50 bf16 O2": (RESNET + ["O2", "--dtype", "bf16"], 256, None),
    "lenet5 b32 f32": (LENET + ["O0"], 32, None),
    "lenet5 b32 f16 graph": (LENET + ["O2", "--dtype", "f16", "--graph"], 32, None),
    "mlp b64 f32": (MLP + ["O0"], 64, None),
    "mlp b64 f16 graph": (MLP + ["O2", "--dtype", "f16", "--graph"], 64, None),
    "gpt-tiny b32 bf16 graph": (GPT + ["O2", "--dtype", "bf16", "--graph"], 32, None),
    "gpt-tiny b32 f32 graph": (GPT + ["O0", "--graph"], 32, None),
}
# A GPT of width 2,048 in bf16 and with recipes of eight bits (benchmarks/gpu/wide_gpt.cpp), batch 8 of 1,024 tokens.
# The last two are for comparison: on Hopper cuBLASLt has scales of rows, and MXFP8 is widened to bf16.
WIDE = {
    "gpt width 2048 b8 bf16 graph": "bf16",
    "gpt width 2048 b8 e4m3 delayed graph": "delayed",
    "gpt width 2048 b8 e4m3 current graph": "current",
    "gpt width 2048 b8 e4m3 rows graph": "rows",
    "gpt width 2048 b8 e4m3 mxfp8 graph": "mxfp8",
}
# Targets: the measured quantity, the work, the reference (a number, a work, or PyTorch for a work),
# and the least or greatest ratio.
TARGETS = [
    ("images/s", "resnet50 f16 O2 graph", 1, ">=", 5000),
    ("images/s over PyTorch AMP", "resnet50 f16 O2 graph", "PyTorch resnet50 f16 O2 graph", ">=", 1.2),
    ("images/s over torch.compile", "resnet50 f16 O2 graph", "PyTorch resnet50 f16 O2", ">=", 1),
    ("images/s over our f32", "resnet50 f16 O2 graph", "resnet50 f32 graph", ">=", 5),
    ("images/s over our TF32", "resnet50 f16 O2 graph", "resnet50 tf32 graph", ">=", 2),
    ("peak over PyTorch AMP", "resnet50 f16 O2 graph", "PyTorch resnet50 f16 O2 graph", "<=", 0.9),
    ("images/s over PyTorch", "lenet5 b32 f32 graph", "PyTorch lenet5 b32 f32 graph", ">=", 5),
    ("images/s over PyTorch", "mlp b64 f32 graph", "PyTorch mlp b64 f32 graph", ">=", 5),
    ("tokens/s over bf16", "gpt width 2048 b8 e4m3 current graph", "gpt width 2048 b8 bf16 graph", ">=", 1.3),
    ("tokens/s over bf16", "gpt width 2048 b8 e4m3 delayed graph", "gpt width 2048 b8 bf16 graph", ">=", 1.3),
    ("peak over bf16", "gpt width 2048 b8 e4m3 delayed graph", "gpt width 2048 b8 bf16 graph", "<=", 1),
]
# cuDNN compiles some of ResNet-50's engines in every process, which takes a second or two each.
MOST_SECONDS = 240
TORCH_STEP = """
import json, sys, time
import torch, torchvision
from torch import nn
dtype, batch, model, compiles = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "compile"
tf32 = dtype == "tf32"
torch.backends.cuda.matmul.allow_tf32 = tf32
torch.backends.cudnn.allow_tf32 = tf32
torch.backends.cudnn.benchmark = True
nets = {
    "resnet50": torchvision.models.resnet50,
    "lenet5": lambda: nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10)),
    "mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
        nn.Linear(512, 10)),
}
net = nets[model]().cuda().to(memory_format=torch.channels_last)
shape, classes = ((3, 224, 224), 1000) if model == "resnet50" else ((1, 28, 28), 10)
images = torch.randn(batch, *shape, device="cuda").to(memory_format=torch.channels_last)
labels = torch.arange(batch, device="cuda") % classes
forward = torch.compile(net) if compiles else net
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
low = {"f16": torch.float16, "bf16": torch.bfloat16}.get(dtype)
scaler = torch.amp.GradScaler("cuda", enabled=dtype == "f16")
def step():
    with torch.autocast("cuda", dtype=low or torch.float16, enabled=low is not None):
        loss = torch.nn.functional.cross_entropy(forward(images), labels)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
warmup, steps = int(sys.argv[5]), int(sys.argv[6])
for _ in range(warmup):
    step()
torch.cuda.synchronize()
torch.cuda.reset_peak_memory_stats()
start = time.time()
for _ in range(steps):
    step()
torch.cuda.synchronize()
print("RESULT " + json.dumps({"images_per_s": steps * batch / (time.time() - start),
                              "peak_bytes": torch.cuda.max_memory_allocated()}), flush=True)
"""


def steps_of(options):
    """The numbers of warm-up steps and of timed steps of a work: enough for the GPU's clock to rise."""
    return (10, 20) if options[:2] in (RESNET[:2], GPT[:2]) else (200, 1000)


def bench(checks, programs, name):
    """The result of `mezzo bench` for a work, or None. A work in graph mode must be one recording: a part that cannot
    be recorded is computed eagerly."""
    options, batch, _ = WORKS[name]
    warmup, steps = steps_of(options)
    log = {"MEZZO_LOG": "dispatch"} if "--graph" in options else {}
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as events:
        done = checks.run_mezzo(f"bench {name}", [
            str(programs / "mezzo"), "bench", "--device", "cuda", *options, "--batch-size", str(batch),
            "--warmup", str(warmup), "--steps", str(steps), "--quiet", "--json", events.name], MOST_SECONDS,
            log, row=False)
        if done is None:
            return None
        lines = [json.loads(line) for line in open(events.name, encoding="utf-8")]
    if "--graph" in options:
        expect_one_recording(checks, f"bench {name}", done)
    return next(line for line in lines if line["event"] == "result")


def expect_one_recording(checks, name, output):
    if "in 1 recordings" not in output:
        checks.fail(name, "FAILED: not one recording; the log says which call was refused")


def wide_bench(checks, programs, name):
    """The result of mezzo_wide_gpt with a recipe, or None."""
    done = checks.run_mezzo(f"bench {name}", [str(programs / "mezzo_wide_gpt"), "--recipe", WIDE[name]], MOST_SECONDS,
                            {"MEZZO_LOG": "dispatch"}, row=False)
    if done is None:
        return None
    expect_one_recording(checks, f"bench {name}", done)
    return result_in(done)


def result_in(output):
    """The object after the last `RESULT ` at the beginning of a line, or None."""
    results = [line for line in output.splitlines() if line.startswith("RESULT ")]
    return json.loads(results[-1].partition(" ")[2]) if results else None


def torch_bench(checks, name):
    """The same for PyTorch, whose failure is not a failure of mezzo."""
    options, batch, torch = WORKS[name]
    if torch is None:
        return None
    dtype, _, how = torch.partition(" ")
    done = checks.run(f"PyTorch {name}", [
        sys.executable, "-c", TORCH_STEP, dtype, str(batch), options[options.index("--model") + 1], how or "eager",
        *map(str, steps_of(options))], MOST_SECONDS, row=False, counts=False)
    return result_in(done or "")


def speed_row(ours, theirs, how):
    def speed(result):
        unit = "tokens" if "tokens_per_s" in result else "images"
        return f"{result[unit + '_per_s']:9.0f} {unit}/s  {result['peak_bytes'] / 2**20:8.0f} MB peak"
    text = speed(ours) if ours else "no result"
    return f"{text}  PyTorch {how} {speed(theirs)}" if theirs else text


def time_all(checks, programs, with_torch):
    """The results of all works by name; PyTorch's are named `PyTorch NAME`."""
    results = {}
    for name in WORKS:
        ours = bench(checks, programs, name)
        theirs = torch_bench(checks, name) if with_torch else None
        checks.row(name, speed_row(ours, theirs, WORKS[name][2]))
        results.update({name: ours, f"PyTorch {name}": theirs})
    for name in WIDE:
        results[name] = wide_bench(checks, programs, name)
        checks.row(name, speed_row(results[name], None, None))
    return results


def judge(checks, results):
    for what, name, base, relation, target in TARGETS:
        unit = "tokens" if what.startswith("tokens") else "images"
        field = "peak_bytes" if what.startswith("peak") else f"{unit}_per_s"
        ours, other = results.get(name), {field: base} if base == 1 else results.get(base)
        if ours is None or other is None:
            checks.miss(f"{name}: {what}", "not measured")
            continue
        ratio = ours[field] / other[field]
        text = f"{ratio:.4g} ({relation} {target})"
        if ratio >= target if relation == ">=" else ratio <= target:
            checks.row(f"{name}: {what}", f"{text}: met")
        else:
            checks.miss(f"{name}: {what}", f"{text}: MISSED")


def convolution_kernels(checks, programs):
    """Finds the kernels that compute ResNet-50's convolutions in f16. Where cuDNN has no engine, or cannot compile it
    without CUDA's run-time compiler, operands are converted to f32: correct, but at a fraction of the speed."""
    name = "resnet50 f16 O2: kernels of conv2d"
    profile = checks.run_mezzo(name, [
        str(programs / "mezzo"), "bench", "--device", "cuda", *RESNET, "O2", "--dtype", "f16", "--batch-size", "32",
        "--warmup", "1", "--steps", "1", "--profile"], MOST_SECONDS, {"MEZZO_CUDNN_MEASURE": "0"}, row=False)
    if profile is None:
        return
    calls = {}
    for fields in map(str.split, profile.splitlines()):
        if len(fields) > 4 and fields[1].startswith("conv2d") and fields[4].isdecimal():
            calls[fields[3]] = calls.get(fields[3], 0) + int(fields[4])
    text = ", ".join(f"{count} by {kernel}" for kernel, count in sorted(calls.items()))
    if calls and not set(calls) & {"cuda_cudnn_wide", "cuda_direct"}:
        checks.row(name, text)
    else:
        checks.fail(name, f"FAILED: {text or 'none seen'}; MEZZO_LOG=dispatch says why. Is libnvrtc found?")
