"""Unit tests of scripts/check_includes.py: each plants one violation (or one thing that is allowed) in a tree of its own."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import check_includes  # noqa: E402


def violations(files):
    """What the check says about a tree with these files (path under ullage/ -> text)."""
    with tempfile.TemporaryDirectory() as folder:
        src = pathlib.Path(folder)
        for name, text in files.items():
            path = src / "ullage" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return [line.removeprefix(folder + "/ullage/") for line in check_includes.check(src)]


class TreeTest(unittest.TestCase):
    def assert_refused(self, name, include, *words):
        found = violations({name: f"// A file.\n#include {include}\n"})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{name}:2: "), found[0])
        for word in words:
            self.assertIn(word, found[0])

    def assert_allowed(self, name, include):
        self.assertEqual(violations({name: f"#include {include}\n"}), [])


class LayersTest(TreeTest):
    def test_lower_layers_and_the_own_folder_are_allowed(self):
        self.assert_allowed("sched/a.h", '"ullage/cache/block_pool.h"')
        self.assert_allowed("sched/a.h", '"ullage/base/ids.h"')  # what a lower layer uses itself
        self.assert_allowed("sched/a.cc", '"ullage/sched/b.h"')
        self.assert_allowed("cli/a.cc", '"ullage/cpu/cpu_executor.h"')

    def test_a_higher_layer_is_refused(self):
        self.assert_refused("cache/a.h", '"ullage/sched/step.h"', "cache/ may include", "not sched/")
        self.assert_refused("base/a.cc", '"ullage/model/dtype.h"', "nothing of ours")

    def test_two_folders_of_one_layer_do_not_see_each_other(self):
        for one, other in [("model", "hardware"), ("memory", "cost"), ("sim", "cpu"), ("text", "plan")]:
            self.assert_refused(f"{one}/a.cc", f'"ullage/{other}/b.h"')
            self.assert_refused(f"{other}/a.cc", f'"ullage/{one}/b.h"')

    def test_serve_sees_text_and_engine_but_not_the_cpu(self):
        self.assert_allowed("serve/a.cc", '"ullage/text/tokenizer.h"')
        self.assert_allowed("serve/a.cc", '"ullage/engine/engine.h"')
        self.assert_refused("serve/a.cc", '"ullage/cpu/cpu_executor.h"', "not cpu/")

    def test_what_runs_in_a_browser_sees_neither_text_nor_cpu(self):
        self.assert_refused("api/a.cc", '"ullage/text/tokenizer.h"')
        self.assert_refused("api/a.cc", '"ullage/cpu/cpu_executor.h"')

    def test_a_lower_layer_is_refused_when_the_table_does_not_name_it(self):
        self.assert_refused("text/a.cc", '"ullage/engine/engine.h"')

    def test_the_table_points_downwards(self):
        self.assertEqual(list(check_includes.check_table()), [])
        check_includes.LAYERS["base"].append("cli")
        try:
            self.assertEqual(len(list(check_includes.check_table())), 1)
        finally:
            check_includes.LAYERS["base"].remove("cli")

    def test_an_unknown_folder_and_a_relative_include_are_refused(self):
        self.assertEqual(len(violations({"misc/a.h": ""})), 1)
        self.assert_refused("sched/a.cc", '"b.h"', "spelled from src/")
        self.assert_refused("sched/a.cc", '"ullage/misc/b.h"', "no layer")


class LibrariesTest(TreeTest):
    def test_each_library_only_in_its_folder(self):
        for library, folder in [
            ("<boost/asio.hpp>", "serve"),
            ("<prometheus/counter.h>", "serve"),
            ("<spdlog/spdlog.h>", "cli"),
            ("<CLI/CLI.hpp>", "cli"),
            ("<pcre2.h>", "text"),
            ("<xxhash.h>", "base"),
        ]:
            self.assert_allowed(f"{folder}/a.cc", library)
            self.assert_refused("engine/a.cc", library, "only in", folder)

    def test_a_header_with_a_heavy_library_stays_inside_its_folder(self):
        tree = {
            "serve/connection.h": "#include <boost/asio.hpp>\n",
            "serve/session.h": '#include "ullage/serve/connection.h"\n',
            "serve/server.cc": '#include "ullage/serve/session.h"\n',
        }
        self.assertEqual(violations(tree), [])
        found = violations({**tree, "cli/main.cc": '\n#include "ullage/serve/session.h"\n'})
        self.assertEqual(len(found), 1, found)
        self.assertIn("cli/main.cc:2: ullage/serve/session.h: it includes ullage/serve/connection.h", found[0])

    def test_json_by_its_one_header(self):
        json = {"base/json.h": "#include <nlohmann/json.hpp>\n", "base/json_fwd.h": "#include <nlohmann/json_fwd.hpp>\n"}
        self.assertEqual(violations({**json, "model/a.cc": '#include "ullage/base/json.h"\n'}), [])
        self.assertEqual(violations({**json, "api/a.h": '#include "ullage/base/json_fwd.h"\n',
                                     "cli/a.cc": '#include "ullage/api/a.h"\n'}), [])  # fmt: skip
        found = violations({**json, "model/a.h": '#include "ullage/base/json.h"\n',
                            "engine/a.cc": '#include "ullage/model/a.h"\n'})  # fmt: skip
        self.assertEqual(len(found), 1, found)
        self.assert_refused("model/a.cc", "<nlohmann/json.hpp>", "only in base")

    def test_an_unknown_library_is_refused(self):
        self.assert_refused("serve/a.cc", "<httplib.h>", "unknown library")

    def test_clocks_threads_and_chance_stay_out_of_decisions(self):
        self.assert_refused("sched/a.cc", "<chrono>")
        self.assert_refused("cache/a.cc", "<thread>")
        self.assert_refused("sim/a.cc", "<random>")
        self.assert_refused("sched/a.cc", "<unistd.h>", "operating system")
        self.assert_allowed("engine/a.cc", "<thread>")

    def test_spaces_and_comments_do_not_hide_an_include(self):
        found = violations({"cache/a.cc": '#  include   "ullage/sched/step.h"  // why\n// #include <chrono>\n'})
        self.assertEqual(len(found), 1, found)


if __name__ == "__main__":
    unittest.main()
