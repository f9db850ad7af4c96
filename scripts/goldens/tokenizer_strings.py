"""The strings of the tokenizer goldens: 10,000 byte strings of many kinds, the same at every run."""

import random
import unicodedata

SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<|begin_of_text|>", "<|eot_id|>",
            "<|start_header_id|>", "<|end_header_id|>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<s>", "</s>",
            "<unk>", "<0x0A>", "[INST]", "[/INST]", "<|im_end", "|im_end|>", "<|im_start|><|im_end|>", "<word>", "<left>",
            "<right>", "<norm>", "<both>", "<\u2460>", "<1>"]

# First and last code point; only assigned ones are drawn.
SCRIPTS = [(0x41, 0x7A), (0xC0, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F), (0x5D0, 0x5EA),
           (0x620, 0x6FF), (0x700, 0x74F), (0x780, 0x7B1), (0x904, 0x97F), (0x985, 0x9FE), (0xA05, 0xA74), (0xB85, 0xBF2),
           (0xC05, 0xC7F), (0xD05, 0xD7F), (0xE01, 0xE5B), (0xE81, 0xEDF), (0xF00, 0xFD4), (0x1000, 0x109F),
           (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137C), (0x13A0, 0x13FD), (0x1401, 0x167F), (0x1780, 0x17F9),
           (0x1820, 0x18AA), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFE), (0x2C00, 0x2C5F), (0x3041, 0x30FF),
           (0x3105, 0x312F), (0x3131, 0x318E), (0x4E00, 0x9FFF), (0xA000, 0xA48C), (0xAC00, 0xD7A3), (0xF900, 0xFAD9),
           (0xFB00, 0xFB4F), (0xFF01, 0xFFEE), (0x10330, 0x1034A), (0x10400, 0x1044F), (0x12000, 0x12399),
           (0x13000, 0x1342E), (0x1D400, 0x1D7FF), (0x20000, 0x2A6DF), (0x1E900, 0x1E95F)]
SPACES = [" ", " ", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\xa0", "\u1680", "\u180e",
          "\u2000", "\u2003", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000",
          "\ufeff"]
EMOJI = ["\U0001F600", "\U0001F680", "\u2764\ufe0f", "\U0001F44D\U0001F3FD", "\U0001F468\u200D\U0001F469\u200D\U0001F467",
         "\U0001F3F3\ufe0f\u200D\U0001F308", "\U0001F1E9\U0001F1EA", "1\ufe0f\u20e3", "\U0001F9D1\U0001F3FF\u200D\U0001F4BB",
         "\u2603", "\U0001FAE0", "\u00a9\ufe0f", "\U0001F3F4\U000E0067\U000E0062\U000E007F"]
DIGITS = ["0", "7", "42", "100", "1234567890", "3.14159", "1e-9", "0x1F", "1,000,000", "\u00b2", "\u00bd", "\u2167", "\u2460",
          "\u0663\u0664", "\u0967\u0968\u0969", "\u4e09", "\u3007", "\U0001D7DA", "\U00010107", "12:30", "2024-07-26", "v1.2.3"]
ENGLISH = """the of and to a in is it you that he was for on are with as I his they be at one have this from or had by hot word but
what some we can out other were all there when up use your how said an each she which do their time if will way about many then
them write would like so these her long make thing see him two has look more day could go come did number sound no most people
over know water than call first who may down side been now find any new work part take get place made live where after back
little only round man year came show every good me give our under name very through just form sentence great think say help low
line differ turn cause much mean before move right boy old too same tell does set three want air well also play small end put
home read hand port large spell add even land here must big high such follow act why ask men change went light kind off need house
picture try us again animal point mother world near build self earth father head stand own page should country found answer
school grow study still learn plant cover food sun four between state keep eye never last let thought city tree cross farm hard
start might story saw far sea draw left late run while press close night real life few north""".split()
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'Ve", "'RE", "\u2019s", "'\u017f", "'x", "''s", "'"]
PUNCTUATION = list(".,;:!?-()[]{}<>\"'/\\|@#$%^&*_+=~`") + ["...", "--", "=>", "//", "/*", "*/", "\u2026", "\u2014", "\u00ab",
                                                            "\u00bb", "\u3002", "\uff0c", "\u201c", "\u201d", "\u2581", "\u00a1"]
