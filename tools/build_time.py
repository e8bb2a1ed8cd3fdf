#!/usr/bin/env python3
"""Says what a build takes: CPU seconds by phase, and the sources that take longest.

    tools/build_time.py [--preset release] [--targets mezzo_cli] [--folder build/time] [CMAKE-OPTION...]

builds in a folder of its own, from nothing, without ccache, and prints a Markdown table. CPU seconds are user and
system time of each compiler, which depend on what else the machine does far less than the time by the clock. The
script is its own compiler launcher: cmake calls it as `build_time.py --record LOG COMPILER ARGUMENTS...`.
"""

import argparse
import fcntl
import os
import pathlib
import resource
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST = 5  # sources that are named


def record(log, command):
    """Runs a compiler or linker and adds a line to the log: seconds, MB, source or result."""
    status = subprocess.call(command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    name = argument_of("-c", command) or argument_of("-o", command) or command[0]
    line = f"{used.ru_utime + used.ru_stime:.2f}\t{used.ru_maxrss // 1024}\t{name}\n"
    with open(log, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line)
    return status


def argument_of(option, command):
    """What follows an option of the compiler; None without it."""
    return command[command.index(option) + 1] if option in command[:-1] else None


def phase_of(name):
    """The phase of a build that a source or a program belongs to."""
    path = pathlib.Path(os.path.relpath(name, ROOT)) if os.path.isabs(name) else pathlib.Path(name)
    if path.suffix not in (".cpp", ".cxx", ".cu"):
        return "linking"
    if path.name.startswith("cmake_pch"):
        return "precompiled headers"
    if "cuda" in path.parts or path.suffix == ".cu":
        return "CUDA kernels"
    folders = set(path.parts)
    for folder, phase in (("tests", "tests"), ("benchmarks", "benchmarks"), ("examples", "examples"),
                          ("mezzo_cli.dir", "the command"), ("cli", "the command")):
        if folder in folders:
            return phase
    if (ROOT / path).is_file() and "<hwy/foreach_target.h>" in (ROOT / path).read_text(encoding="utf-8"):
        return "vector kernels"
    return "the rest of the library"


def build(arguments, log):
    """Configures and builds from nothing, with this script as the launcher of compilers and linkers."""
    folder = ROOT / arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    launcher = f"{sys.executable};{pathlib.Path(__file__).resolve()};--record;{log}"
    subprocess.check_call(
        ["cmake", "--preset", arguments.preset, "-B", str(folder), "--log-level=WARNING",
         *(f"-DCMAKE_CXX_{kind}_LAUNCHER={launcher}" for kind in ("COMPILER", "LINKER")),
         f"-DCMAKE_CUDA_COMPILER_LAUNCHER={launcher}", *arguments.options],
        cwd=ROOT)
    targets = ["--target", *arguments.targets] if arguments.targets else []
    subprocess.check_call(["cmake", "--build", str(folder), "--parallel", str(arguments.jobs), *targets],
                          stdout=subprocess.DEVNULL)


def print_report(log):
    """The table of phases and the longest sources."""
    rows = [line.split("\t") for line in log.read_text(encoding="utf-8").splitlines()]
    rows = [(float(seconds), int(megabytes), name) for seconds, megabytes, name in rows]
    phases = {}
    for seconds, _, name in rows:
        count, total = phases.get(phase_of(name), (0, 0.0))
        phases[phase_of(name)] = (count + 1, total + seconds)
    print("| phase | compilations | CPU s |\n|---|---|---|")
    for phase, (count, seconds) in sorted(phases.items(), key=lambda item: -item[1][1]):
        print(f"| {phase} | {count} | {seconds:.1f} |")
    print(f"| all | {len(rows)} | {sum(row[0] for row in rows):.1f} |\n")
    for seconds, megabytes, name in sorted(rows, reverse=True)[:LONGEST]:
        print(f"{seconds:.1f} s, {megabytes} MB: {name.removeprefix(str(ROOT) + '/')}")


def main():
    if sys.argv[1:2] == ["--record"]:
        return record(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="release")
    parser.add_argument("--targets", nargs="*", default=["mezzo_cli"], help="none: all")
    parser.add_argument("--folder", default="build/time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments, arguments.options = parser.parse_known_args()
    log = ROOT / arguments.folder / "build_time.log"
    build(arguments, log)
    print_report(log)
    return 0


if __name__ == "__main__":
    sys.exit(main())
