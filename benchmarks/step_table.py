"""The table of whole training steps on the benchmark pages, from the rows of a result file."""

MODES = ("eager", "graph")  # mezzo's modes, one row each
HEADER = """\
| work | dtype | mode | ms | images/s | floor, ms | of the floor | PyTorch, ms | times as fast | times \
as fast as f32 | times as fast as eager | peak MB | of f32's | process MB | of PyTorch's | update |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def caption(result):
    machine, pytorch = result["machine"], result.get("versions", {}).get("pytorch")
    return (f"{result['date']}, {machine['cpu']}, {machine['threads']} threads, medians of "
            f"{result['steps']['rounds']} rounds" + (f", PyTorch {pytorch}" if pytorch else "") + ".")


def by_work(rows):
    """{(network, image size, batch size): {dtype: {system: row}}}, in the order of the rows."""
    works = {}
    for row in rows:
        work = works.setdefault((row["name"], row["image_size"], row["batch_size"]), {})
        work.setdefault(row["dtype"], {})[row["system"]] = row
    return works


def time_of(row):
    return float(row["ms"]["median"]) if row else None


def figure(row, name):
    return float(row[name]) if row and name in row else None


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def ratio(a, b):
    return f"{a / b:.2f}" if a and b else "-"


def times(dtype, mode, systems, f32):
    """The cells from `ms` to `times as fast as eager`."""
    own, floor = time_of(systems[mode]), time_of(systems.get("floor"))
    pytorch = time_of(systems.get("pytorch"))
    return [number(floor, 1), ratio(own, floor), number(pytorch, 2), ratio(pytorch, own),
            "" if dtype == "f32" else ratio(time_of(f32), own),
            "" if mode == "eager" else ratio(time_of(systems.get("eager")), own)]


def memory(dtype, mode, systems, f32):
    """The cells from `peak MB` to `of PyTorch's`."""
    peak, process = figure(systems[mode], "peak_mb"), figure(systems[mode], "process_mb")
    return [number(peak, 0), "" if dtype == "f32" else ratio(peak, figure(f32, "peak_mb")),
            number(process, 0), ratio(process, figure(systems.get("pytorch"), "process_mb"))]


def line_of(work, dtype, mode, dtypes):
    """`dtypes`: {dtype: {system: row}} of the same work; f32 is compared in the same mode."""
    network, size, batch = work
    systems, f32 = dtypes[dtype], dtypes.get("f32", {}).get(mode)
    own, update = time_of(systems[mode]), figure(systems[mode], "update_ms")
    cells = [f"{network} {size}x{size} b{batch}", dtype, mode, f"{own:.2f}",
             f"{1000 * batch / own:.0f}", *times(dtype, mode, systems, f32),
             *memory(dtype, mode, systems, f32),
             "-" if update is None else f"{100 * update / own:.1f} %"]
    return "| " + " | ".join(cells) + " |"


def lines(rows):
    return [line_of(work, dtype, mode, dtypes)
            for work, dtypes in by_work(rows).items()
            for dtype, systems in dtypes.items()
            for mode in MODES if mode in systems]


def text(result):
    return "\n".join([caption(result), "", HEADER, *lines(result["steps"]["rows"])])
