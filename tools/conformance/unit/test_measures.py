"""The measures read code as they say."""
import tempfile
import unittest
from pathlib import Path

import where

where.scripts()

import measures


class Lexer(unittest.TestCase):
    def test_code_and_comments_are_told_apart_and_keep_their_lines(self):
        text = 'let a = "// no comment"; // one\n/* two\nlines */ let b = \'"\';\nlet c = r#"{"#;'
        code, comments = measures.lexed(text)
        self.assertEqual([code.count("\n"), comments.count("\n")], [3, 3])
        self.assertNotIn("comment", code)
        self.assertNotIn("{", code)
        self.assertEqual(comments.split(), ["//", "one", "/*", "two", "lines", "*/"])

    def test_a_block_ends_where_its_bracket_closes(self):
        code = "fn a(b: [u8; 4]) { if c { d } } fn e();"
        begin, end = measures.body_of(code, code.index("a"))
        self.assertEqual(code[begin:end], "{ if c { d } }")
        self.assertIsNone(measures.body_of(code, code.index("e()")))

    def test_inline_tests_are_no_product(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.rs"
            path.write_text("/// Adds.\nfn a() {\n    b();\n}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n")
            file = measures.File(path)
        self.assertEqual([(name, lines) for name, lines, _ in file.functions()], [("a", 3)])
        self.assertEqual(file.test_lines, 3)


class Figures(unittest.TestCase):
    def test_the_largest_circle_is_counted(self):
        calls = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
        self.assertEqual(measures.circles(list(calls), calls), 2)
        self.assertEqual(measures.circles([], {}), 0)

    def test_question_words_are_whole_words(self):
        self.assertTrue(measures.QUESTION.match("Whether it is"))
        self.assertTrue(measures.QUESTION.match("how"))
        self.assertIsNone(measures.QUESTION.match("Whatever it is"))

    def test_shares_are_taken_of_sorted_values(self):
        self.assertEqual(measures.at(list(range(101)), 0.9), 90)


if __name__ == "__main__":
    unittest.main()
