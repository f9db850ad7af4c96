"""What the golden makers with transformers share: loading in fp32, greedy decoding, and checks of the oracle itself."""

import numpy as np
import torch
import transformers

from golden_form import write  # noqa: F401 (part of what the makers use)


def load(path, **more):
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager",
                                                              **more)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    return model.eval()


@torch.no_grad()
def greedy(model, prompt, num_tokens, use_cache=True):
    """[num_tokens] ids and [num_tokens, vocab] logits, one token at a time, never stopping at an end token."""
    ids, logits, past = list(prompt), [], None
    for _ in range(num_tokens):
        if use_cache:
            feed = ids if past is None else ids[-1:]
            out = model(torch.tensor([feed]), past_key_values=past, use_cache=True)
            past = out.past_key_values
        else:
            out = model(torch.tensor([ids]), use_cache=False)
        row = out.logits[0, -1]
        logits.append(row.clone())
        ids.append(int(row.argmax()))
    return ids[len(prompt):], torch.stack(logits)


@torch.no_grad()
def teacher_forced(model, prompt, tokens):
    """[len(tokens), vocab]: the logits that predict each of `tokens`, in one forward pass without a cache."""
    ids = list(prompt) + list(tokens[:-1])
    out = model(torch.tensor([ids]), use_cache=False)
    return out.logits[0, len(prompt) - 1:]


def make_golden(model, prompts, num_tokens, logit_indices):
    # The fp64 twin starts from the same fp32 weights. Rotations and norms inside transformers stay fp32 in part.
    golden = dict(generated_by=f"transformers {transformers.__version__}, torch {torch.__version__}", model="",
                  reference_error=0.0, prompts=[])
    for prompt in prompts:
        tokens, logits = greedy(model, prompt, num_tokens)
        # The oracle agrees with itself: no cache gives the same tokens.
        forced = teacher_forced(model, prompt, tokens)
        assert forced.argmax(-1).tolist() == tokens, "use_cache=True and False differ"
        error = float((forced - logits).abs().max())
        top = logits.topk(2, dim=-1).values
        golden["prompts"].append(dict(
            prompt=prompt, greedy=tokens, gaps=[float(f"{g:.3g}") for g in (top[:, 0] - top[:, 1]).tolist()],
            logits=[dict(index=k, values=[float(f"{v:.7g}") for v in logits[k].tolist()]) for k in logit_indices]))
        golden["reference_error"] = max(golden["reference_error"], error)
    model.double()
    for entry in golden["prompts"]:
        exact = teacher_forced(model, entry["prompt"], entry["greedy"])
        for row in entry["logits"]:
            error = float((exact[row["index"]] - torch.tensor(row["values"], dtype=torch.float64)).abs().max())
            golden["reference_error"] = max(golden["reference_error"], error)
    golden["reference_error"] = float(f"{golden['reference_error']:.3g}")
    return golden


def summary(golden):
    distinct = [len(set(p["greedy"])) for p in golden["prompts"]]
    gaps = [g for p in golden["prompts"] for g in p["gaps"]]
    spread = np.mean([np.ptp(r["values"]) for p in golden["prompts"] for r in p.get("logits", [])] or [0])
    return (f"distinct {distinct}, smallest gap {min(gaps):.3g}, logits' spread {spread:.3g}, "
            f"reference error {golden['reference_error']:.2g}")
