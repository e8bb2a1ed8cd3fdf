"""The table of LSTM and GRU: mezzo's by mezzo_recurrent, PyTorch's by recurrent.py."""
import statistics
import subprocess

NAME = "recurrent"
KINDS = ("lstm", "gru")
BY_HAND = ", step by step"
COLUMNS = ["layers", "dtype", "mezzo, ms", "by hand, ms", "PyTorch, ms", "times as fast"]
METHOD = ("training passes of 2 layers of 512 units, 128 steps, 32 sequences; medians of rounds. By "
          "hand: step by step in elementary operations. PyTorch in bf16: its faster dtype")


def times_of(command):
    """{(layers, dtype): ms} of the rows that either program prints, in columns of 20, 5 and 10."""
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    times = {}
    for row in done.stdout.splitlines():
        name, dtype, rest = row[:20].strip(), row[21:26].strip(), row[27:].split()
        if dtype in ("f32", "bf16"):
            times[name, dtype] = float(rest[0])
    return times


def medians(rounds):
    return {key: round(statistics.median(times[key] for times in rounds), 2) for key in rounds[0]}


def pytorch_time(times, kind, dtype):
    dtypes = ("f32", "bf16") if dtype == "bf16" else (dtype,)
    return min((times[kind, name] for name in dtypes if (kind, name) in times), default=None)


def rows(mezzo, pytorch):
    for dtype in ("f32", "bf16"):
        for kind in KINDS:
            own, peer = mezzo[kind, dtype], pytorch_time(pytorch, kind, dtype)
            yield [kind, dtype, own, mezzo[kind + BY_HAND, dtype], peer,
                   round(peer / own, 2) if peer else None]


def measure(bin_dir, pytorch, rounds):
    """The table, of rounds in turns. `pytorch`: pytorch_peer.PyTorch, or None."""
    mezzo_rounds, pytorch_rounds = [], []
    for _ in range(rounds):
        mezzo_rounds.append(times_of([bin_dir / "mezzo_recurrent"]))
        if pytorch is not None:
            dtypes = ["f32", "bf16"] if pytorch.has_bf16 else ["f32"]
            pytorch_rounds.append(times_of(pytorch.command("recurrent.py", "--dtype", *dtypes)))
    peer = medians(pytorch_rounds) if pytorch_rounds else {}
    return {"unit": "ms", "method": METHOD, "columns": COLUMNS,
            "rows": list(rows(medians(mezzo_rounds), peer))}
