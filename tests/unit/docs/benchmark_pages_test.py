#!/usr/bin/env python3
"""Tests that the benchmark pages hold what benchmarks/results gives, and what writes both."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal

BENCHMARKS = pathlib.Path(__file__).resolve().parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
sys.dont_write_bytecode = True

import machine  # noqa: E402
import page  # noqa: E402
import result_files  # noqa: E402
import step_table  # noqa: E402

RESULT = {
    "machine": {"name": "zen4-2vcpu", "cpu": "AMD EPYC", "threads": 2, "features": ["AVX2"]},
    "date": "2026-11-28",
    "tables": {"pixels": {"unit": "ms", "method": "the best of 3", "columns": ["", "f32"],
                          "rows": [["7x7", Decimal("1.00")], ["9x9", None]]}},
}
# Prints what the command prints, and writes a step of 2 ms, or of 4 in f32, to --json FILE.
FAKE_MEZZO = """#!/bin/sh
if [ "$1" = info ]; then
  echo "cpu       AMD EPYC, 2 threads"
  echo "features  AVX2 yes, AVX-512 no"
  echo "kernels   oneDNN 2.6.3 using AVX2"
  exit
fi
ms=2
case "$*" in *O0*) ms=4 ;; esac
for file; do :; done
echo '{"event": "result", "step_ms_median": '$ms', "step_ms_min": 1.5, "peak_bytes": 3e6,
  "process_bytes": 5e6, "update_ms": 0.5}' | tr -d '\\n' >"$file"