CODE = ["def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n", "#include <vector>\n",
        "std::unique_ptr<Foo> foo_bar_;", "if (!ok) return -1;  // why?\n", "SELECT * FROM t WHERE id = 1;", "{\"key\": [1, 2, null]}",
        "<div class=\"a\">&nbsp;</div>\n", "git commit -m 'x'\n", "x = lambda *a, **k: None\n", "\\frac{1}{2}", "\"\\u00e9\\n\"",
        "$ ls -la | grep foo > /dev/null 2>&1\n", "CamelCaseName", "snake_case_name", "SCREAMING_CASE", "a->b.c[0x1F]", "\t\t\t}\n",
        "        pass\n\n\n", "import os, sys\n", "fn main() -> Result<(), E> {}\n", "https://example.org/a?b=c&d=%20#e"]
BAD_BYTES = [b"\x80", b"\xbf\xbf", b"\xc0\xaf", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
             b"\xf8\x88\x80\x80\x80", b"\xff", b"\xfe\xff", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xe2\x28\xa1", b"\xc3\x28",
             b"\xf0\x9f\x98\x41", b"\xe2\x82\xe2\x82\xac", b"\x00", b"\xef\xbf\xbd"]
# Singletons, exclusions, Hangul, marks of several classes: what composition must get right.
COMPOSABLE = ["\u212b", "\u2126", "\u212a", "\u0340", "\u0958", "\u0929", "\u2adc", "\ufb1f", "\u1100\u1161\u11a8",
              "\uac00\u11a8", "\u1112\u1173", "e\u0301", "\u0065\u0323\u0302", "\u1ec7", "a\u0328\u0301", "\u01d8", "q\u0307\u0323",
              "q\u0323\u0307", "\u0f71\u0f72", "\u0f73", "\u09c7\u09be", "\u30cf\u3099", "\u30cf\u309a", "s\u0323\u0307", "\u1e69",
              "\u0627\u0653", "\u05e9\u05c1\u05bc", "\ufb2c", "\uf900", "\U0001D15E", "\U000110AB", "\u2f868"]


