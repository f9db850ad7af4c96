"""The form of the goldens in tests/data/models.

golden.json: {
  "generated_by": versions, "model": text,
  "reference_error": largest |fp32 - fp64| over the listed logits: what fp32 costs the reference's own sums,
  "prompts": [{
     "prompt": token ids, "greedy": token ids,
     "gaps": the largest logit minus the second at each greedy token (a small one is a near tie),
     "logits": [{"index": k, "values": [vocab_size]}]: the logits that gave greedy[k] }] }
"""

import json


def write(path, golden):
    """One line a list, so that a diff shows what moved."""
    def row(value):
        return json.dumps(value, separators=(",", ":"))

    lines = ["{"]
    head = {k: v for k, v in golden.items() if k != "prompts"}
    lines += [f' {json.dumps(k)}: {row(v)},' for k, v in head.items()]
    lines.append(' "prompts": [')
    for i, p in enumerate(golden["prompts"]):
        items = [f'   {json.dumps(k)}: {row(v)}' for k, v in p.items() if k != "logits"]
        if "logits" in p:
            items.append('   "logits": [\n' + ",\n".join(f"    {row(r)}" for r in p["logits"]) + "\n   ]")
        lines.append("  {\n" + ",\n".join(items) + ("\n  }," if i + 1 < len(golden["prompts"]) else "\n  }"))
    lines += [" ]", "}"]
    path.write_text("\n".join(lines) + "\n")
