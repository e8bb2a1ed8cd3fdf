"""Training on text, with dropout, against Hugging Face's GPT-2: the comparison of docs/experiments.md in small."""
import json

import common

STEPS = 4
LOSS = 1e-4


def training(folder):
    """four steps of gpt-tiny on a text, and its test loss"""
    import gpt_text
    text = folder / "text.txt"
    text.write_bytes(b"".join(bytes([97 + byte // 16, 32]) for byte in common.noise(2048)))
    settings = gpt_text.Settings(text, tokens=64, batch=4, steps=STEPS, warmup=2)
    common.mezzo("train", *settings.mezzo_options(), "--amp", "O0", "--json", folder / "log.json", "--quiet")
    events = [json.loads(line) for line in (folder / "log.json").read_text().splitlines()]
    ours = [event["loss"] for event in events if event["event"] == "step"]
    ours.append(next(event["loss"] for event in events if event["event"] == "epoch"))
    weights, stream = gpt_text.beginning(settings, folder)
    net, data = gpt_text.network(weights), gpt_text.Text(settings)
    gpt_text.drop_from(stream)
    theirs = [*gpt_text.train(net, data, settings, STEPS), gpt_text.test_loss(net, data)]
    differences = [abs(x - y) for x, y in zip(ours, theirs, strict=True)]
    print(f"         losses of {STEPS} steps and of the test: {' '.join(f'{x:.6f}' for x in ours)}; "
          f"largest difference {max(differences):.2g}")
    assert max(differences) <= LOSS


if __name__ == "__main__":
    common.main(["torch", "transformers", "safetensors", "numpy"], [training])
