#!/usr/bin/env python3
"""Times training steps of mezzo, of the bare primitives and of PyTorch, as one table.

Every system runs in a process of its own. The systems alternate, round by round. The table shows
the median over rounds of the medians over steps, so that a noisy minute spoils a round but not the
ratio. Missing systems, PyTorch or the floor of a network without convolutions, are left out.
"""
import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Network, image size, batch size, and a number of steps that takes a few seconds.
WORKS = [
    ("resnet50", 224, 16, 3),
    ("resnet50", 224, 32, 2),
    ("resnet18", 32, 128, 8),
    ("resnet20", 32, 128, 20),
    ("lenet5", 32, 32, 300),
    ("mlp", 28, 64, 300),
]
PRECISIONS = {
    "f32": ["--amp", "O0"],
    "bf16": ["--amp", "O2", "--dtype", "bf16"],
    "f16": ["--amp", "O2", "--dtype", "f16"],
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir", type=pathlib.Path, help="folder of mezzo and mezzo_floor")
    parser.add_argument("--works", nargs="*", metavar="NETWORK:BATCH",
                        help="run only these, e.g. resnet50:16 mlp:64")
    parser.add_argument("--dtypes", nargs="*", choices=PRECISIONS, default=["f32", "bf16", "f16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path,
                        help="Markdown file whose part between the marks is replaced")
    return parser.parse_args()


def chosen_works(names):
    if not names:
        return WORKS
    by_name = {f"{work[0]}:{work[2]}": work for work in WORKS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        sys.exit(f"table.py: there is no {unknown[0]}; known works are {' '.join(by_name)}")
    return [by_name[name] for name in names]


def results_of(command, cwd=None):
    """The last result line of a program that writes them to --json FILE."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lines.json"
        subprocess.run([*command, "--json", str(path)], check=True, stdout=subprocess.DEVNULL,
                       cwd=cwd)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("event") == "result"][-1]


def run_mezzo(arguments, work, dtype, options=()):
    network, size, batch, steps = work
    command = [arguments.bin_dir / "mezzo", "bench", "--model", network, "--image-size", size,
               "--batch-size", batch, "--steps", steps, "--warmup", min(steps, 20),
               *PRECISIONS[dtype], *options]
    result = results_of([str(part) for part in command])
    return {key: result[key]
            for key in ("step_ms_median", "peak_bytes", "process_bytes", "update_ms")}


def run_graph(arguments, work, dtype):
    return run_mezzo(arguments, work, dtype, ["--graph"])


def run_floor(arguments, work, dtype):
    network, size, batch, _ = work
    if not network.startswith("resnet") or network == "resnet20" or size < 224 or dtype == "f16":
        return None
    command = [arguments.bin_dir / "mezzo_floor", "--model", network, "--image-size", size,
               "--batch-size", batch, "--dtype", dtype, "--repeats", 2]
    return {"step_ms_median": 1000 * results_of([str(part) for part in command])["seconds"]}


def run_pytorch(arguments, work, dtype):
    """PyTorch at its best: whichever memory format is faster."""
    network, size, batch, steps = work
    if dtype == "f16" or not arguments.has_pytorch:
        return None
    best = None
    for more in ([], ["--channels-last"]) if "resnet" in network else ([],):
        command = [arguments.python, HERE / "pytorch_step.py", "--model", network, "--image-size",
                   size, "--batch-size", batch, "--steps", steps, "--warmup", min(steps, 20),
                   "--threads", os.cpu_count(), "--dtype", dtype, *more]
        done = subprocess.run([str(part) for part in command], check=True, capture_output=True,
                              text=True)
        result = json.loads(done.stdout.splitlines()[-1])
        if best is None or result["step_ms_median"] < best["step_ms_median"]:
            best = result
    return {key: best[key] for key in ("step_ms_median", "peak_bytes")}


SYSTEMS = {"eager": run_mezzo, "graph": run_graph, "floor": run_floor, "pytorch": run_pytorch}
MODES = ("eager", "graph")  # mezzo's modes, one row each


def measure(arguments, work, dtype):
    """{system: {figure: median over rounds}}"""
    rounds = {name: [] for name in SYSTEMS}
    for _ in range(arguments.rounds):
        for name, run in SYSTEMS.items():
            result = run(arguments, work, dtype)
            if result is not None:
                rounds[name].append(result)
    return {name: {figure: statistics.median(result[figure] for result in results)
                   for figure in results[0]}
            for name, results in rounds.items() if results}


def ratio(a, b, digits=2):
    return f"{a / b:.{digits}f}" if a and b else "-"


def row_of(work, dtype, mode, figures, f32):
    """`f32`: mezzo's own figures in f32, in the same mode."""
    mezzo = figures[mode]
    own = mezzo["step_ms_median"]
    eager = figures["eager"]["step_ms_median"]
    floor = figures.get("floor", {}).get("step_ms_median")
    pytorch = figures.get("pytorch", {})
    cells = [
        f"{work[0]} {work[1]}x{work[1]} b{work[2]}", dtype, mode, f"{own:.2f}",
        f"{1000 * work[2] / own:.0f}",
        f"{floor:.1f}" if floor else "-", ratio(own, floor),
        f"{pytorch['step_ms_median']:.2f}" if pytorch else "-",
        ratio(pytorch.get("step_ms_median"), own),
        ratio(f32["step_ms_median"], own) if f32 is not mezzo else "",
        ratio(eager, own) if mode != "eager" else "",
        f"{mezzo['peak_bytes'] / 1e6:.0f}",
        ratio(mezzo["peak_bytes"], f32["peak_bytes"]) if f32 is not mezzo else "",
        f"{mezzo['process_bytes'] / 1e6:.0f}",
        ratio(mezzo["process_bytes"], pytorch.get("peak_bytes")),
        f"{100 * mezzo['update_ms'] / own:.1f} %",
    ]
    return "| " + " | ".join(cells) + " |"


HEADER = """\
| work | dtype | mode | ms | images/s | floor, ms | of the floor | PyTorch, ms | times as fast | times \
as fast as f32 | times as fast as eager | peak MB | of f32's | process MB | of PyTorch's | update |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def machine():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "an unknown processor"


def pytorch_version(python):
    """The version that `python` has, or None."""
    done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"],
                          capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


BEGIN, END = "<!-- table.py -->\n", "<!-- end of table.py -->"


def check_marks(path):
    """Before anything is measured, which takes minutes."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        sys.exit(f"table.py: {path}: {error.strerror}")
    if BEGIN not in text or END not in text:
        sys.exit(f"table.py: {path} has no marks {BEGIN.strip()} and {END}")


def write_between_marks(path, text):
    head, rest = path.read_text(encoding="utf-8").split(BEGIN, 1)
    path.write_text(head + BEGIN + text + END + rest.split(END, 1)[1], encoding="utf-8")


def main():
    arguments = parse_arguments()
    if arguments.out:
        check_marks(arguments.out)
    arguments.python = "/usr/bin/python3" if importlib.util.find_spec("torch") is None \
        else sys.executable
    version = pytorch_version(arguments.python)
    arguments.has_pytorch = version is not None
    rows = [f"{datetime.date.today()}, {machine()}, {os.cpu_count()} threads, medians of "
            f"{arguments.rounds} rounds" + (f", PyTorch {version}" if version else "") + ".", "",
            HEADER]
    print("\n".join(rows), flush=True)
    for work in chosen_works(arguments.works):
        f32 = None
        for dtype in arguments.dtypes:
            figures = measure(arguments, work, dtype)
            f32 = f32 or figures
            for mode in MODES:
                rows.append(row_of(work, dtype, mode, figures, f32[mode]))
                print(rows[-1], flush=True)
    if arguments.out:
        write_between_marks(arguments.out, "\n".join(rows) + "\n")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"table.py: {' '.join(map(str, error.cmd))} ended with status {error.returncode}"
                 + (f":\n{error.stderr}" if error.stderr else ""))
