#!/usr/bin/env python3
"""The laws bite: each breach, planted in a small tree of its own, is found."""

import os
import tempfile
import unittest

import laws

LAYERS = laws.layers
PUBLIC = laws.outside_sees_public_headers


class Laws(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, laws, "ROOT", laws.ROOT)
        laws.ROOT = folder.name

    def breaches(self, law, **files):
        """What `law` finds in a tree of these files ("src__a__b_c" is src/a/b.c)."""
        for name, text in files.items():
            path = name.replace("__", "/").replace("_", ".")
            os.makedirs(os.path.join(laws.ROOT, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(laws.ROOT, path), "w", encoding="utf-8") as file:
                file.write(text)
        return list(law(list(laws.walk())))

    def test_codec_must_not_include_wire(self):
        self.assertTrue(self.breaches(LAYERS, src__codec__a_c='#include "wire/fields.h"\n'))

    def test_wire_must_not_include_codec(self):
        self.assertTrue(self.breaches(LAYERS, src__wire__a_c='#include "codec/codec.h"\n'))

    def test_base_must_not_include_kernels(self):
        self.assertTrue(self.breaches(LAYERS, src__base__a_c='# include "kernels/kernels.h"\n'))

    def test_codec_may_include_layout(self):
        self.assertFalse(self.breaches(LAYERS, src__codec__a_c='#include "layout/layout.h"\n'))

    def test_unknown_layer(self):
        self.assertTrue(self.breaches(LAYERS, src__misc__a_c="int a;\n"))

    def test_cli_must_not_include_src(self):
        self.assertTrue(self.breaches(PUBLIC, cli__a_c='#include "../src/base/bytes.h"\n'))
        self.assertTrue(self.breaches(PUBLIC, cli__b_c='#include "codec/codec.h"\n'))

    def test_cli_may_include_its_own(self):
        self.assertFalse(self.breaches(PUBLIC, cli__a_c='#include "say.h"\n', cli__say_h="\n"))

    def test_cli_may_include_report_but_not_the_other_way(self):
        self.assertFalse(self.breaches(PUBLIC, cli__a_c='#include "report/run.h"\n',
                                       report__run_h="\n"))
        self.assertTrue(self.breaches(PUBLIC, cli__b_c='#include "report/none.h"\n'))
        self.assertTrue(self.breaches(PUBLIC, report__b_c='#include "cli/say.h"\n', cli__say_h="\n"))

    def test_train_must_not_include_src_or_upwards(self):
        law = laws.train_layers
        self.assertFalse(self.breaches(law, train__data__a_c='#include "files/file.h"\n'))
        self.assertTrue(self.breaches(law, train__data__b_c='#include "base/bytes.h"\n'))
        self.assertTrue(self.breaches(law, train__files__a_c='#include "data/data.h"\n'))

    def test_public_header_must_not_include_inside(self):
        law = laws.public_headers_include_public_headers
        self.assertTrue(self.breaches(law, include__terse__a_h='#include "base/bytes.h"\n'))

    def test_third_party_header_in_two_places(self):
        law = laws.third_party_headers_have_one_place
        text = "#include <xxhash.h>\n"
        self.assertFalse(self.breaches(law, src__base__a_c=text))
        self.assertFalse(self.breaches(law, report__a_c=text))  # another part
        self.assertFalse(self.breaches(law, train__files__a_c=text))
        self.assertTrue(self.breaches(law, src__wire__b_c=text))

    def test_cmocka_in_the_library(self):
        law = laws.third_party_headers_have_one_place
        self.assertFalse(self.breaches(law, tests__a_c="#include <cmocka.h>\n"))
        self.assertTrue(self.breaches(law, src__base__a_c="#include <cmocka.h>\n"))

    def test_long_function(self):
        def text(lines):
            return "int f(void)\n{\n" + "    ;\n" * lines + "}\n"
        law = laws.functions_are_short
        self.assertFalse(self.breaches(law, src__base__a_c=text(laws.MAX_FUNCTION)))
        self.assertTrue(self.breaches(law, src__base__b_c=text(laws.MAX_FUNCTION + 1)))

    def test_large_struct(self):
        def text(fields):
            return "struct tsi_x {\n" + "    int a;\n" * fields + "};\n"
        law = laws.structs_are_small
        self.assertFalse(self.breaches(law, src__base__a_h=text(laws.MAX_FIELDS)))
        self.assertTrue(self.breaches(law, src__base__b_h=text(laws.MAX_FIELDS + 1)))

    def test_long_file(self):
        self.assertFalse(self.breaches(laws.files_are_short, cli__a_c="\n" * laws.MAX_FILE))
        self.assertTrue(self.breaches(laws.files_are_short, cli__b_c="\n" * (laws.MAX_FILE + 1)))

    def test_long_line(self):
        self.assertTrue(self.breaches(laws.lines_are_short, cli__a_c="x" * 101 + "\n"))

    def test_line_comment(self):
        law = laws.comments_are_blocks
        fine = 'char *a = "http://x"; /* a // b */\n'
        self.assertFalse(self.breaches(law, cli__a_c=fine))
        self.assertTrue(self.breaches(law, cli__b_c="int b; // b\n"))

    def test_unfinished(self):
        self.assertTrue(self.breaches(laws.nothing_is_unfinished, cli__a_c="/* TO" + "DO */\n"))

    def test_machine_path(self):
        self.assertTrue(self.breaches(laws.no_machine_paths, docs__a_md="in /ho" + "me/someone\n"))

    def test_version_that_is_typed_again(self):
        law, lists = laws.version_is_written_once, "project(terse VERSION 3.1" + ".4 LANGUAGES C)\n"
        self.assertTrue(self.breaches(law, cli__a_c="\n"))  # no version at all
        self.assertEqual([], self.breaches(
            law, CMakeLists_txt=lists, cli__a_c="/* 127.0.0.1, Open MPI v4.1.4, 13.1.4, 0.3 */\n"))
        for text in ("a 3.1" + ".4 b", '"1.0' + '.0"', "libterse-mpi.so" + ".0",
                     "find_package(terse " + "3 REQUIRED)", "needs libterse " + "2.0",
                     "version = " + '"0"'):
            self.assertEqual(1, len(self.breaches(law, docs__a_md=text + "\n")), text)
        self.assertEqual(1, len(self.breaches(law, docs__a_md="\n", CMakeLists_txt=lists * 2)))

    def test_text_of_a_spec(self):
        law = laws.specs_are_asked
        fine = ('if (strcmp(a->spec, b->spec) == 0 && strcmp(chosen.codec, "f32") != 0)\n'
                '    /* strstr(spec, "x") */ puts("strstr(spec, x)"), strcpy(out, spec);\n'
                'if (argc > 1 && strcmp(argv[1], "methods") == 0)\n')
        self.assertEqual([], self.breaches(law, cli__a_c=fine))
        for text in ('if (strncmp(spec, "dense", 5) == 0)', 'strcmp(row->job.spec, "regtopk")',
                     'n = strcspn(settings->method, ":=");', 'strstr(complete,\n ":combine=")',
                     "if (spec[len] == '=')", 'for (at = strpbrk(spec, ":="); at;)'):
            self.assertEqual(1, len(self.breaches(law, cli__a_c=text + "\n")), text)
        self.assertEqual([], self.breaches(law, cli__a_c="\n", src__method__a_c=text + "\n"))
        fine = 'describe(spec).votes\nx = spec.encode()\nfor spec in specs:\n    pass\n'
        self.assertEqual([], self.breaches(law, python__a_py=fine))
        for text in ('votes = "combine=vote" in self.spec', 'if spec.startswith("sign"):',
                     'name = re.match(r"[a-z]*", spec)', 'rest = spec[len(name):]',
                     're.search("codec=(.*)", method.settings)'):
            self.assertEqual(1, len(self.breaches(law, python__a_py=text + "\n")), text)

    def test_source_that_is_not_listed(self):
        law = laws.sources_are_listed
        self.assertTrue(self.breaches(
            law, src__CMakeLists_txt="set(sources base/a.c)\n", cli__CMakeLists_txt="\n",
            src__base__b_c="\n"))
        self.assertFalse(self.breaches(law, src__CMakeLists_txt="set(sources base/b.c)\n"))

    def test_architecture(self):
        law = laws.architecture_tells_the_truth
        good = "`src/base/` and src/ and `src/base/a.c`, and/or others; https://x.org/a/\n"
        self.assertEqual([], self.breaches(law, ARCHITECTURE_md=good, src__base__a_c="\n"))
        self.assertTrue(self.breaches(law, ARCHITECTURE_md=good + "`src/gone/`\n"))
        self.assertTrue(self.breaches(law, ARCHITECTURE_md=good, src__wire__a_c="\n"))

    def test_architecture_and_layers(self):
        law = laws.architecture_knows_the_layers
        rows = ["| `src/%s/` | x | %s |\n" % (folder, ", ".join(sorted(allowed)) or "-")
                for folder, allowed in laws.MAY_INCLUDE.items()]
        self.assertEqual([], self.breaches(law, ARCHITECTURE_md="".join(rows)))
        self.assertEqual(1, len(self.breaches(law, ARCHITECTURE_md="".join(rows[:-1]))))
        wrong = "".join(rows).replace("| base, method |", "| base |")
        self.assertEqual(1, len(self.breaches(law, ARCHITECTURE_md=wrong)))


if __name__ == "__main__":
    unittest.main()
