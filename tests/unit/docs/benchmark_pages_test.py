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
import products  # noqa: E402
import pytorch_peer  # noqa: E402
import recurrent_table  # noqa: E402
import result_files  # noqa: E402
import step_table  # noqa: E402
import works  # noqa: E402

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
echo >>"$file"
case "$*" in *--profile*) echo '{"event": "machine", "flops_f32": 1e12}' >>"$file" ;; esac
"""
# Prints the rows of mezzo_recurrent.
FAKE_RECURRENT = """#!/bin/sh
for dtype in f32 bf16; do
  for row in "lstm:20.0" "gru:10.0" "lstm, step by step:60.0" "gru, step by step:40.0"; do
    printf '%-20s %-5s %10s %10s %10s\\n' "${row%:*}" "$dtype" "${row#*:}" 1.0 1.0
  done
done
"""
# A Python whose PyTorch takes 3 ms for an eager step and 2.5 for a compiled one, or cannot compile.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  *version*) echo 2.99.0 ;;
  *recurrent.py*) printf 'lstm                 f32         30.0\\ngru                  f32         12.0\\n' ;;
  *--compile*)
    if [ -e "$0.cannot_compile" ]; then echo "no compiler" >&2; exit 1; fi
    echo '{"step_ms_median": 2.5, "step_ms_min": 2.4, "peak_bytes": 9e6}' ;;
  *) echo '{"step_ms_median": 3, "step_ms_min": 2.9, "peak_bytes": 7e6}' ;;
esac
"""


def step(dtype, system, median, **more):
    return {"name": "mlp", "image_size": 28, "batch_size": 64, "dtype": dtype, "system": system,
            "ms": {"median": median}, **more}


