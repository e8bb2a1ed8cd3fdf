#!/usr/bin/env python3
"""Runs every check_*.py in its folder, with a line per check, and reports what was skipped.

usage: run.py [--optional] [--without CHECK]... [--python FILE] COMMAND INTEROP_FILES

COMMAND is the program `mezzo`, INTEROP_FILES that of interop_files.cpp. A check runs with the first of
these interpreters that has the modules it needs: this one, FILE, the python3 on the path, the system's.
Exit status: 0 all passed, 1 something failed, or was skipped without --optional. `--without torch` leaves out the
check torch, and those that are named torch_something.
"""
import argparse
import os
import pathlib
import subprocess
import sys

from common import SKIPPED

HERE = pathlib.Path(__file__).parent


def interpreters(more):
    return list(dict.fromkeys([sys.executable, *more, "python3", "/usr/bin/python3"]))


def is_one_of(check, names):
    return any(check == name or check.startswith(name + "_") for name in names)


def run_script(script, pythons, environment):
    """The exit status of a check, from the first interpreter that does not skip it."""
    output = ""
    for python in pythons:
        try:
            process = subprocess.Popen([python, script], stdout=subprocess.PIPE, text=True,
                                       env=environment)
        except OSError:
            continue
        output = ""
        for line in process.stdout:
            output += line
            if not line.startswith("skipped"):
                print(line, end="", flush=True)
        if process.wait() != SKIPPED:
            return process.returncode
    print(output, end="", flush=True)
    return SKIPPED


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--optional", action="store_true", help="do not count skipped checks as failures")
    scripts = {script.stem.removeprefix("check_"): script for script in sorted(HERE.glob("check_*.py"))}
    parser.add_argument("--without", action="append", choices=list(scripts), default=[], metavar="CHECK",
                        help=f"leave checks out: {', '.join(scripts)}")
    parser.add_argument("--python", action="append", default=[], metavar="FILE", help="another interpreter to try")
    parser.add_argument("command")
    parser.add_argument("interop_files")
    options = parser.parse_args()
    environment = dict(os.environ, MEZZO=options.command, MEZZO_INTEROP_FILES=options.interop_files)
    environment.pop("PYTHONPATH", None)
    results = {name: run_script(script, interpreters(options.python), environment)
               for name, script in scripts.items() if not is_one_of(name, options.without)}
    skipped = [name for name, result in results.items() if result == SKIPPED]
    failed = [name for name, result in results.items() if result not in (0, SKIPPED)]
    if failed:
        print(f"interop: failed: {', '.join(failed)}")
    if skipped:
        print(f"interop: skipped: {', '.join(skipped)}")
    if not failed and not skipped:
        print("interop: everything passed")
    return 1 if failed or (skipped and not options.optional) else 0


if __name__ == "__main__":
    sys.exit(main())
