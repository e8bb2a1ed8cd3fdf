#!/usr/bin/env python3
"""Writes a header with its plain comments as Doxygen's: `///` before a declaration, `///<` after a member.

Text within backquotes and indented lines, which are examples and lists, stay as they are; all that Doxygen would take
for markup elsewhere is escaped.

usage: doxygen_filter.py HEADER
"""
import html
import re
import sys

BEFORE = re.compile(r"^(\s*)//(?!/)\s?(.*)$")
AFTER = re.compile(r"^(\s*\S.*[;,{}]\s*)//(?!/)\s?(.*)$")
SPAN = re.compile(r"`([^`]+)`", re.DOTALL)


def escaped(text):
    return re.sub(r"([\\@#%])", r"\\\1", html.escape(text, quote=False))


def as_text(comment):
    """A comment, of several lines maybe, with code spans as HTML and the rest escaped."""
    result, end = "", 0
    for span in SPAN.finditer(comment):
        # A full stop would end the brief description, in the middle of the span.
        code = escaped(span[1]).replace(".", "&#46;").replace("?", "&#63;")
        result += escaped(comment[end:span.start()]) + f"<code>{code}</code>"
        end = span.end()
    return result + escaped(comment[end:])


def block_of(indent, lines):
    """A comment before a declaration: paragraphs of text, and indented lines between them."""
    text = []
    code = []
    for line in [*lines, None]:
        if line is not None and line.startswith("  "):
            if text:
                yield from (f"{indent}/// {part}" for part in as_text("\n".join(text)).split("\n"))
                text = []
            code.append(line)
            continue
        if code and line != "":
            yield f"{indent}/// @verbatim"
            yield from (f"{indent}/// {part}" for part in code)
            yield f"{indent}/// @endverbatim"
            code = []
        if line is None:
            break
        (code if code else text).append(line)
    yield from (f"{indent}/// {part}" for part in as_text("\n".join(text)).split("\n") if text)


def lines_of(text):
    block, indent, is_first = [], "", True
    for line in text.split("\n"):
        match = BEFORE.match(line)
        if match and (not block or match[1] == indent):
            indent = match[1]
            block.append(match[2])
            continue
        if block:
            if is_first:
                yield f"{indent}/// @file"
            yield from block_of(indent, block)
            if is_first:
                yield ""
            block, is_first = [], False
        if match:
            indent, block = match[1], [match[2]]
            continue
        after = AFTER.match(line)
        yield f"{after[1]}///< {as_text(after[2])}" if after and '"' not in after[1] else line


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(lines_of(file.read())))


if __name__ == "__main__":
    main()
