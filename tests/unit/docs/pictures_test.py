#!/usr/bin/env python3
"""Tests the pictures that documents show, and terminal_svg.py, which makes some of them."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True

import terminal_svg  # noqa: E402

SHOWN = re.compile(r'!\[[^\]]+\]\(([^)]+)\)|<img src="([^"]+)"')
SVG = "{http://www.w3.org/2000/svg}"
LIMIT = 150_000  # bytes


class Documents(unittest.TestCase):
    def test_show_pictures_that_exist_and_every_picture_is_shown(self):
        shown = set()
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
            for names in SHOWN.findall(page.read_text(encoding="utf-8")):
                path = (page.parent / "".join(names)).resolve()
                self.assertTrue(path.is_file(), f"{page} shows {path}")
                shown.add(path)
        self.assertEqual(shown, set((ROOT / "docs" / "images").iterdir()))

    def test_pictures_are_small_and_suit_dark_pages(self):
        for path in (ROOT / "docs" / "images").iterdir():
            self.assertLess(path.stat().st_size, LIMIT, path)
            if path.suffix == ".svg":
                ElementTree.parse(path)
                self.assertIn("prefers-color-scheme: dark", path.read_text(encoding="utf-8"))


class TerminalSvg(unittest.TestCase):
    def lines_of(self, command, output):
        tree = ElementTree.fromstring(terminal_svg.svg(command, output))
        return [text.text for text in tree.iter(SVG + "text")]

    def test_keeps_columns_and_leaves_colours_out(self):
        self.assertEqual(self.lines_of(["bin/mezzo", "plan"], "a   <b> & c\n\n\x1b[1m  d\x1b[0m\n"),
                         ["$ mezzo plan", "a   <b> & c", "  d"])

    def test_long_commands_are_broken_between_options(self):
        command = ["mezzo", "compare", "--data", "d" * 70, "--levels", "O0,O2", "--lr", "0.1" * 10]
        self.assertEqual(self.lines_of(command, ""), [
            f"$ mezzo compare --data {'d' * 70} \\", f"    --levels O0,O2 --lr {'0.1' * 10}"])

    def test_a_command_that_fails_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.svg"
            done = subprocess.run([sys.executable, terminal_svg.__file__, str(out), "false"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, out.exists()), (1, False))
            self.assertIn("false ended with status 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
