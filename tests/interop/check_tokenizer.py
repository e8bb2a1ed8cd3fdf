"""Tokenizers, against the Python packages tokenizers and sentencepiece."""
import json
import random
import struct
import unicodedata

import common

LINES = 10_000
# Ranges that a line draws its characters from: scripts, signs, emoji, and everything.
RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x5FF),
    (0x600, 0x7BF), (0x7C0, 0x8FF), (0x900, 0xDFF), (0xE00, 0x10FF), (0x1100, 0x139F), (0x13A0, 0x18AF),
    (0x1900, 0x1CFF), (0x1D00, 0x20CF), (0x20D0, 0x2BFF), (0x2C00, 0x303F), (0x3040, 0x33FF), (0x3400, 0x9FFF),
    (0xA000, 0xABFF), (0xAC00, 0xD7A3), (0xF900, 0xFFFD), (0x10000, 0x10FFF), (0x11000, 0x16FFF), (0x17000, 0x1BFFF),
    (0x1D000, 0x1F2FF), (0x1F300, 0x1FAFF), (0x20000, 0x3134F), (0, 0x10FFFF)]
WORDS = ["it's", "I'LL", "we'Ve", " the", "  ", "\t", "\u00a0", "\u3000", "\u180e", "\u2028", "123", "4567", "\r", "...",
         "can't", "\u017f", "e\u0301", "\U0001f469\u200d\U0001f4bb", "\u0645\u0631\u062d\u0628\u0627"]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def character(numbers, low, high):
    """One that this Python's Unicode knows: what later versions add, the libraries class as their versions do."""
    while True:
        value = chr(numbers.randint(low, high))
        if unicodedata.category(value) not in ("Cn", "Cs") and value != "\n":
            return value


def random_line(numbers, ranges):
    parts = []
    for _ in range(numbers.randint(0, 6)):
        if numbers.random() < 0.3:
            parts.append(numbers.choice(WORDS))
        else:
            low, high = numbers.choice(ranges)
            parts += [character(numbers, low, high) for _ in range(numbers.randint(1, 8))]
        if numbers.random() < 0.6:
            parts.append(" ")
    return "".join(parts)


def lines(ranges=RANGES):
    numbers = random.Random(1)
    return [random_line(numbers, ranges) for _ in range(LINES)]


def encode(tokenizer, texts, folder):
    """The numbers that mezzo gives each text, after decoding them to the same text."""
    (folder / "texts").write_text(json.dumps(texts), encoding="utf-8")
    common.files("tokenize", tokenizer, folder / "texts", folder / "ids")
    return json.loads((folder / "ids").read_text())


def trained(pre_tokenizer, texts, special=("<|endoftext|>",), vocabulary=2000):
    import tokenizers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=2, special_tokens=list(special), show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def compare(tokenizer, path, texts, folder):
    found = encode(path, texts, folder)
    expected = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    for text, ours, theirs in zip(texts, found, expected, strict=True):
        assert ours == theirs, f"{text!r}: {ours} instead of {theirs}"


def reads_gpt2(folder):
    """mezzo reads what the package trains with GPT-2's words, and gives the same numbers"""
    from tokenizers import pre_tokenizers
    texts = lines()
    tokenizer = trained(pre_tokenizers.ByteLevel(add_prefix_space=False), texts)
    tokenizer.add_tokens(["<|sep|>", "the"])
    tokenizer.save(str(folder / "tokenizer.json"))
    texts += ["a<|endoftext|>b <|sep|><|endoftext|>", "<|endoftext|", " the theme"]
    compare(tokenizer, folder / "tokenizer.json", texts, folder)


def reads_split(folder):
    """the same with the expression of cl100k, and with whole words before merges"""
    import tokenizers
    from tokenizers import pre_tokenizers
    texts = lines()
    tokenizer = trained(pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(CL100K), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), texts)
    tokenizer.save(str(folder / "tokenizer.json"))
    compare(tokenizer, folder / "tokenizer.json", texts, folder)
    changed = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    changed["model"]["ignore_merges"] = True
    changed["model"]["merges"] = [merge for i, merge in enumerate(changed["model"]["merges"]) if i % 7]
    (folder / "whole.json").write_text(json.dumps(changed), encoding="utf-8")
    compare(tokenizers.Tokenizer.from_file(str(folder / "whole.json")), folder / "whole.json", texts, folder)


