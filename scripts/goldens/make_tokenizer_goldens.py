"""Makes tests/data/tokenizers: small tokenizers of each family's real form, 10,000 strings, and the reference's ids.

    python scripts/goldens/make_tokenizer_goldens.py SmolLM2-135M-Instruct.Q4_1.gguf

Needs tokenizers, sentencepiece and gguf from PyPI, and Python 3.11 (Unicode 14, as Debian 12's PCRE2; the strings use
assigned code points only). The references:
  * SmolLM2: Hugging Face's tokenizers on the vocabulary and merges of the GGUF, cut as the model's own tokenizer.json says
    (digits singly, then GPT-2's pattern). transformers' own reading of such a GGUF leaves the digits out.
  * Llama 3, Qwen2: Hugging Face's tokenizers on small vocabularies trained here, in files of the real form.
  * Llama 2: the same, from a SentencePiece model trained here; and sentencepiece itself for the GGUF of that model.
  * flags: a file whose added tokens have every flag.
Invalid UTF-8 is decoded with errors="replace" first.

Hugging Face's normal forms are of an older Unicode: a string that Python normalises otherwise is skipped ("-") there.

Each <name>.ids.txt has one line a string: a hash of its ids, how many there are, and a hash of the text they decode to.
"""

import argparse
import base64
import json
import pathlib
import random
import sys
import sysconfig
import unicodedata

import gguf
import numpy as np
import sentencepiece
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from tokenizer_strings import make_strings

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/data/tokenizers"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MASK = (1 << 64) - 1


def fnv(values):
    h = 0xCBF29CE484222325
    for v in values:
        h = ((h ^ v) * 0x100000001B3) & MASK
    return h


def corpus(strings):
    """English and code from Python's standard library, and every script from the strings."""
    lib = pathlib.Path(sysconfig.get_path("stdlib"))
    texts = [(lib / name).read_text() for name in ["argparse.py", "textwrap.py", "statistics.py", "heapq.py", "enum.py",
                                                   "typing.py", "pydoc_data/topics.py", "decimal.py", "_pydecimal.py"]]
    return texts + [s.decode("utf-8", "replace") for s, n in strings if n == 1]


def dump(name, document):
    (OUT / name).write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")


def train_byte_level(pattern, normalizer, texts, size):
    t = tokenizers.Tokenizer(models.BPE())
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                     show_progress=False))
    return json.loads(t.to_str())


def added(document, names, special=True):
    for name in names:
        document["added_tokens"].append(dict(id=len(document["model"]["vocab"]) + len(document["added_tokens"]), content=name,
                                             single_word=False, lstrip=False, rstrip=False, normalized=False, special=special))


