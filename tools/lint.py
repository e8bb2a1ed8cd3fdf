#!/usr/bin/env python3
"""Checks every tracked file: text, scripts, format, layers, sizes; then clang-tidy (tools/tidy.py).

usage: lint.py [--all] [--no-tidy]
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

import tidy

CXX_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
# Written in two parts, so that this file passes its own check.
OPEN_ENDS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|mnt|Users)/")
BUILD_PRODUCT = re.compile(
    r"(?:^|/)(?:CMakeCache\.txt|CMakeFiles|_deps|build\.ninja|Testing)(?:/|$)|\.(?:o|a|so|pyc|gcda)$")


def git_files(*options):
    listed = subprocess.run(["git", "ls-files", "-z", *options], check=True, capture_output=True)
    paths = [pathlib.Path(name) for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_faults(files):
    for path in files:
        data = path.read_bytes()
        if b"\0" in data or not data:
            continue
        if not data.endswith(b"\n"):
            yield f"{path}: the last line has no end"
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            if line != line.rstrip():
                yield f"{path}:{number}: white space at the end of the line"
            if OPEN_ENDS.search(line):
                yield f"{path}:{number}: an open end; finish it or write an issue"
            if MACHINE_PATH.search(line):
                yield f"{path}:{number}: a path of one machine; write it relative to the project"


def product_faults(files):
    for path in sorted({*git_files("--cached", "--ignored", "--exclude-standard")}):
        yield f"{path}: tracked, although .gitignore names it"
    for path in files:
        if BUILD_PRODUCT.search(path.as_posix()):
            yield f"{path}: a product of the build is tracked"


def begins_with(path, interpreter):
    with path.open("rb") as file:
        return path.suffix == "" and re.match(rb"#!.*\b" + interpreter, file.readline()) is not None


def is_python(path):
    return path.suffix == ".py" or begins_with(path, rb"python3?\b")


def python_faults(files):
    for path in files:
        if is_python(path):
            try:
                compile(path.read_text(encoding="utf-8"), str(path), "exec")
            except SyntaxError as error:
                yield f"{path}:{error.lineno}: {error.msg}"


def is_shell(path):
    return path.suffix == ".sh" or begins_with(path, rb"(?:ba)?sh\b")


def shell_faults(files):
    scripts = [str(path) for path in files if is_shell(path)]
    if shutil.which("shellcheck") is None:
        print("lint: no shellcheck here, shell scripts are not checked")
    elif scripts:
        yield from command_faults("shellcheck", *scripts)


def format_faults(files):
    sources = [str(path) for path in files if path.suffix in CXX_SUFFIXES]
    if sources:
        yield from command_faults("clang-format", "--dry-run", "-Werror", *sources)


def command_faults(*command):
    """The output of a command that fails, as one fault; prints the output of one that passes."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        yield output or f"{command[0]} ended with status {done.returncode}"
    elif output:
        print(output)


def main():
    parser = argparse.ArgumentParser(description="Checks every tracked file.")
    parser.add_argument("--all", action="store_true", help="tidy every file, not only changed ones")
    parser.add_argument("--no-tidy", action="store_true", help="leave clang-tidy out")
    arguments = parser.parse_args()

    files = git_files()
    python = sys.executable
    checks = [
        ("text", lambda: text_faults(files)),
        ("products", lambda: product_faults(files)),
        ("python", lambda: python_faults(files)),
        ("shell", lambda: shell_faults(files)),
        ("format", lambda: format_faults(files)),
        ("layers", lambda: command_faults(python, "tools/check_layers.py")),
        ("sizes", lambda: command_faults(python, "tools/check_size.py")),
    ]
    if not arguments.no_tidy:
        checks.append(("tidy", lambda: tidy.faults(everything=arguments.all)))

    failed = []
    for name, check in checks:
        found = list(check())
        for fault in found:
            print(fault)
        print(f"lint: {name}: {'failed' if found else 'ok'}", flush=True)
        if found:
            failed.append(name)
    if failed:
        print(f"lint: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
