"""The tables of whole training steps on the benchmark pages, from the rows of a result file."""
import statistics

MODES = ("eager", "graph")  # mezzo's modes, one row each
HEADER = """\
| work | dtype | mode | ms | {examples}/s | floor, ms | of the floor | PyTorch, ms | times as fast | \
times as fast as f32 | times as fast as eager | peak MB | of f32's | process MB | of PyTorch's | update |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""
BEST_HEADER = """\
| work | dtype | mezzo, ms | mode | of the floor | PyTorch, ms | times as fast | times as fast as f32 | \
peak MB |
|---|---|---|---|---|---|---|---|---|"""


def caption(result):
    machine, pytorch = result["machine"], result.get("versions", {}).get("pytorch")
    return (f"{result['date']}, {machine['cpu']}, {machine['threads']} threads, medians of "
            f"{result['steps']['rounds']} rounds" + (f", PyTorch {pytorch}" if pytorch else "") + ".")


def work_of(row):
    """What a row is about, in words, and the number of images or tokens of a step."""
    batch = row["batch_size"]
    if "tokens" in row:
        return f"{row['name']} {batch} x {row['tokens']} tokens", batch * row["tokens"]
    return f"{row['name']} {row['image_size']}x{row['image_size']} b{batch}", batch


def by_work(rows):
    """{(name, examples): {dtype: {system: row}}}, in the order of the rows."""
    works = {}
    for row in rows:
        works.setdefault(work_of(row), {}).setdefault(row["dtype"], {})[row["system"]] = row
    return works


def time_of(row):
    return float(row["ms"]["median"]) if row else None


def figure(row, name):
    return float(row[name]) if row and name in row else None


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def ratio(a, b):
    return f"{a / b:.2f}" if a and b else "-"


def peer(dtype, dtypes):
    """PyTorch's row. For bf16 it is that of the dtype in which PyTorch is faster, as it may take many
    times as long in bf16 on CPUs that have no arithmetic for it."""
    names = ("bf16", "f32") if dtype == "bf16" else (dtype,)
    rows = [dtypes[name]["pytorch"] for name in names if "pytorch" in dtypes.get(name, {})]
    return min(rows, key=time_of, default=None)


def pytorch_ms(dtype, row):
    """Its time, with the way that was most often the fastest and with its dtype where it is another."""
    remarks = [row["dtype"]] if row and row["dtype"] != dtype else []
    if row and "ways" in row:
        remarks.append(statistics.mode(row["ways"]))
    return number(time_of(row), 2) + (f" ({', '.join(remarks)})" if remarks else "")


def times(dtype, mode, dtypes):
    """The cells from `floor, ms` to `times as fast as eager`."""
    systems, pytorch = dtypes[dtype], peer(dtype, dtypes)
    own, floor = time_of(systems[mode]), time_of(systems.get("floor"))
    f32 = dtypes.get("f32", {}).get(mode)
    return [number(floor, 1), ratio(own, floor), pytorch_ms(dtype, pytorch),
            ratio(time_of(pytorch), own), "" if dtype == "f32" else ratio(time_of(f32), own),
            "" if mode == "eager" else ratio(time_of(systems.get("eager")), own)]


def memory(dtype, mode, dtypes):
    """The cells from `peak MB` to `of PyTorch's`."""
    row, f32 = dtypes[dtype][mode], dtypes.get("f32", {}).get(mode)
    peak, process = figure(row, "peak_mb"), figure(row, "process_mb")
    return [number(peak, 0), "" if dtype == "f32" else ratio(peak, figure(f32, "peak_mb")),
            number(process, 0), ratio(process, figure(peer(dtype, dtypes), "process_mb"))]


def line(cells):
    return "| " + " | ".join(cells) + " |"


def line_of(work, dtype, mode, dtypes):
    """`dtypes`: {dtype: {system: row}} of the same work; f32 is compared in the same mode."""
    name, examples = work
    row = dtypes[dtype][mode]
    own, update = time_of(row), figure(row, "update_ms")
    return line([name, dtype, mode, f"{own:.2f}", f"{1000 * examples / own:.0f}",
                 *times(dtype, mode, dtypes), *memory(dtype, mode, dtypes),
                 "-" if update is None else f"{100 * update / own:.1f} %"])


def lines(rows):
    return [line_of(work, dtype, mode, dtypes)
            for work, dtypes in by_work(rows).items()
            for dtype, systems in dtypes.items()
            for mode in MODES if mode in systems]


def best_of(systems):
    """mezzo's row in its faster mode, or None."""
    return min((systems[mode] for mode in MODES if mode in systems), key=time_of, default=None)


def best_line(name, dtype, dtypes):
    row, pytorch = best_of(dtypes[dtype]), peer(dtype, dtypes)
    own, f32 = time_of(row), best_of(dtypes.get("f32", {}))
    return line([name, dtype, f"{own:.2f}", row["system"],
                 ratio(own, time_of(dtypes[dtype].get("floor"))), pytorch_ms(dtype, pytorch),
                 ratio(time_of(pytorch), own), "" if dtype == "f32" else ratio(time_of(f32), own),
                 number(figure(row, "peak_mb"), 0)])


def best_lines(rows):
    """A line for each work and dtype: mezzo in its faster mode beside PyTorch in its fastest way."""
    return [best_line(name, dtype, dtypes) for (name, _), dtypes in by_work(rows).items()
            for dtype, systems in dtypes.items() if best_of(systems)]


def header(examples):
    return HEADER.format(examples=examples)


def parts(result, name):
    """The heading and the lines of the table `name`, for those rows of a file that belong there."""
    rows = result.get("steps", {}).get("rows", [])
    if name == "best":
        return BEST_HEADER, best_lines(rows)
    of_tokens = name == "token_steps"
    return (header("tokens" if of_tokens else "images"),
            lines([row for row in rows if ("tokens" in row) == of_tokens]))


NAMES = ("steps", "token_steps", "best")  # of images, of tokens, and of both in short


def text(result, name):
    """The Markdown of a table, or None if the file has no row for it."""
    heading, body = parts(result, name)
    return "\n".join([caption(result), "", heading, *body]) if body else None


def names(result):
    """The tables that pages show of a file, such that each of its figures is in one."""
    return [name for name in ("steps", "token_steps") if text(result, name)]
