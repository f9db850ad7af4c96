#!/usr/bin/env python3
"""Makes tests/data/models/smollm2: what transformers computes in fp32 from SmolLM2-135M-Instruct's Q4_1 GGUF.

20 prompts, 64 greedy tokens each, the 8 largest logits at every one of them, and for two prompts all logits that follow
the prompt (full_logits.f32: little-endian float32, [2, vocab_size]). The oracle is checked first: its weights equal
gguf.quants.dequantize of the file's tensors, and its tokens are the same with and without its own KV cache.

    pip install torch transformers gguf numpy
    scripts/goldens/make_smollm2_golden.py ~/.cache/ullage/models/SmolLM2-135M-Instruct-Q4_1.gguf
"""

import argparse
import hashlib
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import golden_lib

NUM_GREEDY = 64
NUM_TOP = 8
FULL_LOGITS = (1, 9)  # prompts whose whole row is kept


def chat(user, system="You are a helpful AI assistant named SmolLM, trained by Hugging Face"):
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"


LONG = " ".join(f"Item {i}: the keeper of house {i * 37 % 101} noted {i * i % 89} boats and {i * 7 % 13} gulls." for i in range(1, 26))

PROMPTS = [
    "Once",
    chat("What is the capital of France?"),
    chat("Write a haiku about the sea."),
    chat("List three uses of a brick."),
    chat("Explain in two sentences why the sky is blue."),
    chat("Translate to French: The cat sleeps on the sofa."),
    chat("What is 17 times 23? Think step by step.", system="You are a careful mathematician."),
    chat("Summarise the following notes.\n\n" + LONG),
    "Once upon a time, in a village at the foot of a mountain,",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "#include <vector>\n\nint main() {\n  std::vector<int> v;\n  for (int i = 0; i < 10; ++i) {\n",
    "The chemical symbol for gold is",
    "1, 2, 4, 8, 16, 32,",
    "Der schnelle braune Fuchs springt über den",
    "La capitale de l'Italie est",
    "日本の首都は",
    "{\"name\": \"Ada\", \"born\": 1815, \"field\": \"",
    "SELECT name, COUNT(*) FROM orders WHERE",
    "Q: Who wrote Hamlet?\nA:",
    LONG[:700],
]


def check_weights(reader, model):
    """The weights transformers loaded are gguf.quants' own dequantisation, unpermuted."""
    state = model.state_dict()
    config = model.config
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    mapped = {}
    for name in state:
        stem, _, suffix = name.rpartition(".")
        found = names.get_name(stem)
        if found:
            mapped[f"{found}.{suffix}"] = name
    seen = 0
    for tensor in reader.tensors:
        rows = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        rows = rows.reshape(tuple(int(n) for n in reversed(tensor.shape)))
        if ".attn_q." in tensor.name or ".attn_k." in tensor.name:
            heads = config.num_attention_heads if ".attn_q." in tensor.name else config.num_key_value_heads
            rows = rows.reshape(heads, rows.shape[0] // heads // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)
        assert np.array_equal(rows, state[mapped[tensor.name]].numpy()), tensor.name
        seen += 1
    left = set(state) - set(mapped.values()) - {"lm_head.weight"}
    assert not left, left
    is_tied = not any(t.name == "output.weight" for t in reader.tensors)
    assert not is_tied or torch.equal(state["lm_head.weight"], state["model.embed_tokens.weight"])
    print(f"{seen} tensors equal gguf.quants.dequantize")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / "tests/data/models/smollm2")
    args = parser.parse_args()
    torch.set_num_threads(1)
    folder, file = str(args.gguf.parent), args.gguf.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = golden_lib.load(folder, gguf_file=file)
    check_weights(gguf.GGUFReader(args.gguf), model)

    golden = dict(generated_by=f"transformers {transformers.__version__}, torch {torch.__version__}, "
                               f"gguf.quants for the weights", model="SmolLM2-135M-Instruct Q4_1, float32, eager",
                  sha256=hashlib.sha256(args.gguf.read_bytes()).hexdigest(), reference_error=0.0, prompts=[])
    full, errors = [], [0.0]
    for i, text in enumerate(PROMPTS):
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens, logits = golden_lib.greedy(model, prompt, NUM_GREEDY)
        forced = golden_lib.teacher_forced(model, prompt, tokens)
        top = logits.topk(NUM_TOP, dim=-1)
        gaps = (top.values[:, 0] - top.values[:, 1]).tolist()
        if forced.argmax(-1).tolist() != tokens:  # only where the oracle itself is within its own error of a tie
            differ = [k for k in range(NUM_GREEDY) if int(forced[k].argmax()) != tokens[k]]
            assert all(gaps[k] < 2 * float((forced - logits).abs().max()) for k in differ), (i, differ)
        errors.append(float((forced - logits).abs().max()))
        golden["prompts"].append(dict(
            text=text, prompt=prompt, greedy=tokens, gaps=[float(f"{g:.3g}") for g in gaps],
            top_ids=top.indices.tolist(), top_values=[[float(f"{v:.7g}") for v in row] for row in top.values.tolist()]))
        if i in FULL_LOGITS:
            full.append(logits[0].numpy())
        print(f"{i}: {len(prompt)} tokens, smallest gap {min(gaps):.3g}, own error {errors[-1]:.2g}: "
              f"{tokenizer.decode(tokens)[:70]!r}", flush=True)
    golden["full_logits"] = list(FULL_LOGITS)
    # fp64 twin: how far the reference is itself from the real numbers (its rotations and norms stay fp32 in part).
    model.double()
    for entry in golden["prompts"][::3]:
        exact = golden_lib.teacher_forced(model, entry["prompt"], entry["greedy"])
        ids = torch.tensor(entry["top_ids"])
        values = torch.tensor(entry["top_values"], dtype=torch.float64)
        errors.append(float((exact.gather(1, ids) - values).abs().max()))
    print(f"fp64 twin: largest difference {max(errors[len(PROMPTS) + 1:]):.3g}")
    golden["reference_error"] = float(f"{max(errors):.3g}")
    args.out.mkdir(parents=True, exist_ok=True)
    prompts = golden.pop("prompts")
    golden["prompts"] = prompts
    golden_lib.write(args.out / "golden.json", golden)
    np.stack(full).astype("<f4").tofile(args.out / "full_logits.f32")
    print(f"reference error {golden['reference_error']}, smallest gap {min(g for p in prompts for g in p['gaps'])}")


if __name__ == "__main__":
    main()
