#!/usr/bin/env python3
"""Runs a command and writes its output as an SVG, as a terminal would show it.

usage: terminal_svg.py OUT.svg COMMAND [ARGUMENT...]

The text stays text. Its colours suit a light and a dark page. The command is shown by its base name.
"""
import pathlib
import re
import shlex
import subprocess
import sys
from xml.sax.saxutils import escape, quoteattr

COLUMNS = 100  # where the shown command is broken
SIZE, ADVANCE, LEADING, MARGIN = 13, 7.9, 18, 14  # pixels; a glyph of monospaced fonts is 0.6 wide
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
STYLE = f"""\
  <style>
    rect {{ fill: #f6f8fa; stroke: #d0d7de }}
    text {{ font: {SIZE}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #24292f;
           white-space: pre }}
    .command {{ fill: #0550ae }}
    @media (prefers-color-scheme: dark) {{
      rect {{ fill: #161b22; stroke: #30363d }}
      text {{ fill: #e6edf3 }}
      .command {{ fill: #79c0ff }}
    }}
  </style>"""


def parts_of(command):
    """The name of the program and each option with its values, in one string each."""
    parts = [pathlib.Path(command[0]).name]
    for word in map(shlex.quote, command[1:]):
        if word.startswith("-"):
            parts.append(word)
        else:
            parts[-1] += " " + word
    return parts


def shown_command(command):
    """The lines of `$ command`, broken between options."""
    lines, line = [], "$"
    for part in parts_of(command):
        if len(line) + len(part) + 3 > COLUMNS:
            lines.append(line + " \\")
            line = "   "
        line += " " + part
    return [*lines, line]


def text_of(row, line, kind=""):
    y = MARGIN + SIZE + row * LEADING
    return f'  <text x="{MARGIN}" y="{y}"{kind} xml:space="preserve">{escape(line)}</text>'


def svg(command, output):
    typed = shown_command(command)
    printed = [COLOURS.sub("", line).rstrip() for line in output.rstrip("\n").split("\n")]
    lines = typed + printed
    width = round(2 * MARGIN + ADVANCE * max(map(len, lines)))
    height = 2 * MARGIN + LEADING * len(lines)
    texts = [text_of(row, line, ' class="command"' if row < len(typed) else "")
             for row, line in enumerate(lines) if line]
    label = quoteattr("Output of " + " ".join(parts_of(command)))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label={label}>', STYLE,
        f'  <rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>', *texts,
        "</svg>", ""])


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: terminal_svg.py OUT.svg COMMAND [ARGUMENT...]")
    out, *command = sys.argv[1:]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"terminal_svg.py: {command[0]} ended with status {done.returncode}")
    pathlib.Path(out).write_text(svg(command, done.stdout), encoding="utf-8")


if __name__ == "__main__":
    main()
