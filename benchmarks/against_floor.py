#!/usr/bin/env python3
"""Times training steps with `mezzo bench` beside the floor: the same network's bare primitives."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

# What a run is called, its options of mezzo bench, and the floor's dtype.
RUNS = [
    ("f32", ["--amp", "O0"], "f32"),
    ("bf16", ["--amp", "O2", "--dtype", "bf16"], "bf16"),
]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Other options are handed to mezzo bench as they stand.")
    parser.add_argument("bin_dir", type=pathlib.Path, help="where mezzo and mezzo_floor lie")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch-size", default="32")
    parser.add_argument("--image-size", default="224")
    return parser.parse_known_args()


def last_result(command):
    """Runs a program with --json and returns the last result line that it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lines.json"
        subprocess.run([*command, "--json", str(path)], check=True)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("event") == "result"][-1]


def main():
    arguments, bench_options = parse_arguments()
    sizes = ["--model", arguments.model, "--batch-size", arguments.batch_size,
             "--image-size", arguments.image_size]
    floor_program = str(arguments.bin_dir / "mezzo_floor")
    mezzo = str(arguments.bin_dir / "mezzo")

    rows = []
    for name, precision, dtype in RUNS:
        floor = last_result([floor_program, "--dtype", dtype, *sizes])
        step = last_result([mezzo, "bench", *precision, *sizes, *bench_options])
        rows.append((name, floor["seconds"], step["step_ms_median"] / 1e3, step["peak_bytes"]))

    print(f"\n{'dtype':6}{'floor s':>9}{'step s':>9}{'step/floor':>12}{'peak MiB':>10}{'of f32':>8}")
    for name, floor_s, step_s, peak in rows:
        print(f"{name:6}{floor_s:9.3f}{step_s:9.3f}{step_s / floor_s:12.2f}"
              f"{peak / 2**20:10.0f}{peak / rows[0][3]:8.2f}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"against_floor.py: {' '.join(error.cmd)} ended with status {error.returncode}")
    except OSError as error:
        sys.exit(f"against_floor.py: {error.filename}: {error.strerror}")
