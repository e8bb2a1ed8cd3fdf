#!/usr/bin/env python3
"""Times training steps of mezzo, of the bare primitives and of PyTorch.

Every system runs in a process of its own. The systems alternate, round by round. A figure is the
median over rounds of the medians over steps, so that a noisy minute spoils a round but not the
ratio. Missing systems, PyTorch or the floor of a network without convolutions, are left out. The
figures go into the file of this machine and day in benchmarks/results, from which page.py writes
the tables of the pages.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import machine
import result_files
import step_table

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
    parser.add_argument("bin_dir", type=pathlib.Path, help="where mezzo and mezzo_floor lie")
    parser.add_argument("--works", nargs="*", metavar="NETWORK:BATCH",
                        help="only these, e.g. resnet50:16 mlp:64")
    parser.add_argument("--dtypes", nargs="*", choices=PRECISIONS, default=["f32", "bf16", "f16"])
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=pathlib.Path, default=result_files.FOLDER,
                        metavar="FOLDER", help="where the file goes, instead of benchmarks/results")
    parser.add_argument("--machine", metavar="NAME", help="instead of a name made of the CPU's")
    return parser.parse_args()


def chosen_works(names):
    if not names:
        return WORKS
    by_name = {f"{work[0]}:{work[2]}": work for work in WORKS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        sys.exit(f"table.py: there is no {unknown[0]}; there are {' '.join(by_name)}")
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
    return {key: result[key] for key in ("step_ms_median", "step_ms_min", "peak_bytes",
                                         "process_bytes", "update_ms")}


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
    return {"step_ms_median": best["step_ms_median"], "step_ms_min": best["step_ms_min"],
            "process_bytes": best["peak_bytes"]}


SYSTEMS = {"eager": run_mezzo, "graph": run_graph, "floor": run_floor, "pytorch": run_pytorch}
MORE = {"update_ms": ("update_ms", 1), "peak_bytes": ("peak_mb", 1e6),
        "process_bytes": ("process_mb", 1e6)}


def row_of(work, dtype, system, rounds):
    """The row of a result file (result_files.py) for what one system gave in all rounds."""
    network, size, batch, _ = work
    runs = [round(result["step_ms_median"], 4) for result in rounds]
    least = min(result.get("step_ms_min", result["step_ms_median"]) for result in rounds)
    row = {"name": network, "image_size": size, "dtype": dtype, "batch_size": batch,
           "system": system,
           "ms": {"median": round(statistics.median(runs), 4), "min": round(least, 4), "runs": runs}}
    for figure, (name, unit) in MORE.items():
        if figure in rounds[0]:
            row[name] = round(statistics.median(result[figure] for result in rounds) / unit, 4)
    return row


def measure(arguments, work, dtype):
    """The rows of all systems."""
    rounds = {name: [] for name in arguments.systems}
    for _ in range(arguments.rounds):
        for name in arguments.systems:
            result = SYSTEMS[name](arguments, work, dtype)
            if result is not None:
                rounds[name].append(result)
    return [row_of(work, dtype, name, results) for name, results in rounds.items() if results]


def pytorch_version(python):
    """The version that `python` has, or None."""
    return machine.output_of(python, "-c", "import torch; print(torch.__version__)") or None


def begin(arguments):
    """The result of today, and PyTorch if there is one."""
    arguments.python = "/usr/bin/python3" if importlib.util.find_spec("torch") is None \
        else sys.executable
    pytorch = pytorch_version(arguments.python) if "pytorch" in arguments.systems else None
    arguments.has_pytorch = pytorch is not None
    info = machine.output_of(arguments.bin_dir / "mezzo", "info")
    return result_files.begin(
        arguments.results, machine.described(info, os.cpu_count(), arguments.machine),
        machine.versions(info, arguments.bin_dir, pytorch), arguments.rounds)


def measure_work(arguments, work, result):
    """Writes the file after every dtype, so that a run that is ended early keeps what it has."""
    rows = []
    for dtype in arguments.dtypes:
        rows += measure(arguments, work, dtype)
        result_files.put(result, rows)
        path = result_files.write(arguments.results, result)
    print("\n".join(step_table.lines(rows)), flush=True)
    return path


def main():
    arguments = parse_arguments()
    works = chosen_works(arguments.works)
    result = begin(arguments)
    print(f"{step_table.caption(result)}\n\n{step_table.HEADER}", flush=True)
    for work in works:
        path = measure_work(arguments, work, result)
    print(f"\nwrote {path}; ./run bench --page puts it into the pages")


if __name__ == "__main__":
    try:
        main()
    except result_files.Fault as fault:
        sys.exit(f"table.py: {fault}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"table.py: {' '.join(map(str, error.cmd))} ended with status {error.returncode}"
                 + (f":\n{error.stderr}" if error.stderr else ""))
