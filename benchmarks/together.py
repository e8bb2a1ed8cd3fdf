#!/usr/bin/env python3
"""Times training steps of two processes, mezzo's and PyTorch's in turns, each with one core.

A lone process is one of two that run side by side and exchange nothing: what both do together is
the most that two can reach. PyTorch is DistributedDataParallel over gloo, the best of its ways.
Prints a table in Markdown, in examples per second of both processes.

  benchmarks/together.py build/bin/mezzo --python build/frameworks/pytorch/bin/python
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROCESSES = 2
WORKS = {
    "ResNet-18, 8 of 224x224": ["--model", "resnet18", "--batch-size", "8"],
    "GPT of gpt-tiny, 12 of 256 tokens": ["--model", "gpt-tiny", "--batch-size", "12", "--tokens",
                                          "256", "--optimizer", "adamw"],
}
LAUNCH = ["mpirun", "--oversubscribe", "--bind-to", "core", "-n", str(PROCESSES)]
MPI_VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mezzo")
    parser.add_argument("--python", help="one that has PyTorch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    return parser.parse_args()


def step_ms(text):
    events = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return events[-1]["step_ms_median"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def side_by_side(command, environments):
    """What each of the processes printed; each has a core."""
    started = []
    for core, environment in enumerate(environments):
        started.append(subprocess.Popen(
            ["taskset", "-c", str(core), *map(str, command)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment}))
    outputs = [process.communicate() for process in started]
    for process, (_, errors) in zip(started, outputs):
        if process.returncode != 0:
            raise RuntimeError(errors.strip().splitlines()[-1] if errors.strip() else "no message")
    return [output for output, _ in outputs]


class Mezzo:
    def __init__(self, arguments):
        self.command = [arguments.mezzo, "bench", "--quiet", "--json", "/dev/stdout", "--warmup", "2",
                        "--steps", arguments.steps]

    def alone(self, work, dtype):
        command = [*self.command, *WORKS[work], *self.level(dtype), "--threads", "1"]
        return statistics.mean(step_ms(text) for text in side_by_side(command, [{}] * PROCESSES))

    def together(self, work, dtype, *options):
        command = [*LAUNCH, *self.command, *WORKS[work], *self.level(dtype), "--threads", "1",
                   *options]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              check=True, env={**os.environ, **MPI_VARIABLES})
        return step_ms(done.stdout)

    @staticmethod
    def level(dtype):
        return ["--amp", "O0"] if dtype == "f32" else ["--amp", "O2", "--dtype", dtype]


class PyTorch:
    def __init__(self, arguments):
        self.command = [arguments.python, HERE / "pytorch_step.py", "--threads", "1", "--warmup",
                        "2", "--steps", arguments.steps]

    @staticmethod
    def ways(work):
        return [[], ["--compile"]] if "GPT" in work else [[], ["--channels-last"], ["--compile"]]

    def together(self, work, dtype, *options):
        times = []
        for way in self.ways(work):
            port = free_port()
            variables = [{"RANK": str(rank), "WORLD_SIZE": str(PROCESSES), "LOCAL_RANK": str(rank),
                          "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                         for rank in range(PROCESSES)]
            command = [*self.command, *WORKS[work], "--dtype", dtype, *way, *options]
            try:
                times.append(step_ms(side_by_side(command, variables)[0]))
            except RuntimeError as error:
                print(f"together.py: PyTorch, {way}: {error}", file=sys.stderr)
        return min(times)


def settings(arguments):
    """The columns of the table, each with what measures it."""
    mezzo = Mezzo(arguments)
    result = {"two lone processes": mezzo.alone,
              "two processes": mezzo.together,
              "bf16 sent": lambda work, dtype: mezzo.together(work, dtype, "--reduce-dtype", "bf16"),
              "shared optimizer": lambda work, dtype: mezzo.together(work, dtype,
                                                                     "--shard-optimizer")}
    if arguments.python:
        peer = PyTorch(arguments)
        result["PyTorch"] = peer.together
        result["PyTorch, bf16 sent"] = lambda work, dtype: peer.together(
            work, dtype, "--reduce-dtype", "bf16")
    return result


def main():
    arguments = parse_arguments()
    columns = settings(arguments)
    print("| step of each process | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for work, options in WORKS.items():
        size = int(options[options.index("--batch-size") + 1])
        for dtype in ("f32", "bf16"):
            times = {name: [] for name in columns}
            for _ in range(arguments.rounds):
                for name, measure in columns.items():
                    times[name].append(measure(work, dtype))
            rates = [1000 * PROCESSES * size / statistics.median(times[name]) for name in columns]
            print(f"| {work}, {dtype} | " + " | ".join(f"{rate:.2f}" for rate in rates) + " |",
                  flush=True)


if __name__ == "__main__":
    main()
