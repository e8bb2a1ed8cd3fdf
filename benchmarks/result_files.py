"""The figures of the benchmark pages: one JSON file per machine and date, in benchmarks/results.

A file has these parts. What was not recorded is left out.

  machine   name, as in the file's name; cpu; threads, as many as were used; features
  date      the day of the measurements
  versions  mezzo (a commit), pytorch, onednn, compiler
  note      what a reader of the figures has to know
  steps     whole training steps, measured by table.py: rounds, and rows with name, image_size or
            tokens (the length of sequences), dtype, batch_size, system (eager, graph, floor or
            pytorch) and ms. `ms` has the time of each round (runs), their median, and the shortest
            step of all (min). A row may also have update_ms, peak_mb (the bytes of all tensors),
            process_mb, and for PyTorch ways: the fastest way of each round, such as `compiled`.
  tables    by name, tables of single kernels: unit, method, columns, rows, and threads where they are
            other than the machine's. A row has the cells of the page: numbers, text, or null for
            a cell without a figure.
"""
import datetime
import json
import pathlib
import re
from decimal import Decimal

FOLDER = pathlib.Path(__file__).resolve().parent / "results"
NAME = re.compile(r"(\d{4}-\d\d-\d\d)_([\w.-]+)\.json")
LINE = 240  # columns
# What tells rows of steps apart; a row has image_size or tokens.
SYSTEM = ("name", "image_size", "tokens", "batch_size", "dtype", "system")


class Fault(Exception):
    """A file or a page that cannot be used, with what to do."""


def read(path):
    """Numbers with a fraction are read as Decimal, which keeps their digits: 1.00 stays 1.00."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, ValueError) as error:
        raise Fault(f"{path}: {error}") from error
    check(path, result)
    return result


def check(path, result):
    match = NAME.fullmatch(path.name)
    if match is None:
        raise Fault(f"{path}: the name is not YYYY-MM-DD_MACHINE.json")
    if [result.get("date"), result.get("machine", {}).get("name")] != list(match.groups()):
        raise Fault(f"{path}: date and machine.name differ from the file's name")
    for name, table in result.get("tables", {}).items():
        for row in table["rows"]:
            if len(row) != len(table["columns"]):
                raise Fault(f"{path}: {name}: {len(row)} cells in {row[0]!r}, but "
                            f"{len(table['columns'])} columns")


def newest(folder, machine, wanted):
    """The newest result of a machine for which wanted(result) is not None, and that value."""
    for path in sorted(folder.glob(f"*_{machine}.json"), reverse=True):
        result = read(path)
        value = wanted(result)
        if value is not None:
            return result, value
    return None, None


def one_line(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {one_line(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(one_line(item) for item in value) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def has_rows(value):
    """Whether there is a list of lists or of objects in it."""
    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(item, (dict, list)) and (isinstance(value, list) or has_rows(item))
               for item in items)


def layout(value, indent=""):
    """JSON with each row on a line, so that a changed figure is a changed line."""
    line = one_line(value)
    if not isinstance(value, (dict, list)) or (len(indent + line) <= LINE and not has_rows(value)):
        return line
    more = indent + "  "
    if isinstance(value, dict):
        begin, end = "{}"
        items = [f"{json.dumps(key)}: {layout(item, more)}" for key, item in value.items()]
    else:
        begin, end = "[]"
        items = [layout(item, more) for item in value]
    return f"{begin}\n{more}" + f",\n{more}".join(items) + f"\n{indent}{end}"


def write(folder, result):
    path = folder / f"{result['date']}_{result['machine']['name']}.json"
    check(path, result)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(layout(result) + "\n", encoding="utf-8")
    return path


def begin(folder, machine, versions, rounds):
    """Today's result of a machine: what is in its file already, as what is measured again replaces
    only its own rows."""
    date = str(datetime.date.today())
    path = folder / f"{date}_{machine['name']}.json"
    result = read(path) if path.exists() else {}
    steps = result.get("steps", {"rounds": rounds, "rows": []})
    return {**result, "machine": machine, "date": date, "versions": versions,
            "steps": {"rounds": min(rounds, steps["rounds"]), "rows": steps["rows"]}}


def put(result, rows):
    """Adds rows of steps, in place of those of the same work and system."""
    def key(row):
        return tuple(row.get(part) for part in SYSTEM)

    steps, keys = result["steps"], {key(row) for row in rows}
    steps["rows"] = [row for row in steps["rows"] if key(row) not in keys] + rows
