#!/usr/bin/env python3
"""Checks the size of files: warns early, fails late, and prints the size of the library."""
import pathlib
import sys

WARN = {".cpp": 400, ".cu": 400, ".h": 250, ".cuh": 250}
STOP = 600
FOLDERS = ["mezzo", "tests", "benchmarks", "examples"]


def line_count(path):
    with path.open("rb") as file:
        return sum(1 for _ in file)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    too_large = False
    library_lines = library_files = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in WARN:
                continue
            lines = line_count(path)
            if folder == "mezzo":
                library_lines += lines
                library_files += 1
            if lines > STOP:
                print(f"{path}: {lines} lines, the limit is {STOP}: split it")
                too_large = True
            elif lines > WARN[path.suffix]:
                print(f"{path}: warning: {lines} lines, aim for {WARN[path.suffix]}")
    print(f"mezzo/ has {library_lines} lines in {library_files} files")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
