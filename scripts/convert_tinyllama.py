#!/usr/bin/env python3
"""Converts a llama2.c checkpoint and its tokenizer into a GGUF file, e.g. data/stories260K.gguf:

    scripts/convert_tinyllama.py stories260K.bin tok512.bin data/stories260K.gguf

Both inputs are published at https://huggingface.co/karpathy/tinyllamas (stories260K/, MIT licence). Needs Python alone,
and gives the same bytes every time. Weights stay in float32. llama2.c rotates adjacent pairs, which is what GGUF's
"llama" means, so Q and K rows keep their order.
"""
import argparse
import struct
import sys

ALIGNMENT = 32
F32 = 0  # ggml_type
UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5  # GGUF metadata types
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # tokenizer.ggml.token_type


class Reader:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.path = path
        self.at = 0

    def take(self, size):
        if self.at + size > len(self.data):
            sys.exit(f"{self.path}: ends at byte {len(self.data)}, but {size} bytes were expected from byte {self.at} on")
        self.at += size
        return self.data[self.at - size:self.at]

    def unpack(self, layout):
        return struct.unpack(layout, self.take(struct.calcsize(layout)))


def read_model(path):
    """Returns the header's numbers and a list of (GGUF name, dims innermost first, bytes)."""
    reader = Reader(path)
    dim, hidden, layers, heads, kv_heads, vocab, context = reader.unpack("<7i")
    tied = vocab > 0  # llama2.c's convention: a negative size says that the output head is stored apart
    vocab = abs(vocab)
    if min(dim, hidden, layers, heads, kv_heads, vocab, context) <= 0 or dim % heads or heads % kv_heads:
        sys.exit(f"{path}: is not a llama2.c checkpoint (header: {dim} {hidden} {layers} {heads} {kv_heads} {vocab} {context})")
    head_dim = dim // heads
    kv_dim = kv_heads * head_dim

    tensors = {}

    def take(name, columns, rows=None):
        dims = [columns] if rows is None else [columns, rows]
        tensors[name] = (dims, reader.take(4 * columns * (rows or 1)))

    def take_layers(name, columns, rows=None):
        for i in range(layers):
            take(f"blk.{i}.{name}.weight", columns, rows)

    take("token_embd.weight", dim, vocab)
    take_layers("attn_norm", dim)
    take_layers("attn_q", dim, heads * head_dim)
    take_layers("attn_k", dim, kv_dim)
    take_layers("attn_v", dim, kv_dim)
    take_layers("attn_output", heads * head_dim, dim)
    take_layers("ffn_norm", dim)
    take_layers("ffn_gate", dim, hidden)
    take_layers("ffn_down", hidden, dim)
    take_layers("ffn_up", dim, hidden)
    take("output_norm.weight", dim)
    reader.take(4 * 2 * context * (head_dim // 2))  # tables of cosines and sines, which readers compute themselves
    if not tied:
        take("output.weight", dim, vocab)
    if reader.at != len(reader.data):
        sys.exit(f"{path}: has {len(reader.data) - reader.at} bytes left over; is it an older or newer layout?")

    order = ["token_embd.weight"]
    for i in range(layers):
        order += [f"blk.{i}.{name}.weight" for name in
                  ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")]
    order += ["output_norm.weight"] + ([] if tied else ["output.weight"])
    numbers = {"dim": dim, "hidden": hidden, "layers": layers, "heads": heads, "kv_heads": kv_heads, "vocab": vocab,
               "context": context, "head_dim": head_dim}
    return numbers, [(name, *tensors[name]) for name in order]


def read_tokenizer(path, vocab):
    """Returns tokens as SentencePiece spells them, their scores and types."""
    reader = Reader(path)
    reader.unpack("<i")  # length of the longest token
    tokens, scores, types = [], [], []
    for i in range(vocab):
        score, size = reader.unpack("<fi")
        piece = reader.take(size).decode("utf-8")
        if i < 3:
            piece, kind = ("<unk>", "<s>", "</s>")[i], (UNKNOWN, CONTROL, CONTROL)[i]
        elif i < 3 + 256:
            if piece != f"<0x{i - 3:02X}>":
                sys.exit(f"{path}: token {i} is {piece!r}; <0x{i - 3:02X}> was expected")
            kind = BYTE
        else:
            piece, kind = piece.replace(" ", "\u2581"), NORMAL
        tokens.append(piece)
        scores.append(score)
        types.append(kind)
    return tokens, scores, types


def text(value):
    data = value.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def metadata(numbers, tokens, scores, types, name):
    """Returns the encoded metadata entries, in order."""
    entries = []

    def add(key, kind, payload):
        entries.append(text(key) + struct.pack("<I", kind) + payload)

    def add_array(key, kind, count, payload):
        add(key, ARRAY, struct.pack("<IQ", kind, count) + payload)

    add("general.architecture", STRING, text("llama"))
    add("general.name", STRING, text(name))
    add("general.author", STRING, text("Andrej Karpathy"))
    add("general.license", STRING, text("mit"))
    add("general.source.url", STRING, text("https://huggingface.co/karpathy/tinyllamas"))
    add("general.description", STRING, text("Trained on TinyStories for llama2.c; tells very short stories."))
    add("general.file_type", UINT32, struct.pack("<I", 0))  # all F32
    for key, value in (("context_length", numbers["context"]), ("embedding_length", numbers["dim"]),
                       ("block_count", numbers["layers"]), ("feed_forward_length", numbers["hidden"]),
                       ("rope.dimension_count", numbers["head_dim"]), ("attention.head_count", numbers["heads"]),
                       ("attention.head_count_kv", numbers["kv_heads"]), ("vocab_size", numbers["vocab"])):
        add("llama." + key, UINT32, struct.pack("<I", value))
    add("llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 1e-5))
    add("llama.rope.freq_base", FLOAT32, struct.pack("<f", 10000.0))
    add("tokenizer.ggml.model", STRING, text("llama"))
    add("tokenizer.ggml.pre", STRING, text("default"))
    add_array("tokenizer.ggml.tokens", STRING, len(tokens), b"".join(text(token) for token in tokens))
    add_array("tokenizer.ggml.scores", FLOAT32, len(scores), struct.pack(f"<{len(scores)}f", *scores))
    add_array("tokenizer.ggml.token_type", INT32, len(types), struct.pack(f"<{len(types)}i", *types))
    # A story ends where the next one's <s> would begin, so <s> also ends generation (eot); </s> was never trained.
    for key, value in (("unknown", 0), ("bos", 1), ("eos", 2), ("eot", 1)):
        add(f"tokenizer.ggml.{key}_token_id", UINT32, struct.pack("<I", value))
    for key, value in (("add_bos_token", True), ("add_eos_token", False), ("add_space_prefix", True)):
        add("tokenizer.ggml." + key, BOOL, struct.pack("<B", value))
    return entries


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write_gguf(path, entries, tensors):
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
    data = b""
    for name, dims, content in tensors:
        header += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, F32, len(data))
        data += content + padding(len(content))
    with open(path, "wb") as file:
        file.write(header + padding(len(header)) + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="llama2.c checkpoint (.bin, the first layout: seven int32, then float32)")
    parser.add_argument("tokenizer", help="llama2.c tokenizer (.bin)")
    parser.add_argument("output", help="GGUF file to write")
    parser.add_argument("--name", default="stories260K", help="general.name (default: %(default)s)")
    args = parser.parse_args()
    numbers, tensors = read_model(args.model)
    tokens, scores, types = read_tokenizer(args.tokenizer, numbers["vocab"])
    write_gguf(args.output, metadata(numbers, tokens, scores, types, args.name), tensors)
    return 0


if __name__ == "__main__":
    sys.exit(main())
