#!/usr/bin/env python3
"""Makes the tiny random checkpoints of tests/data/models/hf and their goldens.

Each directory is a Hugging Face checkpoint (config.json, safetensors, generation_config.json, tokenizer.json) that
transformers itself wrote, and golden.json: what transformers computes from it in fp32 with eager attention, read back from
the directory. Weights come from numpy's PCG64 with a fixed seed, so a second run gives the same files.

    pip install torch transformers safetensors tokenizers numpy
    scripts/goldens/make_tiny_models.py [--only NAME] [--out tests/data/models/hf]
"""

import argparse
import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import golden_lib

VOCAB = 272
NUM_GREEDY = 64

LLAMA = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256, vocab_size=VOCAB, rms_norm_eps=1e-5, tie_word_embeddings=False,
             bos_token_id=0, eos_token_id=1)

# name: (model type, changes to the configuration, weights' dtype, how it is written)
#   old: config.json in the spelling of transformers 4 (rope_theta, rope_scaling, torch_dtype), as most published
#        checkpoints have it; shards: several safetensors files with an index; scale: of the weights.
MODELS = {
    "llama-tied-f32": ("llama", dict(tie_word_embeddings=True), "float32", dict()),
    "llama-mha-f16": ("llama", dict(num_key_value_heads=4), "float16", dict(old=True)),
    "llama-bias": ("llama", dict(attention_bias=True, rms_norm_eps=1e-6), "bfloat16", dict(old=True)),
    "llama-linear-mqa": ("llama", dict(num_key_value_heads=1,
                                       rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=10000.0)),
                         "bfloat16", dict(old=True)),
    "llama-llama3": ("llama", dict(rope_parameters=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32,
        rope_theta=500.0)), "bfloat16", dict(old=True)),
    "llama-yarn": ("llama", dict(rope_parameters=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=32, rope_theta=1000.0)), "bfloat16", dict()),
    "llama-yarn-attention": ("llama", dict(rope_parameters=dict(
        rope_type="yarn", factor=8.0, original_max_position_embeddings=32, rope_theta=10000.0, attention_factor=0.8,
        beta_fast=16.0, beta_slow=2.0), tie_word_embeddings=True), "bfloat16", dict(old=True)),
    "llama-headdim-sharded": ("llama", dict(head_dim=16, rope_parameters=dict(rope_type="default", rope_theta=5000.0)),
                              "bfloat16", dict(shards="30KB")),
    "mistral": ("mistral", dict(sliding_window=None), "bfloat16", dict()),
    "mistral-window": ("mistral", dict(sliding_window=16), "bfloat16", dict(old=True)),
    "qwen2": ("qwen2", dict(), "bfloat16", dict(old=True)),
    "qwen2-tied": ("qwen2", dict(tie_word_embeddings=True), "bfloat16", dict()),
    "qwen3-tied": ("qwen3", dict(head_dim=16, tie_word_embeddings=True, rms_norm_eps=1e-6), "bfloat16", dict()),
    "qwen3-sharded": ("qwen3", dict(head_dim=12, intermediate_size=40), "bfloat16", dict(old=True, shards="40KB")),
}

PROMPT_LENGTHS = (1, 7, 33, 90)


def make_tokenizer(path):
    """A byte-level BPE of all 256 bytes, two special tokens and a few merges."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=["<|begin|>", "<|end|>"], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.train_from_iterator(["the cat sat on the mat and the dog sat on the log"] * 4, trainer)
    tok.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(dict(
        tokenizer_class="PreTrainedTokenizerFast", bos_token="<|begin|>", eos_token="<|end|>", model_max_length=256),
        indent=1) + "\n")


def make_config(kind, changes):
    fields = dict(LLAMA)
    fields.update(changes)
    cls = {"llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig, "qwen2": transformers.Qwen2Config,
           "qwen3": transformers.Qwen3Config}[kind]
    return cls(**fields)


def fill(model, seed, scale):
    """Weights large enough for the output to wander: every matrix N(0, scale^2 / fan_in), norms about 1, biases 0.5."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            z = rng.standard_normal(p.shape)
            if "norm" in name:
                z = 1 + 0.25 * z
            elif name.endswith("bias"):
                z = 0.5 * z
            elif "embed_tokens" in name:
                z = z * 0.5
            else:
                z = z * scale / np.sqrt(p.shape[1])
            p.copy_(torch.from_numpy(z.astype(np.float32)))


def old_style(config):
    """transformers 5's config.json in the spelling of transformers 4."""
    rope = config.pop("rope_parameters", None) or {}
    config["rope_theta"] = rope.pop("rope_theta", 10000.0)
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = rope
    else:
        config["rope_scaling"] = None
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    config["transformers_version"] = "4.51.0"
    return config


def make_once(name, path, seed):
    kind, changes, dtype, how = MODELS[name]
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    config = make_config(kind, changes)
    model = transformers.AutoModelForCausalLM.from_config(config)
    fill(model, seed, how.get("scale", 3.0))
    model = model.to(getattr(torch, dtype))
    model.generation_config = transformers.GenerationConfig(bos_token_id=0, eos_token_id=1)
    model.save_pretrained(path, max_shard_size=how.get("shards", "1GB"))
    if how.get("old"):
        file = path / "config.json"
        file.write_text(json.dumps(old_style(json.loads(file.read_text())), indent=2) + "\n")
    make_tokenizer(path)

    model = golden_lib.load(path)
    assert model.config.rope_parameters == config.rope_parameters, (model.config.rope_parameters, config.rope_parameters)
    rng = np.random.default_rng(seed + 500)
    prompts = [rng.integers(2, VOCAB, n).tolist() for n in PROMPT_LENGTHS]
    golden = golden_lib.make_golden(model, prompts, NUM_GREEDY, logit_indices=(0, 63))
    golden["model"] = f"{kind}, weights {dtype}, seed {seed}, computed in float32 with eager attention"
    golden_lib.write(path / "golden.json", golden)
    return golden


def make(name, out):
    """The first seed without near ties: other implementations of the same sums must give the same tokens."""
    path = out / name
    seed = 1000 * (1 + list(MODELS).index(name))
    while True:
        golden = make_once(name, path, seed)
        if min(g for p in golden["prompts"] for g in p["gaps"]) >= 30 * golden["reference_error"]:
            break
        seed += 1
    files = {p.name: p.stat().st_size for p in sorted(path.iterdir())}
    print(f"{name}: seed {seed}, {golden_lib.summary(golden)}; {sum(files.values())} bytes, largest {max(files.values())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / "tests/data/models/hf")
    parser.add_argument("--only", help="one model's name")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in [args.only] if args.only else MODELS:
        make(name, args.out)


if __name__ == "__main__":
    main()
