#!/usr/bin/env python3
"""Makes the tiny GGUF files of tests/data/models/gguf, one or more for each tensor type that Ullage reads.

Two kinds of files:
  * the same weights as a checkpoint of ../hf (F32, F16, BF16; Llama, Qwen2, Qwen3; scaled rotations as GGUF says them):
    the golden is that checkpoint's;
  * random quantised models: 32-element types are quantised by gguf.quants, K types are random blocks (every bit pattern
    occurs), and what transformers computes in fp32 from the GGUF itself is the golden, next to the file. transformers'
    weights are checked to be gguf.quants.dequantize of the file's tensors.

    pip install torch transformers gguf safetensors numpy
    scripts/goldens/make_tiny_models.py && scripts/goldens/make_tiny_ggufs.py
"""

import json
import math
import pathlib
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Q

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import golden_lib
import make_smollm2_golden

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/models"

# file: (checkpoint of ../hf, tensor type of the matrices)
COPIES = {
    "llama-f32": ("llama-tied-f32", Q.F32),
    "llama-f16": ("llama-mha-f16", Q.F16),
    "llama-bf16-llama3": ("llama-llama3", Q.BF16),
    "llama-bf16-linear": ("llama-linear-mqa", Q.BF16),
    "llama-bf16-yarn": ("llama-yarn", Q.BF16),
    "qwen2-bf16": ("qwen2-tied", Q.BF16),
    "qwen3-bf16": ("qwen3-tied", Q.BF16),
}
RANDOM = {"q8_0": Q.Q8_0, "q4_0": Q.Q4_0, "q4_1": Q.Q4_1, "q5_0": Q.Q5_0, "q5_1": Q.Q5_1,
          "q4_k": Q.Q4_K, "q5_k": Q.Q5_K, "q6_k": Q.Q6_K}
K_TYPES = (Q.Q4_K, Q.Q5_K, Q.Q6_K)