"""


def step(dtype, system, median, **more):
    return {"name": "mlp", "image_size": 28, "batch_size": 64, "dtype": dtype, "system": system,
            "ms": {"median": median}, **more}


class Folder(unittest.TestCase):
    """A folder of results and a page of its own for each test."""

    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.folder = pathlib.Path(self.holder.name)
        self.page = self.folder / "page.md"

    def write_page(self, text):
        self.page.write_text(text, encoding="utf-8")


class Pages(Folder):
    def test_hold_what_the_results_give(self):
        changed = page.stale(page.pages(), result_files.FOLDER)
        self.assertEqual([str(path) for path in changed], [], "run ./run bench --page")

    def test_have_a_place_for_every_result(self):
        texts = "".join(path.read_text(encoding="utf-8") for path in page.pages())
        for path in result_files.FOLDER.iterdir():
            result = result_files.read(path)
            names = [*result.get("tables", {}), *(["steps"] if "steps" in result else [])]
            for name in names:
                mark = f"<!-- figures: {result['machine']['name']} {name} -->"
                self.assertTrue(mark in texts, f"{path}: no page shows {name}; give it the mark {mark}")

    def test_a_changed_figure_is_found_and_mended(self):
        result_files.write(self.folder, RESULT)
        right = ("before\n<!-- figures: zen4-2vcpu pixels -->\n\n| | f32 |\n|---|---|\n"
                 "| 7x7 | 1.00 |\n| 9x9 | |\n\n<!-- end of figures -->\nafter\n")
        self.write_page(right)
        self.assertEqual(page.stale([self.page], self.folder), {})
        self.write_page(right.replace("1.00", "0.99"))
        self.assertEqual(page.stale([self.page], self.folder), {self.page: right})

    def test_the_newest_file_with_the_table_counts(self):
        newer = {**RESULT, "date": "2026-11-29", "tables": {"pixels": {
            **RESULT["tables"]["pixels"], "rows": [["7x7", 5]]}}}
        for result in (newer, RESULT, {**RESULT, "date": "2026-11-30", "tables": {}}):
            result_files.write(self.folder, result)
        self.assertIn("| 7x7 | 5 |", page.table_of(self.folder, "zen4-2vcpu", "pixels"))

    def test_what_cannot_be_used_is_said(self):
        result_files.write(self.folder, RESULT)
        self.write_page("<!-- figures: zen4-2vcpu steps -->\n<!-- end of figures -->\n")
        with self.assertRaisesRegex(page.Fault, "has 'steps'"):
            page.renewed(self.page, self.folder)
        self.write_page("<!-- figures: zen4-2vcpu pixels -->\n| | f32 |\n")
        with self.assertRaisesRegex(page.Fault, "need one <!-- end of figures -->"):
            page.renewed(self.page, self.folder)


class Files(Folder):
    def test_keep_their_digits_and_their_rows_on_lines(self):
        path = result_files.write(self.folder, RESULT)
        text = path.read_text(encoding="utf-8")
        self.assertIn('\n        ["7x7", 1.00],\n', text)
        result_files.write(self.folder, result_files.read(path))
        self.assertEqual(path.read_text(encoding="utf-8"), text)

    def test_that_cannot_be_used_are_named(self):
        wrong_row = {**RESULT, "tables": {"pixels": {"columns": ["", "f32"], "rows": [["7x7"]]}}}
        for name, result, fault in (("x.json", RESULT, "the name is not"),
                                    ("2026-11-27_zen4-2vcpu.json", RESULT, "differ"),
                                    ("2026-11-28_zen4-2vcpu.json", wrong_row, "1 cells in '7x7'")):
            path = self.folder / name
            path.write_text(result_files.layout(result), encoding="utf-8")
            with self.assertRaisesRegex(page.Fault, fault):
                result_files.read(path)
        path.write_text("{", encoding="utf-8")
        with self.assertRaisesRegex(page.Fault, path.name):
            result_files.read(path)


class Steps(unittest.TestCase):
    def test_ratios_are_those_of_the_same_mode(self):
        lines = step_table.lines([
            step("f32", "eager", 4, peak_mb=10, process_mb=20, update_ms=1), step("f32", "graph", 3),
            step("bf16", "eager", 2, peak_mb=5, process_mb=8), step("bf16", "graph", 1),
            step("bf16", "floor", 2.5), step("bf16", "pytorch", 6, process_mb=16)])
        self.assertEqual(lines, [
            "| mlp 28x28 b64 | f32 | eager | 4.00 | 16000 | - | - | - | - |  |  | 10 |  | 20 | - | "
            "25.0 % |",
            "| mlp 28x28 b64 | f32 | graph | 3.00 | 21333 | - | - | - | - |  | 1.33 | - |  | - | - | "
            "- |",
            "| mlp 28x28 b64 | bf16 | eager | 2.00 | 32000 | 2.5 | 0.80 | 6.00 | 3.00 | 2.00 |  | 5 | "
            "0.50 | 8 | 0.50 | - |",
            "| mlp 28x28 b64 | bf16 | graph | 1.00 | 64000 | 2.5 | 0.40 | 6.00 | 6.00 | 3.00 | 2.00 | "
            "- | - | - | - | - |"])

    def test_rows_replace_those_of_the_same_work_and_system(self):
        result = {"steps": {"rounds": 1, "rows": []}}
        result_files.put(result, [step("f32", "eager", 4), step("bf16", "eager", 2)])
        result_files.put(result, [step("f32", "eager", 3)])
        self.assertEqual([row["ms"]["median"] for row in result["steps"]["rows"]], [2, 3])


class Machines(unittest.TestCase):
    def test_names_tell_generations_apart(self):
        xeon = "Intel(R) Xeon(R) Processor @ 2.60GHz"
        for cpu, features, family, name in (
                ("AMD EPYC", ["AVX2", "AVX-512"], 25, "zen4"), ("AMD EPYC", ["AVX2"], 25, "zen3"),
                ("AMD EPYC 9R45 32-Core Processor", [], 26, "zen5"),
                (xeon, ["AVX2", "AVX-512", "AVX512-BF16", "AMX-BF16"], 6, "xeon-amx"),
                (xeon, ["AVX2", "AVX-512"], 6, "xeon-avx512"), ("unknown", [], None, "unknown")):
            self.assertEqual(machine.kind(cpu, features, family), name)


class Run(Folder):
    def test_writes_a_file_that_a_page_can_be_made_of(self):
        mezzo = self.folder / "mezzo"
        mezzo.write_text(FAKE_MEZZO, encoding="utf-8")
        mezzo.chmod(0o755)
        results = self.folder / "results"
        command = [sys.executable, BENCHMARKS / "table.py", self.folder, "--works", "mlp:64", "--dtypes",
                   "f32", "bf16", "--systems", "eager", "graph", "--rounds", "2", "--machine",
                   "fake", "--results", results]
        for _ in range(2):
            subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        path, = results.iterdir()
        result = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(result["machine"]["features"], ["AVX2"])
        self.assertEqual(result["versions"]["onednn"], "2.6.3")
        rows = [row for row in result["steps"]["rows"] if row["system"] == "graph"]
        self.assertEqual([row["dtype"] for row in rows], ["f32", "bf16"])
        self.assertEqual(rows[1]["ms"], {"median": 2, "min": 1.5, "runs": [2, 2]})
        self.assertEqual((rows[1]["peak_mb"], rows[1]["process_mb"]), (3, 5))
        self.assertIn("| mlp 28x28 b64 | bf16 | graph | 2.00 |", page.table_of(results, "fake", "steps"))


if __name__ == "__main__":
    unittest.main()