def byte_level_step():
    return dict(type="ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True)


def make_llama3(texts):
    d = train_byte_level(LLAMA3, None, texts, 2000)
    # What ignore_merges is for: tokens that no merges lead to.
    merges = d["model"]["merges"]
    r = random.Random(3)
    d["model"]["merges"] = [f"{a} {b}" for a, b in merges if r.random() >= 0.05]
    d["model"]["ignore_merges"] = True
    added(d, ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])
    bos = d["added_tokens"][0]["id"]
    d["post_processor"] = dict(type="Sequence", processors=[
        dict(type="ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True),
        dict(type="TemplateProcessing", single=[dict(SpecialToken=dict(id="<|begin_of_text|>", type_id=0)),
                                                dict(Sequence=dict(id="A", type_id=0))],
             pair=[dict(SpecialToken=dict(id="<|begin_of_text|>", type_id=0)), dict(Sequence=dict(id="A", type_id=0)),
                   dict(SpecialToken=dict(id="<|begin_of_text|>", type_id=1)), dict(Sequence=dict(id="B", type_id=1))],
             special_tokens={"<|begin_of_text|>": dict(id="<|begin_of_text|>", ids=[bos], tokens=["<|begin_of_text|>"])})])
    dump("llama3-small.json", d)


def make_qwen2(texts):
    d = train_byte_level(QWEN2, normalizers.NFC(), texts, 2000)
    added(d, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    added(d, ["<tool_call>", "</tool_call>", "<think>", "</think>"], special=False)
    d["post_processor"] = byte_level_step()
    dump("qwen2-small.json", d)


def read_smollm2(path):
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents()  # noqa: E731
    return get("tokens"), get("token_type"), get("merges")


def make_smollm2(path):
    tokens, types, merges = read_smollm2(path)
    w = gguf.GGUFWriter(OUT / "smollm2-vocab.gguf", "llama")
    w.add_license("apache-2.0")
    w.add_string("general.source.url", "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges(merges)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(False)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    t = tokenizers.Tokenizer(models.BPE(vocab={x: i for i, x in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x, y in zip(tokens, types) if y == 3])
    # Known answers of the model's own tokenizer, published in several places.
    assert t.encode("Hello world! 123").ids == [19556, 905, 17, 216, 33, 34, 35]
    assert t.encode("  multiple   spaces").ids == [216, 2701, 256, 5600]
    return t


def make_llama2(texts):
    lines = [line for text in texts for line in text.splitlines() if line.strip() and len(line) < 1000]
    model = OUT / "spm.tmp"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(model), model_type="bpe", vocab_size=2500, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, character_coverage=0.98,
        max_sentence_length=8192, split_digits=True, allow_whitespace_only_pieces=True, num_threads=1, minloglevel=2)
    sp = sentencepiece.SentencePieceProcessor(model_file=f"{model}.model")
    for suffix in ("model", "vocab"):
        pathlib.Path(f"{model}.{suffix}").unlink()
    vocab = {sp.id_to_piece(i): i for i in range(sp.vocab_size())}
    # Every way to make a token of two others, the best tokens first: what Hugging Face's converter writes.
    merges = []
    for piece, i in vocab.items():
        if sp.is_control(i) or sp.is_unknown(i) or sp.is_byte(i):
            continue
        local = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
        merges += [(a, b, sp.get_score(i)) for a, b in sorted(local, key=lambda p: (vocab[p[0]], vocab[p[1]]))]
    merges.sort(key=lambda m: m[2], reverse=True)
    named = lambda i, content: dict(id=i, content=content, single_word=False, lstrip=False, rstrip=False,  # noqa: E731
                                    normalized=False, special=True)
    space = "\u2581"
    document = dict(
        version="1.0", truncation=None, padding=None, added_tokens=[named(0, "<unk>"), named(1, "<s>"), named(2, "</s>")],
        normalizer=dict(type="Sequence", normalizers=[dict(type="Prepend", prepend=space),
                                                      dict(type="Replace", pattern=dict(String=" "), content=space)]),
        pre_tokenizer=None,
        post_processor=dict(type="TemplateProcessing", single=[dict(SpecialToken=dict(id="<s>", type_id=0)),
                                                               dict(Sequence=dict(id="A", type_id=0))],
                            pair=[dict(Sequence=dict(id="A", type_id=0)), dict(Sequence=dict(id="B", type_id=1))],
                            special_tokens={"<s>": dict(id="<s>", ids=[1], tokens=["<s>"])}),
        decoder=dict(type="Sequence", decoders=[dict(type="Replace", pattern=dict(String=space), content=" "),
                                                dict(type="ByteFallback"), dict(type="Fuse"),
                                                dict(type="Strip", content=" ", start=1, stop=0)]),
        model=dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None, end_of_word_suffix=None,
                   fuse_unk=True, byte_fallback=True, ignore_merges=False, vocab=vocab, merges=[f"{a} {b}" for a, b, _ in merges]))
    dump("llama2-small.json", document)
    # The newer form of the same: Metaspace in place of the normalizer.
    document.update(normalizer=None, pre_tokenizer=dict(type="Metaspace", replacement=space, prepend_scheme="first", split=False))
    document["model"]["merges"] = [[a, b] for a, b, _ in merges]
    dump("mistral-small.json", document)

    w = gguf.GGUFWriter(OUT / "llama2-small.gguf", "llama")
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list([sp.id_to_piece(i) for i in range(sp.vocab_size())])
    w.add_token_scores([sp.get_score(i) for i in range(sp.vocab_size())])
    w.add_token_types([2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
                       for i in range(sp.vocab_size())])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    return sp


def make_flags():
    """Digits in runs, three splits with other behaviours, and added tokens with every flag."""
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = []
    for a, b in [("t", "h"), ("th", "e"), ("\u0120", "the"), ("i", "n"), ("in", "g"), ("1", "2"), ("12", "3"), ("o", "r"),
                 ("\u0120", "w"), ("\u0120w", "or"), ("<", "l"), ("e", "r"), ("\u0120", "\u0120"), ("\u0120\u0120", "\u0120")]:
        vocab[a + b] = len(vocab)
        merges.append([a, b])
    d = dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=dict(type="Sequence", normalizers=[
        dict(type="NFKC"), dict(type="Replace", pattern=dict(String="~"), content="\u00e9")]),
        pre_tokenizer=dict(type="Sequence", pretokenizers=[
            dict(type="Digits", individual_digits=False),
            dict(type="Split", pattern=dict(String="-"), behavior="MergedWithPrevious", invert=False),
            dict(type="Split", pattern=dict(Regex="[,;]+"), behavior="MergedWithNext", invert=False),
            dict(type="Split", pattern=dict(Regex="[xyz]"), behavior="Removed", invert=False),
            dict(type="Split", pattern=dict(Regex="o"), behavior="Contiguous", invert=True),
            dict(type="Split", pattern=dict(Regex=r"[!?]$|^.|\w+\b|(?=a)"), behavior="Isolated", invert=False),
            dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True)]),
        post_processor=None, decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                   fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab=vocab, merges=merges))
    for content, flags in [("<s>", dict(special=True)), ("<word>", dict(single_word=True)), ("<left>", dict(lstrip=True)),
                           ("<right>", dict(rstrip=True)), ("<both>", dict(lstrip=True, rstrip=True, special=True)),
                           ("   ", {}), ("<norm>", dict(normalized=True)), ("<\u2460>", dict(normalized=True)), ("the", {}),
                           ("then", dict(single_word=True)), ("<|im_end|>", dict(special=True, normalized=True, rstrip=True))]:
        token = dict(id=vocab.get(content, len(vocab) + sum(t["content"] not in vocab for t in d["added_tokens"])), content=content,
                     single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
        token.update(flags)
        d["added_tokens"].append(token)
    dump("flags.json", d)


def write_ids(name, strings, encode, decode, form=None):
    """`form`: the normal form that the tokenizer applies."""
    lines = []
    skipped = 0
    for s, n in strings:
        text = (s * n).decode("utf-8", "replace")
        if form and getattr(normalizers, form)().normalize_str(text) != unicodedata.normalize(form, text):
            lines.append("-")
            skipped += 1
            continue
        ids = encode(text)
        text = decode(ids).encode("utf-8") if decode else None
        lines.append(f"{fnv(ids):016x} {len(ids)}" + (f" {fnv(text) & 0xFFFFFFFF:08x}" if decode else ""))
    (OUT / f"{name}.ids.txt").write_text("\n".join(lines) + "\n")
    print(name, sum(int(line.split()[1]) for line in lines if line != "-"), "ids", skipped, "skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smollm2", help="SmolLM2-135M-Instruct as GGUF")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    strings = make_strings()
    (OUT / "strings.txt").write_text("".join(base64.b64encode(s).decode() + (f" {n}" if n > 1 else "") + "\n" for s, n in strings))
    texts = corpus(strings)
    make_llama3(texts)
    make_qwen2(texts)
    sp = make_llama2(texts)
    make_flags()
    smollm2 = make_smollm2(args.smollm2)
    plain = lambda t: (lambda s: t.encode(s, add_special_tokens=False).ids)  # noqa: E731
    whole = lambda t: (lambda ids: t.decode(ids, skip_special_tokens=False))  # noqa: E731
    write_ids("smollm2", strings, plain(smollm2), whole(smollm2))
    for name in ["llama3-small", "qwen2-small", "llama2-small", "mistral-small", "flags"]:
        t = tokenizers.Tokenizer.from_file(str(OUT / f"{name}.json"))
        # The ByteLevel decoder reads an added token in GPT-2's alphabet where it can; Ullage gives it as it is spelled.
        write_ids(name, strings, plain(t), whole(t) if name != "flags" else None,
                  {"flags": "NFKC", "qwen2-small": "NFC"}.get(name))
    # sentencepiece does not look for control tokens in the text.
    write_ids("llama2-small-gguf", strings, lambda s: sp.encode(s) if s else [], None)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    main()
