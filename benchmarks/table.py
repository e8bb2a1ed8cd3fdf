#!/usr/bin/env python3
"""Times training steps of mezzo, of the bare primitives and of PyTorch.

Every system runs in a process of its own. The systems alternate, round by round. A figure is the
median over rounds of the medians over steps, so that a noisy minute spoils a round but not the
ratio. Missing systems, PyTorch or the floor of a network that has none, are left out. The figures go
into the file of this machine and day in benchmarks/results, from which page.py writes the tables of
the pages. The work `recurrent` is the table of LSTM and GRU (recurrent_table.py).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import machine
import page
import products
import pytorch_peer
import recurrent_table
import result_files
import step_table
from works import WORKS

PRECISIONS = {
    "f32": ["--amp", "O0"],
    "bf16": ["--amp", "O2", "--dtype", "bf16"],
    "f16": ["--amp", "O2", "--dtype", "f16"],
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin_dir", type=pathlib.Path, help="where mezzo and mezzo_floor lie")
    parser.add_argument("--works", nargs="*", metavar="NETWORK:BATCH", help="only these, e.g. "
                        f"resnet50:16 gpt-tiny:12x256 {recurrent_table.NAME}")
    parser.add_argument("--dtypes", nargs="*", choices=PRECISIONS, default=["f32", "bf16", "f16"])
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", metavar="FILE",
                        help="a Python with PyTorch; PyTorch is left out without it")
    parser.add_argument("--results", type=pathlib.Path, default=result_files.FOLDER,
                        metavar="FOLDER", help="where the file goes, instead of benchmarks/results")
    parser.add_argument("--machine", metavar="NAME", help="instead of a name made of the CPU's")
    return parser.parse_args()


def chosen_works(names):
    """The works, and whether the recurrent layers are among what is asked for."""
    if not names:
        return WORKS, True
    by_name = {work.name: work for work in WORKS}
    unknown = [name for name in names if name not in (*by_name, recurrent_table.NAME)]
    if unknown:
        sys.exit(f"table.py: there is no {unknown[0]}; there are {' '.join(by_name)} "
                 f"{recurrent_table.NAME}")
    return [by_name[name] for name in names if name in by_name], recurrent_table.NAME in names


def events_of(command, event, cwd=None):
    """The lines of one kind that a program writes to --json FILE."""
    command = [str(part) for part in command]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lines.json"
        subprocess.run([*command, "--json", str(path)], check=True, stdout=subprocess.DEVNULL,
                       cwd=cwd)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("event") == event]


def run_mezzo(arguments, work, dtype, options=()):
    command = [arguments.bin_dir / "mezzo", "bench", *work.options, *PRECISIONS[dtype], *options]
    result = events_of(command, "result")[-1]
    return {key: result[key] for key in ("step_ms_median", "step_ms_min", "peak_bytes",
                                         "process_bytes", "update_ms")}


def run_graph(arguments, work, dtype):
    return run_mezzo(arguments, work, dtype, ["--graph"])


def run_products(arguments, work, dtype):
    """The matrix products of a transformer's step at the rate that `mezzo bench --profile` measures,
    which does not depend on the network that it runs."""
    command = [arguments.bin_dir / "mezzo", "bench", "--model", "mlp", "--steps", 1, "--profile"]
    rate = events_of(command, "machine")[-1][f"flops_{dtype}"]
    return {"step_ms_median": 1000 * products.of_step(work) / rate}


def run_floor(arguments, work, dtype):
    if products.of_step(work) is not None:
        return run_products(arguments, work, dtype)
    if not work.network.startswith("resnet") or work.image_size < 224 or dtype == "f16":
        return None
    command = [arguments.bin_dir / "mezzo_floor", "--model", work.network, "--image-size",
               work.image_size, "--batch-size", work.batch, "--dtype", dtype, "--repeats", 2]
    return {"step_ms_median": 1000 * events_of(command, "result")[-1]["seconds"]}


def run_pytorch(arguments, work, dtype):
    return arguments.pytorch and arguments.pytorch.run(work, dtype)


SYSTEMS = {"eager": run_mezzo, "graph": run_graph, "floor": run_floor, "pytorch": run_pytorch}
MORE = {"update_ms": ("update_ms", 1), "peak_bytes": ("peak_mb", 1e6),
        "process_bytes": ("process_mb", 1e6)}


def row_of(work, dtype, system, rounds):
    """The row of a result file (result_files.py) for what one system gave in all rounds."""
    runs = [round(result["step_ms_median"], 4) for result in rounds]
    least = min(result.get("step_ms_min", result["step_ms_median"]) for result in rounds)
    row = {"name": work.network, **work.size, "dtype": dtype, "batch_size": work.batch,
           "system": system,
           "ms": {"median": round(statistics.median(runs), 4), "min": round(least, 4), "runs": runs}}
    for figure, (name, unit) in MORE.items():
        if figure in rounds[0]:
            row[name] = round(statistics.median(result[figure] for result in rounds) / unit, 4)
    if "way" in rounds[0]:
        row["ways"] = [result["way"] for result in rounds]
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


def begin(arguments):
    """The result of today; sets arguments.pytorch, which is None where there is no PyTorch."""
    info = machine.output_of(arguments.bin_dir / "mezzo", "info")
    described = machine.described(info, os.cpu_count(), arguments.machine)
    arguments.pytorch = None
    if "pytorch" in arguments.systems:
        arguments.pytorch = pytorch_peer.find(arguments.python, described)
    return result_files.begin(
        arguments.results, described,
        machine.versions(info, arguments.bin_dir,
                         arguments.pytorch and arguments.pytorch.version), arguments.rounds)


def measure_work(arguments, work, result):
    """The rows of a work. Writes the file after every dtype, so that a run that is ended early keeps
    what it has."""
    rows = []
    for dtype in arguments.dtypes:
        rows += measure(arguments, work, dtype)
        result_files.put(result, rows)
        result_files.write(arguments.results, result)
    print("\n".join(step_table.lines(rows)), flush=True)
    return rows


def measure_works(arguments, works, result):
    print(f"{step_table.caption(result)}\n\n{step_table.header('examples')}", flush=True)
    rows = [row for work in works for row in measure_work(arguments, work, result)]
    best = step_table.best_lines(rows)
    if best:
        print("\n".join(["", step_table.BEST_HEADER, *best]), flush=True)


def main():
    arguments = parse_arguments()
    works, with_recurrent = chosen_works(arguments.works)
    result = begin(arguments)
    if works:
        measure_works(arguments, works, result)
    if with_recurrent:
        table = recurrent_table.measure(arguments.bin_dir, arguments.pytorch, arguments.rounds)
        result.setdefault("tables", {})[recurrent_table.NAME] = table
        print(f"\n{page.grid(table)}")
    path = result_files.write(arguments.results, result)
    print(f"\nwrote {path}; ./run bench --page puts it into the pages")


if __name__ == "__main__":
    try:
        main()
    except result_files.Fault as fault:
        sys.exit(f"table.py: {fault}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"table.py: {' '.join(map(str, error.cmd))} ended with status {error.returncode}"
                 + (f":\n{error.stderr}" if error.stderr else ""))
