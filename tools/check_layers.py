#!/usr/bin/env python3
"""Fails when a file includes a header that its layer may not include."""
import pathlib
import re
import sys

# A layer may include itself and the layers listed for it.
ALLOWED = {
    "core": set(),
    "distributed": {"core"},
    "ops": {"core", "distributed"},
    "kernels": {"core", "ops"},
    "autograd": {"core", "ops"},
    "nn": {"core", "distributed", "ops", "autograd"},
    "models": {"core", "ops", "autograd", "nn"},
    "optim": {"core", "distributed", "ops", "autograd"},
    "amp": {"core", "distributed", "ops", "autograd", "nn", "optim"},
    "numbers": {"core", "ops", "autograd", "nn", "optim", "amp", "io"},
    "io": {"core"},
    "data": {"core", "distributed", "io"},
    "interchange": {"core", "ops", "nn", "io"},
    "text": {"core", "io"},
    "graph": {"core", "ops", "autograd", "nn", "optim", "amp"},
    "tune": {"core", "ops", "nn", "optim", "amp", "numbers", "io", "graph"},
    "report": {"core", "ops", "nn", "amp", "numbers", "io", "tune"},
    "train": {"core", "distributed", "ops", "autograd", "nn", "models", "optim", "amp", "numbers", "io",
              "data", "graph", "report", "tune"},
    "cli": {"core", "distributed", "ops", "autograd", "nn", "models", "optim", "amp", "numbers", "io",
            "data", "graph", "interchange", "report", "text", "train", "tune"},
}
# Rooms: folders within a layer that has an order of its own. Each may include itself and the rooms listed for it;
# the folder that holds them may include all, unless it is listed itself. Ops and their helpers may include each
# other, but the dispatcher includes no op. The mechanism of mixed precision includes no name of another framework.
SHARED = {"kernels/cpu/simd", "kernels/cpu/loops"}
METHOD = SHARED | {"kernels/cpu/norm", "kernels/cpu/onednn", "kernels/cpu/gemm", "kernels/cpu/conv"}
CONVOLUTIONS = ["as_gemm", "direct", "grad_weight", "planar", "winograd"]
ROOMS = {
    "amp": set(),
    "amp/names": {"amp"},
    "ops/dispatcher": set(),
    "ops/fusion": {"ops", "ops/dispatcher"},
    "ops/update": {"ops", "ops/dispatcher", "ops/fusion", "ops/update/rules"},
    "ops/update/rules": set(),
    "kernels/cpu/simd": set(),
    "kernels/cpu/loops": {"kernels/cpu/simd"},
    "kernels/cpu/norm": SHARED,
    "kernels/cpu/optim": SHARED,
    "kernels/cpu/onednn": SHARED,
    "kernels/cpu/recurrent": SHARED,
    "kernels/cpu/pool": SHARED | {"kernels/cpu/norm"},
    "kernels/cpu/attention": SHARED | {"kernels/cpu/gemm"},
    "kernels/cpu/gemm": SHARED | {"kernels/cpu/norm"},
    "kernels/cpu/conv": SHARED | {"kernels/cpu/onednn"},
    "kernels/cpu/conv/as_gemm": METHOD,
    "kernels/cpu/conv/direct": METHOD,
    "kernels/cpu/conv/grad_weight": METHOD,
    "kernels/cpu/conv/planar": METHOD | {"kernels/cpu/conv/grad_weight"},
    "kernels/cpu/conv/winograd": METHOD | {"kernels/cpu/conv/grad_weight"},
    "kernels/cpu/conv/choice": METHOD | {f"kernels/cpu/conv/{method}" for method in CONVOLUTIONS},
}
# Files directly in mezzo/, such as the umbrella header: they may include what users may see.
TOP_LEVEL = set(ALLOWED) - {"kernels", "cli"}

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
QUOTED = re.compile(r'\s*#\s*include\s+"([^"]+)"')
ANGLED = re.compile(r"\s*#\s*include\s+<(mezzo/[^>]+)>")
UMBRELLA = "mezzo/mezzo.h"


def fault_of_include(layer, included):
    """Says what is wrong with including that path from that layer, or returns None."""
    parts = included.split("/")
    if parts[0] != "mezzo":
        return f'"{included}": our own headers are "mezzo/...", all others go in <>'
    if included == UMBRELLA:
        return None if layer == "cli" else f"{layer} must not include the umbrella header"
    if len(parts) == 2:
        return None
    target = parts[1]
    if target not in ALLOWED:
        return f"no layer '{target}' is known"
    allowed = TOP_LEVEL if layer is None else ALLOWED[layer] | {layer}
    return None if target in allowed else f"{layer or 'the top level'} must not include {target}"


def fault_of_room(room, included):
    """Says what is wrong with including that path from that room of a layer, or returns None."""
    target = included.removeprefix("mezzo/").rpartition("/")[0]
    holder = next((floor for floor in ("amp", "kernels/cpu", "ops") if f"{room}/".startswith(f"{floor}/")), None)
    if holder is None or (room == holder and holder not in ROOMS) or not f"{target}/".startswith(f"{holder}/"):
        return None
    if room not in ROOMS:
        return f"no room '{room}' is known; add it to tools/check_layers.py"
    return None if target in ROOMS[room] | {room} else f"{room} must not include {target}"


def faults_of_file(path, layer, room):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := ANGLED.match(line):
            yield f"{path}:{number}: our own headers go in quotes, not <{match[1]}>"
        elif match := QUOTED.match(line):
            if fault := fault_of_include(layer, match[1]) or fault_of_room(room, match[1]):
                yield f"{path}:{number}: {fault}"


def faults(root):
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name not in ALLOWED:
            yield f"{folder}: no layer '{folder.name}' is known; add it to tools/check_layers.py"
            continue
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES:
                room = path.parent.relative_to(root).as_posix()
                yield from faults_of_file(path, folder.name, room)
    for path in sorted(root.glob("*.*")):
        if path.suffix in SUFFIXES:
            yield from faults_of_file(path, None, "")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "mezzo")
    if not root.is_dir():
        print(f"check_layers.py: no folder {root}", file=sys.stderr)
        return 2
    found = list(faults(root))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