def trains(folder):
    """the package reads what mezzo trains, which is what it trains itself, and gives the same numbers"""
    import tokenizers
    from tokenizers import pre_tokenizers
    texts = lines()
    (folder / "text").write_text("\n".join(texts), encoding="utf-8", newline="")
    common.mezzo("tokenize", "--train", 2000, "--input", folder / "text", "--out", folder / "out")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "out" / "tokenizer.json"))
    compare(tokenizer, folder / "out" / "tokenizer.json", texts, folder)
    # The package counts words text by text, so it gets the text as one.
    theirs = json.loads(trained(pre_tokenizers.ByteLevel(add_prefix_space=False), ["\n".join(texts)]).to_str())
    ours = json.loads(tokenizer.to_str())
    assert ours["model"]["vocab"] == theirs["model"]["vocab"]
    assert ours["model"]["merges"] == theirs["model"]["merges"]


def files(folder):
    """the files of `mezzo tokenize` have the package's numbers of the two parts of the text"""
    import tokenizers
    (folder / "text").write_text("\n".join(lines()), encoding="utf-8", newline="")
    common.mezzo("tokenize", "--train", 1000, "--input", folder / "text", "--out", folder / "out")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "out" / "tokenizer.json"))
    data = (folder / "text").read_bytes()
    place = data.index(b"\n", len(data) - len(data) // 10 - 1) + 1
    for name, part in (("train.bin", data[:place]), ("val.bin", data[place:])):
        written = (folder / "out" / name).read_bytes()
        count = struct.unpack_from("<3i", written)
        ids = struct.unpack_from(f"<{count[2]}H", written, 1024)
        assert count[:2] == (20240520, 1) and len(written) == 1024 + 2 * count[2]
        assert list(ids) == tokenizer.encode(part.decode(), add_special_tokens=False).ids, name


def invalid_place(data):
    """Where a text stops being UTF-8, or None."""
    try:
        data.decode()
        return None
    except UnicodeDecodeError as error:
        return error.start


def broken(folder):
    """random bytes are refused with the place of the first that is not UTF-8"""
    numbers = random.Random(2)
    for _ in range(30):
        data = bytearray(b"".join(line.encode() + b"\n" for line in lines()[:20]))
        for _ in range(numbers.randint(1, 3)):
            data[numbers.randrange(len(data))] = numbers.randrange(0x80, 0x100)
        (folder / "text").write_bytes(data)
        place = invalid_place(data)
        try:
            common.mezzo("tokenize", "--train", 300, "--input", folder / "text", "--out", folder / "out")
            message = None
        except RuntimeError as error:
            message = str(error)
        if place is None:
            assert message is None, message
        else:
            assert f"not UTF-8: byte {place} is {data[place]}." in message, (place, message)


def sentencepiece(folder):
    """models of the package sentencepiece: the numbers, and the text that they give back, are its own"""
    import sentencepiece as package
    texts = [line for line in lines() if "\0" not in line]
    # Of few characters: each that a model knows is one of its pieces.
    corpus = "\n".join(lines(RANGES[:6]))
    (folder / "corpus").write_text(corpus, encoding="utf-8", newline="")
    for kind, options in (("unigram", {}), ("bpe", {"byte_fallback": True, "normalization_rule_name": "identity",
                                                    "remove_extra_whitespaces": False})):
        package.SentencePieceTrainer.train(
            input=str(folder / "corpus"), model_prefix=str(folder / kind), vocab_size=3000, model_type=kind,
            character_coverage=0.98, hard_vocab_limit=False, minloglevel=2, **options)
        model = package.SentencePieceProcessor(model_file=str(folder / f"{kind}.model"))
        (folder / "texts").write_text(json.dumps(texts), encoding="utf-8")
        common.files("tokenize", folder / f"{kind}.model", folder / "texts", folder / "ids", folder / "decoded")
        found = json.loads((folder / "ids").read_text())
        decoded = json.loads((folder / "decoded").read_text(encoding="utf-8"))
        for text, ids, back in zip(texts, found, decoded, strict=True):
            assert ids == model.encode(text), f"{kind}: {text!r}"
            assert back == model.decode(ids), f"{kind}: {text!r}"


if __name__ == "__main__":
    common.main(["tokenizers", "sentencepiece"], [reads_gpt2, reads_split, trains, files, broken, sentencepiece])
