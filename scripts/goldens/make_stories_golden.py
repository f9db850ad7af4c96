#!/usr/bin/env python3
"""Makes tests/data/models/stories260K/golden.json: a plain fp64 Llama forward pass over llama2.c's file, in numpy alone.

Independent of the GGUF that the project bundles and of any framework: it reads stories260K.bin and tok512.bin (by
A. Karpathy) as llama2.c lays them out, computes every position in double precision without a cache, and decodes greedily.

    scripts/goldens/make_stories_golden.py stories260K.bin tok512.bin
"""

import argparse
import pathlib
import struct
import sys

import numpy as np

PROMPTS = ["", "Once upon a time", "Lily and Tom went to the park. They saw a", "The little dog was sad because",
           "\"Can we go to the beach?\" asked Ben. His mom said"]
NUM_GREEDY = 200


class Stories:
    def __init__(self, path, dtype=np.float64):
        raw = pathlib.Path(path).read_bytes()
        self.dim, self.hidden, self.layers, self.heads, self.kv_heads, self.vocab, self.max_len = struct.unpack_from("7i", raw)
        assert self.vocab > 0, "a negative vocabulary size means an output head of its own"
        self.data, self.at = np.frombuffer(raw, "<f4", offset=28).astype(dtype), 0
        self.head_dim = self.dim // self.heads
        kv_dim, n = self.head_dim * self.kv_heads, self.layers
        self.embedding = self.take(self.vocab, self.dim)
        self.att_norm = self.take(n, self.dim)
        self.wq, self.wk = self.take(n, self.dim, self.dim), self.take(n, kv_dim, self.dim)
        self.wv, self.wo = self.take(n, kv_dim, self.dim), self.take(n, self.dim, self.dim)
        self.ffn_norm = self.take(n, self.dim)
        self.gate, self.down = self.take(n, self.hidden, self.dim), self.take(n, self.dim, self.hidden)
        self.up = self.take(n, self.hidden, self.dim)
        self.final_norm = self.take(self.dim)
        assert self.at + self.max_len * self.head_dim == self.data.size  # what is left: tables of the rotation, unused

    def take(self, *shape):
        size = int(np.prod(shape))
        self.at += size
        return self.data[self.at - size:self.at].reshape(shape)

    def forward(self, tokens):
        """[len(tokens), vocab] logits."""
        def norm(x, weight):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight

        def rotate(x):  # [positions, heads, head_dim], adjacent pairs
            angle = np.arange(len(tokens))[:, None] * 10000.0 ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
            c, s = np.cos(angle).astype(x.dtype)[:, None], np.sin(angle).astype(x.dtype)[:, None]
            out = np.empty_like(x)
            out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
            out[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
            return out

        n, x = len(tokens), self.embedding[tokens]
        mask = np.triu(np.full((n, n), -np.inf, dtype=x.dtype), 1)
        for i in range(self.layers):
            h = norm(x, self.att_norm[i])
            q = rotate((h @ self.wq[i].T).reshape(n, self.heads, self.head_dim))
            k = rotate((h @ self.wk[i].T).reshape(n, self.kv_heads, self.head_dim))
            v = (h @ self.wv[i].T).reshape(n, self.kv_heads, self.head_dim)
            group = self.heads // self.kv_heads
            k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
            scores = q.swapaxes(0, 1) @ k.transpose(1, 2, 0) / x.dtype.type(np.sqrt(self.head_dim)) + mask  # [heads, n, n]
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            x = x + (weights @ v.swapaxes(0, 1)).swapaxes(0, 1).reshape(n, self.dim) @ self.wo[i].T
            h = norm(x, self.ffn_norm[i])
            g = h @ self.gate[i].T
            x = x + (g / (1 + np.exp(-g)) * (h @ self.up[i].T)) @ self.down[i].T
        return norm(x, self.final_norm) @ self.embedding.T


class Vocabulary:
    def __init__(self, path):
        raw, at, self.pieces, self.scores = pathlib.Path(path).read_bytes(), 4, [], []
        while at < len(raw):
            score, size = struct.unpack_from("<fi", raw, at)
            self.pieces.append(raw[at + 8:at + 8 + size])
            self.scores.append(score)
            at += 8 + size

    def encode(self, text):
        """BOS, a leading space, then the best-scored pair merged until none is left (llama2.c's tokenizer)."""
        if not text:
            return [1]
        ids = [self.pieces.index(c.encode()) for c in " " + text]
        while True:
            best = None
            for i in range(len(ids) - 1):
                pair = self.pieces[ids[i]] + self.pieces[ids[i + 1]]
                if pair in self.pieces:
                    token = self.pieces.index(pair)
                    if best is None or self.scores[token] > best[0]:
                        best = self.scores[token], i, token
            if best is None:
                return [1] + ids
            ids[best[1]:best[1] + 2] = [best[2]]

    def decode(self, ids):
        out = b""
        for token in ids:
            piece = self.pieces[token]
            if len(piece) == 6 and piece.startswith(b"<0x"):
                piece = bytes([int(piece[3:5], 16)])
            out += piece
        return out.decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("vocabulary")
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / "tests/data/models/stories260K/golden.json")
    args = parser.parse_args()
    model, vocabulary = Stories(args.model), Vocabulary(args.vocabulary)
    golden = dict(generated_by=f"numpy {np.__version__}, fp64", model="stories260K", reference_error=0.0, prompts=[])
    single = Stories(args.model, np.float32)
    for text in PROMPTS:
        prompt = vocabulary.encode(text)
        ids, gaps, rows = list(prompt), [], []
        for _ in range(NUM_GREEDY):
            row = model.forward(ids)[-1]
            top = np.sort(row)[-2:]
            gaps.append(float(f"{top[1] - top[0]:.3g}"))
            rows.append(row)
            ids.append(int(row.argmax()))
        tokens = ids[len(prompt):]
        # What fp32 costs this model, as the yardstick of other fp32 implementations.
        error = np.abs(single.forward(ids[:-1])[len(prompt) - 1:] - np.stack(rows)).max()
        assert single.embedding.dtype == np.float32
        golden["reference_error"] = max(golden["reference_error"], float(f"{error:.3g}"))
        golden["prompts"].append(dict(
            text=text, story=vocabulary.decode(tokens), prompt=prompt, greedy=tokens, gaps=gaps,
            logits=[dict(index=k, values=[float(f"{v:.8g}") for v in rows[k]]) for k in (0, 99, 199)]))
        print(f"{text!r}: smallest gap {min(gaps)}, fp32 error {error:.2g}: {vocabulary.decode(tokens)!r}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import golden_form
    golden_form.write(args.out, golden)


if __name__ == "__main__":
    main()
