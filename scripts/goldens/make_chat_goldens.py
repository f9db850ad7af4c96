"""Makes tests/data/chat/goldens.jsonl: what Jinja makes of each template in tests/data/chat for a set of conversations.

    python scripts/goldens/make_chat_goldens.py

Needs jinja2, tokenizers and transformers from PyPI. The templates are set up as transformers sets them up, but that no
clock is at hand (strftime_now is not defined), so that Llama 3.2's takes the date it names itself. For some templates
there are ids too, by transformers' apply_chat_template on the small tokenizers of tests/data/tokenizers.
"""

import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/data/chat"
FAMILY_TOKENS = {"llama-3": ("<|begin_of_text|>", "<|eot_id|>"), "gemma": ("<bos>", "<eos>")}
TOKENIZERS = {"qwen2.5-instruct": "qwen2-small", "qwen3": "qwen2-small", "llama-3.1-instruct": "llama3-small",
              "llama-3-instruct": "llama3-small", "llama-2-chat": "llama2-small", "mistral-7b-instruct-v0.1": "mistral-small",
              "mistral-7b-instruct-v0.2": "llama2-small"}


def turns(*texts, system=None):
    messages = [] if system is None else [dict(role="system", content=system)]
    return messages + [dict(role="user" if i % 2 == 0 else "assistant", content=t) for i, t in enumerate(texts)]


CONVERSATIONS = [
    turns("Hi"),
    turns("Hello, how are you?", "I'm doing great.\nHow can I help you today?", "Show me!"),
    turns("What is 2 + 2?", system="You are terse."),
    turns("One", "1", "Two", "2", "Three", system="Count.\n\nSlowly."),
    turns("One", "1"),
    turns("One", "1", system="Count."),
    turns("  spaces around \n", " and here\t", "\n\nagain  ", system="  padded system \n"),
    turns("\u3000wide space\u00a0", "\u2003em\u2003", "\x1cseparators\x1f", system="\u2028line"),
    turns("", "", ""),
    turns("", system=""),
    turns("   ", system="blank question"),
    turns("caf\u00e9 \u4f60\u597d \U0001F600", "\u0645\u0631\u062d\u0628\u0627", "{{ braces }} {% and %} 'quotes' \"too\""),
    turns("Think", "<think>\nfirst this\n</think>\n\nThe answer", "More", "<think>again</think>\n\n\nDone", "Thanks"),
    turns("Think", "<think>\nfirst this\n</think>\n\nThe answer"),
    turns("Think", "no thoughts", "x", "a</think>b</think>c"),
    turns("<tool_response>\n1\n</tool_response>", "<think>q</think>r"),
    turns("u", "<think>kept?</think>\n\nr", "<tool_response>x</tool_response>", "\n\nlast", system="s"),
    turns("[INST] inside [/INST] <<SYS>>"),
    # What does not fit everywhere.
    [dict(role="assistant", content="I begin.")],
    [dict(role="user", content="a"), dict(role="user", content="b")],
    [dict(role="system", content="only system")],
    [dict(role="user", content="a"), dict(role="system", content="late"), dict(role="user", content="b")],
    [dict(role="system", content="s1"), dict(role="system", content="s2"), dict(role="user", content="u")],
]


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.globals["raise_exception"] = raise_exception
    return env


def fnv(values):
    h = 0xCBF29CE484222325
    for v in values:
        h = ((h ^ v) * 0x100000001B3) & ((1 << 64) - 1)
    return h


def main():
    env = environment()
    lines = []
    for path in sorted(OUT.glob("*.jinja")):
        text = path.read_text()
        template = env.from_string(text)
        bos, eos = next((t for name, t in FAMILY_TOKENS.items() if path.stem.startswith(name)), ("<s>", "</s>"))
        tokenizer = None
        if path.stem in TOKENIZERS:
            file = ROOT / f"tests/data/tokenizers/{TOKENIZERS[path.stem]}.json"
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), bos_token=bos, eos_token=eos, chat_template=text)
        for messages in CONVERSATIONS:
            for prompt in (False, True):
                line = dict(template=path.stem, messages=messages, add_generation_prompt=prompt)
                try:
                    line["text"] = template.render(messages=messages, add_generation_prompt=prompt, bos_token=bos, eos_token=eos)
                except jinja2.exceptions.TemplateError as e:
                    line["error"] = str(e)
                if tokenizer and "text" in line and not any("<think>" in m["content"] for m in messages):
                    ids = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=prompt, return_dict=False)
                    line["tokenizer"] = TOKENIZERS[path.stem]
                    line["ids"] = f"{fnv(ids):016x}"
                lines.append(json.dumps(line, separators=(",", ":")))
    (OUT / "goldens.jsonl").write_text("\n".join(lines) + "\n")
    print(len(lines), "renderings")


if __name__ == "__main__":
    main()
