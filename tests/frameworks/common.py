"""Shared code of the programs that ask the frameworks: the operations, their inputs, and the data file.

Every program determines what one framework's mixed precision and loss scalers do, and writes the
answers to data/NAME.json. frameworks_test.cpp asks mezzo the same and compares.
"""
import datetime
import json
import pathlib
import platform
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent

IMAGE, ROWS, VECTOR = (2, 4, 6, 6), (6, 8), (8,)
CHANNELS = (4,)

# The arrays of each operation, beginning with the one for activations. `labels` are integers below
# 8; all others are between 0.1 and 0.9, where every operation is defined.
OPERATIONS = {
    "conv2d": [IMAGE, (4, 4, 3, 3), CHANNELS],
    "conv_transpose2d": [IMAGE, (4, 4, 3, 3), CHANNELS],
    "linear": [ROWS, (8, 8), VECTOR],
    "matmul": [ROWS, (8, 8)],
    "batch_norm": [IMAGE, CHANNELS, CHANNELS],
    "layer_norm": [ROWS, VECTOR, VECTOR],
    "group_norm": [IMAGE, CHANNELS, CHANNELS],
    "embedding": [ROWS, "labels"],
    **{name: [ROWS] for name in (
        "relu", "leaky_relu", "gelu", "silu", "sigmoid", "tanh", "clamp", "abs", "exp", "log", "pow",
        "sqrt", "softmax", "log_softmax", "sum", "mean", "max", "add_number", "div_number")},
    **{name: [ROWS, ROWS] for name in ("add", "sub", "mul", "div", "maximum", "minimum", "where",
                                       "cat")},
    **{name: [IMAGE] for name in ("max_pool2d", "avg_pool2d", "upsample_nearest2d",
                                  "upsample_bilinear2d")},
    "cross_entropy": [ROWS, "labels"],
    **{name: [ROWS, ROWS] for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
                                       "binary_cross_entropy",
                                       "binary_cross_entropy_with_logits")},
}

# The steps of a training: F has finite gradients, I an infinite one, N a NaN. Each row is (name,
# options of the scaler, steps, number of repetitions). With several repetitions only the last scale
# is kept.
TRAJECTORIES = [
    ("plain", (8, 2, 0.5, 3), "FFFIFFFFFFFIIFFF", 1),
    ("nan", (8, 2, 0.5, 2), "FNFNFFNN", 1),
    ("growth factor 3", (1000, 3, 1 / 3, 2), "IIFFFFIFFFFIIIFF", 1),
    ("growth interval 0", (16, 2, 0.5, 0), "FFIFF", 1),
    ("growth factor 1", (16, 1, 1, 2), "FFIFF", 1),
    ("start at 0.5", (0.5, 2, 0.5, 2), "IFFFFI", 1),
    ("below 1", (2, 2, 0.5, 100), "IIIII", 1),
    ("200 overflows from 1024", (1024, 2, 0.5, 100), "I", 200),
    ("60 growths from 2^100", (2.0**100, 2, 0.5, 1), "F", 60),
]
PLAIN = {"plain", "nan"}  # the trajectories for a scale that never changes


def round_to(array, lower):
    """The array rounded to bf16 or f16, as f32."""
    if lower == "f16":
        return array.astype(numpy.float16).astype(numpy.float32)
    bits = array.view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(numpy.uint32).view(
        numpy.float32)


def arrays_of(operation):
    random = numpy.random.RandomState(1)
    arrays = []
    for shape in OPERATIONS[operation]:
        if shape == "labels":
            arrays.append(random.randint(0, 6, (6,)).astype(numpy.int32))
        else:
            arrays.append(random.uniform(0.1, 0.9, shape).astype(numpy.float32))
    return arrays


class Caster:
    """The interface to one framework: `call(name, tensors)` in the region in question, and conversions.

    make(array, dtype) makes a tensor of `f32`, `bf16`, `f16`, or from an integer array (dtype None),
    dtype_of(tensor) returns such a name, and values(tensor) an f32 array.
    """

    def __init__(self, call, make, dtype_of, values):
        self.call, self.make, self.dtype_of, self.values = call, make, dtype_of, values

    def result(self, operation, arrays, dtypes):
        tensors = [self.make(array, None if array.dtype == numpy.int32 else dtype)
                   for array, dtype in zip(arrays, dtypes)]
        return self.call(operation, tensors)

    def answer(self, operation, arrays, dtypes, lower):
        """The dtype of the result, and the one from which it was computed if that is different."""
        result = self.result(operation, arrays, dtypes)
        found = self.dtype_of(result)
        if dtypes[0] != "f32" or found == "f64":
            return found
        rounded = [round_to(arrays[0], lower), *arrays[1:]]
        same = numpy.array_equal(self.values(result),
                                 self.values(self.result(operation, rounded, dtypes)))
        source = lower if same else "f32"
        return found if source == found else f"{found} from {source}"

    def answers(self, lower, operations=OPERATIONS):
        table = {}
        for operation in operations:
            arrays = arrays_of(operation)
            count = len(arrays)
            cases = {"f32": ["f32"] * count, lower: [lower] * count}
            if sum(array.dtype != numpy.int32 for array in arrays) > 1:
                cases["mixed"] = [lower] + ["f32"] * (count - 1)
            row = {}
            for case, dtypes in cases.items():
                try:
                    row[case] = self.answer(operation, arrays, dtypes, lower)
                except Missing:
                    continue
                except Exception as error:  # any exception of a framework
                    if "unsafe to autocast" in str(error):
                        row[case] = "refused"
                    else:
                        print(f"left out: {operation} of {case}: {text_of_error(error)}")
            if row:
                table[operation] = row
        return table


class Missing(Exception):
    """The framework has no such operation, or cannot compute it here."""


def trajectories(run, chosen=None):
    """The results of `run(options, steps)`: the scale after each step, and which steps were taken."""
    table = {}
    for name, options, steps, times in TRAJECTORIES:
        if chosen is not None and name not in chosen:
            continue
        row = {"options": list(options), "steps": steps, "times": times}
        try:
            scales, taken = run(options, steps * times)
            row["scales"] = [as_number(scale) for scale in (scales if times == 1 else scales[-1:])]
            if taken is not None and times == 1:
                row["taken"] = "".join("T" if step else "S" for step in taken)
        except Exception as error:  # any exception counts as the answer
            row["error"] = text_of_error(error)
        table[name] = row
    return table


def text_of_error(error):
    return f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0][:90]}"


def facts(questions):
    """Answers to single questions, as text: the result of a function, or that it refuses."""
    table = {}
    for question, ask in questions.items():
        try:
            table[question] = ask()
        except Exception:  # any exception counts as the answer
            table[question] = "refused"
    return table


def as_number(scale):
    """Replaces infinities, which JSON does not have."""
    scale = float(scale)
    return scale if abs(scale) <= sys.float_info.max else str(scale)


def write(name, framework, version, **answers):
    """Writes data/NAME.json: one line for each operation and each trajectory."""
    head = {"framework": framework, "version": version,
            "date": datetime.date.today().isoformat(),
            "python": platform.python_version(), "machine": f"CPU, {platform.machine()}"}
    path = HERE / "data" / f"{name}.json"
    path.write_text(text_of({**head, **answers}, 0) + "\n")
    print(f"{framework} {version}: wrote {path}")


def text_of(value, depth):
    if isinstance(value, dict) and value and any(isinstance(v, dict) for v in value.values()):
        indent = "  " * (depth + 1)
        lines = [f"{indent}{json.dumps(key)}: {text_of(part, depth + 1)}"
                 for key, part in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"
    return json.dumps(value)