def token_step(dtype, system, median, **more):
    return {"name": "gpt-tiny", "tokens": 256, "batch_size": 12, "dtype": dtype, "system": system,
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
            for name in (*result.get("tables", {}), *step_table.names(result)):
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


    def test_rows_of_sequences_have_a_table_of_their_own(self):
        rows = [token_step("f32", "eager", 2000, peak_mb=600), token_step("f32", "graph", 1500),
                token_step("f32", "floor", 1200),
                token_step("f32", "pytorch", 1800, ways=["compiled", "eager", "compiled"]),
                token_step("bf16", "eager", 500)]
        result = {"date": "2026-11-28", "machine": RESULT["machine"],
                  "steps": {"rounds": 1, "rows": rows}}
        self.assertEqual(step_table.names(result), ["token_steps"])
        self.assertIsNone(step_table.text(result, "steps"))
        text = step_table.text(result, "token_steps")
        self.assertIn("| tokens/s |", text)
        self.assertIn("| gpt-tiny 12 x 256 tokens | f32 | graph | 1500.00 | 2048 | 1200.0 | 1.25 | "
                      "1800.00 (compiled) | 1.20 |", text)
        self.assertEqual(step_table.best_lines(rows), [
            "| gpt-tiny 12 x 256 tokens | f32 | 1500.00 | graph | 1.25 | 1800.00 (compiled) | 1.20 |  | "
            "- |",
            "| gpt-tiny 12 x 256 tokens | bf16 | 500.00 | eager | - | 1800.00 (f32, compiled) | 3.60 | "
            "3.00 | - |"])
        result_files.put(result, [token_step("f32", "eager", 1900)])
        self.assertEqual(len(result["steps"]["rows"]), len(rows))

    def test_the_peer_in_bf16_is_pytorch_in_its_faster_dtype(self):
        slow = {"bf16": {"pytorch": step("bf16", "pytorch", 60)},
                "f32": {"pytorch": step("f32", "pytorch", 6)}}
        self.assertEqual(step_table.peer("bf16", slow)["dtype"], "f32")
        self.assertEqual(step_table.peer("f32", slow)["dtype"], "f32")
        self.assertIsNone(step_table.peer("f16", slow))


class Works(unittest.TestCase):
    def test_have_names_of_their_own(self):
        names = [work.name for work in works.WORKS]
        self.assertEqual(len(set(names)), len(names))
        self.assertLessEqual({"resnet50:16", "gpt-tiny:12x256", "gpt2:4x64", "vit_b_16:8"}, set(names))

    def test_products_are_those_of_the_layers(self):
        tiny = works.gpt("gpt-tiny", 12, 256, 1)
        weights = 6 * 12 * 384 ** 2 + 384 * 256
        pairs = 256 * 256 // 2
        self.assertEqual(products.of_step(tiny),
                         12 * (6 * 256 * weights + 6 * 7 * 2 * pairs * 384))
        self.assertIsNone(products.of_step(works.Work("mlp", 64, 1, image_size=28)))
        vit = products.of_step(works.Work("vit_b_16", 1, 1, image_size=224))
        self.assertAlmostEqual(vit / 6 / 17.6e9, 1, delta=0.02)  # 17.6 GMAC, as torchvision counts


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
    def setUp(self):
        super().setUp()
        self.results = self.folder / "results"
        for name, text in (("mezzo", FAKE_MEZZO), ("mezzo_recurrent", FAKE_RECURRENT),
                           ("python", FAKE_PYTHON)):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)

    def measure(self, *options):
        """The result of a run, and what it says on standard error."""
        command = [sys.executable, BENCHMARKS / "table.py", self.folder, "--rounds", "2", "--machine",
                   "fake", "--results", self.results, *options]
        done = subprocess.run([str(part) for part in command], check=True, capture_output=True,
                              text=True)
        path, = self.results.iterdir()
        return json.loads(path.read_text(encoding="utf-8")), done.stderr

    def test_writes_a_file_that_a_page_can_be_made_of(self):
        for _ in range(2):
            result, _ = self.measure("--works", "mlp:64", "--dtypes", "f32", "bf16", "--systems",
                                     "eager", "graph")
        self.assertEqual(result["machine"]["features"], ["AVX2"])
        self.assertEqual(result["versions"]["onednn"], "2.6.3")
        rows = [row for row in result["steps"]["rows"] if row["system"] == "graph"]
        self.assertEqual([row["dtype"] for row in rows], ["f32", "bf16"])
        self.assertEqual(rows[1]["ms"], {"median": 2, "min": 1.5, "runs": [2, 2]})
        self.assertEqual((rows[1]["peak_mb"], rows[1]["process_mb"]), (3, 5))
        self.assertIn("| mlp 28x28 b64 | bf16 | graph | 2.00 |",
                      page.table_of(self.results, "fake", "steps"))

    def test_of_sequences_takes_the_fastest_way_of_pytorch(self):
        options = ["--works", "gpt-tiny:12x256", "--dtypes", "f32", "--python", self.folder / "python"]
        result, _ = self.measure(*options)
        rows = {row["system"]: row for row in result["steps"]["rows"]}
        self.assertEqual(set(rows), {"eager", "graph", "floor", "pytorch"})
        self.assertEqual((rows["pytorch"]["tokens"], rows["pytorch"]["ms"]["median"]), (256, 2.5))
        self.assertEqual((rows["pytorch"]["ways"], rows["pytorch"]["process_mb"]),
                         (["compiled", "compiled"], 7))
        self.assertAlmostEqual(rows["floor"]["ms"]["median"], 210.185, delta=0.001)
        self.assertIn("| gpt-tiny 12 x 256 tokens | f32 | eager | 4.00 |",
                      page.table_of(self.results, "fake", "token_steps"))
        self.assertIn("2.50 (compiled)", page.table_of(self.results, "fake", "best"))

    def test_goes_on_where_pytorch_cannot_compile_or_is_missing(self):
        options = ["--works", "gpt-tiny:12x256", "--dtypes", "f32", "--systems", "pytorch"]
        (self.folder / "python.cannot_compile").touch()
        result, said = self.measure(*options, "--python", self.folder / "python")
        self.assertEqual(said.count("without torch.compile, which failed: no compiler"), 1)
        self.assertEqual(result["steps"]["rows"][0]["ways"], ["eager", "eager"])
        self.assertIn("without PyTorch", self.measure(*options)[1])

    def test_of_recurrent_layers_is_a_table(self):
        result, _ = self.measure("--works", recurrent_table.NAME, "--python", self.folder / "python")
        self.assertEqual(result["tables"]["recurrent"]["rows"], [
            ["lstm", "f32", 20.0, 60.0, 30.0, 1.5], ["gru", "f32", 10.0, 40.0, 12.0, 1.2],
            ["lstm", "bf16", 20.0, 60.0, 30.0, 1.5], ["gru", "bf16", 10.0, 40.0, 12.0, 1.2]])
        self.assertIn("| lstm | f32 | 20.0 | 60.0 | 30.0 | 1.5 |",
                      page.table_of(self.results, "fake", "recurrent"))

    def test_uses_bf16_of_pytorch_where_the_cpu_has_it(self):
        python = str(self.folder / "python")
        for features, has in ((["AVX2"], False), (["AVX-512", "AVX512-BF16"], True)):
            self.assertEqual(pytorch_peer.find(python, {"features": features}).has_bf16, has)


if __name__ == "__main__":
    unittest.main()
