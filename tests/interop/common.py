"""Shared code of the checks: runs mezzo's programs, makes images, and prints a line per check."""
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

SKIPPED = 77  # exit status, as in Automake


def run(program, *arguments):
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def mezzo(*arguments):
    """Runs the command `mezzo`."""
    return run(os.environ["MEZZO"], *arguments)


def files(*arguments):
    """Runs interop_files.cpp."""
    return run(os.environ["MEZZO_INTEROP_FILES"], *arguments)


def noise(count):
    """Bytes without a pattern, always the same: a linear congruential generator."""
    state, result = 1, bytearray()
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % (1 << 32)
        result.append(state >> 24)
    return bytes(result)


def square_image(values):
    """The 3 planes of a 32 x 32 image of 4 x 4 squares, from 48 bytes."""
    rows = [bytes(byte for byte in values[i:i + 4] for _ in range(8)) for i in range(0, 48, 4)]
    return b"".join(row * 8 for row in rows)


def write_cifar10(folder, training=64, test=16):
    """Writes a data set for --data cifar10:FOLDER, with `training` images in each of five files.

    The images consist of squares: see tests/golden/networks.py.
    """
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    random = noise(48 * (5 * training + test))
    for number, name in enumerate(names):
        count = test if name.startswith("test") else training
        first = 48 * number * training
        images = [square_image(random[first + 48 * i:first + 48 * (i + 1)]) for i in range(count)]
        (folder / name).write_bytes(b"".join(
            bytes([(7 * i + number) % 10]) + image for i, image in enumerate(images)))
    return f"cifar10:{folder}"


def missing(modules):
    """The modules that this interpreter cannot import."""
    absent = []
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            absent.append(module)
    return absent


def main(needs, checks):
    """Runs checks and exits. A check is a function of a folder; the first line of its docstring is printed."""
    name = pathlib.Path(sys.argv[0]).stem.removeprefix("check_")
    if absent := missing(needs):
        print(f"skipped  {name}: no {' and no '.join(absent)} for {sys.executable}")
        sys.exit(SKIPPED)
    failed = False
    for check in checks:
        line = f"{name}: {check.__doc__.splitlines()[0]}"
        with tempfile.TemporaryDirectory(prefix="mezzo_interop_") as folder:
            try:
                check(pathlib.Path(folder))
                print(f"ok       {line}", flush=True)
            except Exception:
                failed = True
                print(f"FAILED   {line}\n{traceback.format_exc()}", flush=True)
    sys.exit(1 if failed else 0)
