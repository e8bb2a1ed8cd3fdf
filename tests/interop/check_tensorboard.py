"""Event files, against TensorBoard's own reader."""
import json

import common


def read(folder):
    from tensorboard.backend.event_processing import event_accumulator as reader
    events = reader.EventAccumulator(str(folder), size_guidance={reader.SCALARS: 0})
    events.Reload()
    return events


def training(folder):
    """scalars of a training run are those of its JSON lines"""
    log, lines = folder / "log", folder / "run.json"
    common.mezzo("train", "--model", "mlp", "--steps", 12, "--batch-size", 8, "--logdir", log,
                 "--json", lines)
    steps = [event for event in map(json.loads, lines.read_text().splitlines())
             if event["event"] == "step"]
    events = read(log)
    for tag, field in (("train/loss", "loss"), ("train/lr", "lr"), ("train/scale", "scale")):
        scalars = events.Scalars(tag)
        assert [scalar.step for scalar in scalars] == [step["step"] for step in steps]
        assert all(abs(scalar.value - step[field]) <= 1e-6 * abs(step[field])
                   for scalar, step in zip(scalars, steps)), tag
    assert len(events.Scalars("test/accuracy")) == 1


def others(folder):
    """histograms, images and texts arrive"""
    common.files("events", folder)
    events = read(folder)
    histogram = events.Histograms("weights")[0]
    assert histogram.step == 3
    value = histogram.histogram_value
    assert (value.min, value.max, value.num, value.sum) == (-1, 2, 4, 2.5)
    assert sum(value.bucket) == 4
    image = events.Images("picture")[0]
    assert (image.width, image.height) == (1, 1)
    text = events.Tensors("note/text_summary" if "note/text_summary" in events.Tags()["tensors"]
                          else "note")[0]
    assert text.tensor_proto.string_val[0] == b"**bold**"


if __name__ == "__main__":
    common.main(["tensorboard"], [training, others])