def permute(rows, num_heads):
    """Halves to adjacent pairs, as llama.cpp's converter lays Llama's Q and K rows out."""
    return rows.reshape(num_heads, 2, rows.shape[0] // num_heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_header(writer, arch, c):
    writer.add_name("tiny " + arch)
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_vocab_size(c["vocab_size"])
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    writer.add_rope_dimension_count(head_dim)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    rope = c.get("rope_parameters") or dict(c.get("rope_scaling") or {}, rope_theta=c.get("rope_theta", 10000.0))
    writer.add_rope_freq_base(rope["rope_theta"])
    kind = rope.get("rope_type", "default")
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    elif kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(rope, head_dim))
    # A vocabulary of spelled-out ids: enough for readers that insist on one.
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"t{i}" for i in range(c["vocab_size"])])
    writer.add_token_types([gguf.TokenType.NORMAL] * c["vocab_size"])
    writer.add_token_merges([])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def llama3_divisors(rope, head_dim):
    """Llama 3's frequencies as divisors, one a pair (Llama 3.1's model card; llama.cpp stores them so)."""
    original, low, high = rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"]
    divisors = []
    for i in range(0, head_dim, 2):
        turns = original * rope["rope_theta"] ** (-i / head_dim) / (2 * math.pi)  # within the original length
        if turns > high:
            divisors.append(1.0)
        elif turns < low:
            divisors.append(rope["factor"])
        else:
            smooth = (turns - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(divisors, dtype=np.float32)


def names_of(arch, num_layers):
    return gguf.get_tensor_name_map({"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
                                     "qwen3": gguf.MODEL_ARCH.QWEN3}[arch], num_layers)


def copy(name, source, kind, out):
    c = json.loads((ROOT / "hf" / source / "config.json").read_text())
    arch = c["model_type"]
    model = golden_lib.load(ROOT / "hf" / source)
    writer = gguf.GGUFWriter(out / f"{name}.gguf", arch)
    write_header(writer, arch, c)
    names = names_of(arch, c["num_hidden_layers"])
    for full, tensor in model.state_dict().items():
        if full == "lm_head.weight" and c["tie_word_embeddings"]:
            continue
        stem, _, suffix = full.rpartition(".")
        rows = tensor.numpy()
        if arch == "llama" and (".q_proj" in full or ".k_proj" in full):
            rows = permute(rows, c["num_attention_heads" if ".q_proj" in full else "num_key_value_heads"])
        type_ = kind if rows.ndim == 2 else Q.F32
        data = gguf.quants.quantize(rows, type_)
        assert np.array_equal(gguf.quants.dequantize(data, type_).reshape(rows.shape), rows)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", data, raw_dtype=type_)
    finish(writer)
    print(f"{name}: as hf/{source}, {(out / f'{name}.gguf').stat().st_size} bytes")


def random_k_rows(rng, rows, columns, kind, std):
    """Random blocks of a K type whose numbers have about mean 0 and the given standard deviation."""
    blocks = rows * columns // 256
    bits = rng.integers(0, 256, (blocks, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    if kind == Q.Q6_K:  # low 4 bits [128], high 2 bits [64], int8 scales [16], fp16 d: d * scale * (q - 32)
        unit = 74 * 18.5  # the standard deviations of scale and q
        d = (std / unit) * rng.uniform(0.5, 1.5, (blocks, 1))
        bits[:, -2:] = d.astype(np.float16).view(np.uint8)
    else:  # fp16 d, fp16 dmin, 6-bit scales and minima [12], quants: d * scale * q - dmin * minimum
        middle = 7.5 if kind == Q.Q4_K else 15.5
        unit = 39 * middle / 1.5
        d = (std / unit) * rng.uniform(0.5, 1.5, (blocks, 1))
        bits[:, 0:2] = d.astype(np.float16).view(np.uint8)
        bits[:, 2:4] = (d * middle).astype(np.float16).view(np.uint8)
    return bits.reshape(rows, -1)


def random_model(name, kind, seed, out):
    is_k = kind in K_TYPES
    c = dict(hidden_size=512 if is_k else 64, intermediate_size=32 if is_k else 64, num_hidden_layers=1 if is_k else 2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=8 if is_k else 16, vocab_size=48 if is_k else 64,
             max_position_embeddings=256, rms_norm_eps=1e-5, rope_theta=10000.0)
    h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    rng = np.random.default_rng(seed)
    path = out / f"llama-{name}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    write_header(writer, "llama", c)

    def matrix(tensor, rows, columns, std):
        if is_k and columns % 256 == 0:
            writer.add_tensor(tensor, random_k_rows(rng, rows, columns, kind, std), raw_dtype=kind)
            return
        type_ = Q.Q8_0 if is_k else kind  # a K block has 256 elements: narrow matrices take another type, as llama.cpp's do
        data = rng.standard_normal((rows, columns)).astype(np.float32) * np.float32(std)
        writer.add_tensor(tensor, gguf.quants.quantize(data, type_), raw_dtype=type_)

    def norm(tensor):
        writer.add_tensor(tensor, (1 + 0.25 * rng.standard_normal(h)).astype(np.float32))

    matrix("token_embd.weight", c["vocab_size"], h, 0.5)
    norm("output_norm.weight")
    matrix("output.weight", c["vocab_size"], h, 3 / math.sqrt(h))
    for i in range(c["num_hidden_layers"]):
        p = f"blk.{i}."
        norm(p + "attn_norm.weight")
        norm(p + "ffn_norm.weight")
        matrix(p + "attn_q.weight", q, h, 3 / math.sqrt(h))
        matrix(p + "attn_k.weight", kv, h, 3 / math.sqrt(h))
        matrix(p + "attn_v.weight", kv, h, 3 / math.sqrt(h))
        matrix(p + "attn_output.weight", h, q, 3 / math.sqrt(q))
        matrix(p + "ffn_gate.weight", f, h, 3 / math.sqrt(h))
        matrix(p + "ffn_up.weight", f, h, 3 / math.sqrt(h))
        matrix(p + "ffn_down.weight", h, f, 3 / math.sqrt(f))
    finish(writer)

    model = golden_lib.load(str(out), gguf_file=path.name)
    make_smollm2_golden.check_weights(gguf.GGUFReader(path), model)
    prompts = [rng.integers(2, c["vocab_size"], n).tolist() for n in (1, 9, 40)]
    golden = golden_lib.make_golden(model, prompts, 64, logit_indices=(0, 63))
    golden["model"] = f"random llama, {kind.name}, seed {seed}, computed by transformers in float32 from the GGUF"
    golden_lib.write(out / f"llama-{name}.golden.json", golden)
    return golden


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    torch.set_num_threads(1)
    out = ROOT / "gguf"
    out.mkdir(parents=True, exist_ok=True)
    for name, (source, kind) in COPIES.items():
        copy(name, source, kind, out)
    for name, kind in RANDOM.items():
        seed = 20000 + 100 * list(RANDOM).index(name)
        while True:
            golden = random_model(name, kind, seed, out)
            if min(g for p in golden["prompts"] for g in p["gaps"]) >= 30 * golden["reference_error"]:
                break
            seed += 1
        print(f"llama-{name}: seed {seed}, {golden_lib.summary(golden)}, {(out / f'llama-{name}.gguf').stat().st_size} bytes")


if __name__ == "__main__":
    main()
