"""PyTorch as table.py measures it: each step in every way that PyTorch has, of which the fastest
counts."""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import machine

HERE = pathlib.Path(__file__).resolve().parent
BF16_FEATURES = {"AVX512-BF16", "AMX-BF16", "BF16"}  # the last is Arm's
WAYS = {"eager": [], "compiled": ["--compile"]}
WAYS_OF_CONVOLUTIONS = {
    **WAYS,
    "channels last": ["--channels-last"],
    "compiled, channels last": ["--compile", "--channels-last"],
}


def ways_of(work):
    return WAYS_OF_CONVOLUTIONS if "resnet" in work.network else WAYS


@dataclasses.dataclass
class PyTorch:
    python: str
    version: str
    has_bf16: bool  # whether the CPU has arithmetic for it
    compiles: bool = True

    def command(self, script, *options):
        command = [self.python, HERE / script, "--threads", os.cpu_count(), *options]
        return [str(part) for part in command]

    def run_way(self, work, dtype, options):
        """The result of one process, or None if PyTorch cannot compile here."""
        is_compiled = "--compile" in options
        if is_compiled and not self.compiles:
            return None
        command = self.command("pytorch_step.py", *work.options, "--dtype", dtype, *options)
        done = subprocess.run(command, capture_output=True, text=True, check=not is_compiled)
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        self.compiles = False
        reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        print(f"table.py: PyTorch is measured without torch.compile, which failed: {reason}",
              file=sys.stderr)
        return None

    def run(self, work, dtype):
        """The fastest way, and the least memory of all ways. None for f16, which is measured for
        mezzo only, and for bf16 on CPUs that have no arithmetic for it: PyTorch would take many times
        as long as in f32."""
        if dtype == "f16" or (dtype == "bf16" and not self.has_bf16):
            return None
        results = {way: self.run_way(work, dtype, options)
                   for way, options in ways_of(work).items()}
        results = {way: result for way, result in results.items() if result is not None}
        way = min(results, key=lambda way: results[way]["step_ms_median"])
        return {"way": way, "step_ms_median": results[way]["step_ms_median"],
                "step_ms_min": results[way]["step_ms_min"],
                "process_bytes": min(result["peak_bytes"] for result in results.values())}


def find(python, described):
    """PyTorch as that Python has it, or None, saying so. `described`: machine.described()."""
    version = python and machine.output_of(python, "-c", "import torch; print(torch.__version__)")
    if not version:
        print("table.py: without PyTorch: " + (f"{python} has none" if python else
              "--python names no Python that has it"), file=sys.stderr)
        return None
    return PyTorch(python, version, not BF16_FEATURES.isdisjoint(described["features"]))
