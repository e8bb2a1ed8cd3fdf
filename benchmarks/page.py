#!/usr/bin/env python3
"""Writes the tables of the benchmark pages from the files in benchmarks/results.

A table stands between <!-- figures: MACHINE NAME --> and <!-- end of figures -->. It is taken from
the newest file of that machine that has a table of this name. Whole training steps are `steps` on
images, `token_steps` on sequences, and `best` for both in mezzo's faster mode only.
"""
import argparse
import pathlib
import re
import sys

import result_files
import step_table
from result_files import Fault

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
BEGIN, END = re.compile(r"<!-- figures: (\S+) (\S+) -->\n"), "<!-- end of figures -->"


def cell(value):
    return "" if value is None else str(value)


def line_of(cells):
    """Empty cells as `| |`."""
    return "|" + "".join(f" {cell(value)} |" if cell(value) else " |" for value in cells)


def grid(table):
    rule = "|" + "---|" * len(table["columns"])
    return "\n".join([line_of(table["columns"]), rule, *(line_of(row) for row in table["rows"])])


def table_of(folder, machine, name):
    """The Markdown of one table."""
    if name in step_table.NAMES:
        markdown = result_files.newest(folder, machine,
                                       lambda result: step_table.text(result, name))[1]
    else:
        found = result_files.newest(folder, machine,
                                    lambda result: result.get("tables", {}).get(name))[1]
        markdown = grid(found) if found else None
    if markdown is None:
        raise Fault(f"no file *_{machine}.json in {folder} has {name!r}")
    return markdown


def renewed(path, folder):
    """The text of a page, with its tables as the results have them."""
    head, *parts = re.split(BEGIN, path.read_text(encoding="utf-8"))
    text = head
    for machine, name, part in zip(parts[::3], parts[1::3], parts[2::3]):
        if part.count(END) != 1:
            raise Fault(f"{path}: the figures {machine} {name} need one {END} after them")
        markdown = table_of(folder, machine, name)
        text += f"<!-- figures: {machine} {name} -->\n\n{markdown}\n\n{END}" + part.split(END)[1]
    return text


def pages():
    return [DOCS / "benchmarks.md", *sorted((DOCS / "benchmarks").glob("*.md"))]


def stale(paths, folder):
    """{path: what it should hold} of the pages that do not hold it."""
    texts = {path: renewed(path, folder) for path in paths}
    return {path: text for path, text in texts.items() if path.read_text(encoding="utf-8") != text}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say which pages differ")
    arguments = parser.parse_args()
    changed = stale(pages(), result_files.FOLDER)
    for path, text in changed.items():
        if arguments.check:
            print(f"{path} differs from benchmarks/results; run ./run bench --page")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Fault as fault:
        sys.exit(f"page.py: {fault}")