def assigned(first, last):
    return [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.scripts = [assigned(*s) for s in SCRIPTS]
        # Marks that Hugging Face's normal forms know: their tables are of an older Unicode.
        self.marks = [c for c in assigned(0x300, 0x36F) + assigned(0x5B0, 0x5BD) + assigned(0x64B, 0x655) + assigned(0x1AB0, 0x1ABE)
                      + assigned(0x1DC0, 0x1DF5) + ["\u093c", "\u094d", "\u0e48", "\u3099", "\u200d", "\ufe0f"]]
        self.any = assigned(0, 0x2FFF) + assigned(0xA000, 0xABFF) + assigned(0xF900, 0xFFFF) + assigned(0x10000, 0x1FBFF)
        self.ways = [self.script, self.script, self.english, self.english, self.emoji, self.code, self.space, self.digits,
                     self.bad, self.composed, self.special, self.run, self.random_chars, self.mixed, self.mixed]

    def script(self):
        chars = self.r.choice(self.scripts)
        words = ["".join(self.r.choices(chars, k=self.r.randint(1, 7))) for _ in range(self.r.randint(1, 6))]
        return self.r.choice([" ", " ", " ", "", "\u3000", ", "]).join(words).encode()

    def english(self):
        out = ""
        for _ in range(self.r.randint(1, 14)):
            word = self.r.choice(ENGLISH)
            word = self.r.choice([word, word, word, word.capitalize(), word.upper()])
            if self.r.random() < 0.15:
                word += self.r.choice(CONTRACTIONS)
            if self.r.random() < 0.2:
                word += self.r.choice(PUNCTUATION)
            out += word + self.r.choice([" "] * 12 + ["  ", "\n", "", " " * self.r.randint(1, 9), "\n\n"])
        return out.encode()

    def emoji(self):
        return "".join(self.r.choice([self.r.choice(EMOJI), self.r.choice(EMOJI), " ", self.r.choice(ENGLISH)])
                       for _ in range(self.r.randint(1, 8))).encode()

    def code(self):
        indent = self.r.choice(["", "", "    ", "\t", "  "])
        return "".join(indent + self.r.choice(CODE) for _ in range(self.r.randint(1, 4))).encode()

    def space(self):
        return "".join(self.r.choice(SPACES + [self.r.choice(ENGLISH), self.r.choice(PUNCTUATION), "1"])
                       for _ in range(self.r.randint(1, 12))).encode()

    def digits(self):
        return "".join(self.r.choice(DIGITS + [" ", " ", "-", self.r.choice(ENGLISH), self.r.choice(SPACES)])
                       for _ in range(self.r.randint(1, 8))).encode()

    def bad(self):
        out = b""
        for _ in range(self.r.randint(1, 6)):
            out += self.r.choice([self.r.choice(BAD_BYTES), self.r.randbytes(self.r.randint(1, 6)),
                                  self.r.choice(ENGLISH).encode() + b" ", self.r.choice(EMOJI).encode()[:-1]])
        return out

    def composed(self):
        out = ""
        for _ in range(self.r.randint(1, 6)):
            out += self.r.choice([self.r.choice(COMPOSABLE), self.r.choice("aeiouAEnocyz \u0438\u0905") +
                                  "".join(self.r.choices(self.marks, k=self.r.randint(0, 4))), self.r.choice(ENGLISH),
                                  unicodedata.normalize("NFD", self.r.choice(self.scripts[1] + self.scripts[36]))])
        return out.encode()

    def special(self):
        out = b""
        for _ in range(self.r.randint(1, 6)):
            out += self.r.choice([self.r.choice(SPECIALS).encode(), self.r.choice(SPECIALS).encode(), self.r.choice(ENGLISH).encode(),
                                  self.r.choice(SPACES).encode(), b"user\n", b"", b" "])
        return out

    def run(self):
        unit = self.r.choice(["a", " ", "\n", "!", "1", "\u00e9", "ab", "\u4e00", "\t", "=", "\u0301", " a", "\r\n", "\u2581", "-", "e\u0301",
                              "\U0001F600", "\u0316\u0301", "_", "'", "<", "<s>", "\x00"])
        tail = self.r.choice(["", "x", " ", "\n", "1", ".", " x"])
        return unit.encode() * self.r.randint(2, 40) + tail.encode()

    def random_chars(self):
        return "".join(self.r.choices(self.any, k=self.r.randint(1, 12))).encode()

    def mixed(self):
        ways = self.ways[:-2]
        return b"".join(self.r.choice(ways)()[:40] for _ in range(self.r.randint(2, 4)))

    def next(self):
        return self.r.choice(self.ways)()


def make_strings(count=10000, seed=20240726):
    """[count] of (bytes, times): the string is the bytes repeated."""
    maker = Maker(seed)
    strings = [(b"", 1)]
    strings += [(s.encode(), 1) for s in SPECIALS + SPACES + EMOJI + DIGITS + CONTRACTIONS + PUNCTUATION + CODE + COMPOSABLE]
    strings += [(b, 1) for b in BAD_BYTES]
    # Very long runs: one word of 100,000 letters must not take quadratic time.
    for unit in ["a", " ", "\n", "!", "7", "\u00e9", "ab", "\u4e00\u4e01", "=", "\u0301", "a\u0301", "\u0316\u0301", "word ",
                 "\r\n", "\u2581", "\U0001F600", "aB", "'s"]:
        strings.append((unit.encode(), 20000))
    seen = {s * n for s, n in strings}
    while len(strings) < count:
        s = maker.next()
        if s not in seen:
            seen.add(s)
            strings.append((s, 1))
    return strings[:count]


if __name__ == "__main__":
    made = make_strings()
    print(len(made), sum(len(s) for s, _ in made))
