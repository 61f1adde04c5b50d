"""What scripts of tools/conformance share, as far as it needs no cluster: encodings, hashes, samples of metrics, forms of answers."""
import unittest

import where

where.scripts()

import calls
import prometheus
import rawosd
import sweep


class Encodings(unittest.TestCase):
    def test_numbers_are_little_endian_and_cut(self):
        self.assertEqual(calls.u16(0x1_2345), b"\x45\x23")
        self.assertEqual(calls.u64(-1), b"\xff" * 8)

    def test_texts_lists_and_envelopes_begin_with_their_lengths(self):
        self.assertEqual(calls.text("é"), b"\x02\0\0\0\xc3\xa9")
        self.assertEqual(calls.text(b"a"), b"\x01\0\0\0a")
        self.assertEqual(calls.items([b"x", b"yz"]), b"\x02\0\0\0xyz")
        self.assertEqual(calls.env(2, 1, b"abc"), b"\x02\x01\x03\0\0\0abc")
        self.assertEqual(rawosd.envelope(2, 1, b"abc"), calls.env(2, 1, b"abc"))


class Hashes(unittest.TestCase):
    def test_checksums_are_those_of_crc_32c(self):
        # RFC 3720, appendix B.4, without the last inversion.
        self.assertEqual(rawosd.crc32c(b"\0" * 32) ^ 0xFFFFFFFF, 0x8A9136AA)
        self.assertEqual(rawosd.crc32c(b"123456789") ^ 0xFFFFFFFF, 0xE3069283)
        self.assertEqual(rawosd.crc32c(b"6789", rawosd.crc32c(b"12345")), rawosd.crc32c(b"123456789"))

    def test_names_are_spread_as_ceph_spreads_them(self):
        # `ceph osd map` of a real cluster prints this for the object "foo".
        self.assertEqual(rawosd.rjenkins(b"foo"), 0x7FC1F406)


class Samples(unittest.TestCase):
    TEXT = '# HELP a text\na 1\nb{osd="0",path="x\\\\y\\"z\\n"} 2.5\nb{osd="1"} 3e2\n'

    def test_labels_are_read_with_what_is_escaped(self):
        found = prometheus.samples(self.TEXT)
        self.assertEqual(found["a"], [({}, 1.0)])
        self.assertEqual(found["b"][0], ({"osd": "0", "path": 'x\\y"z\n'}, 2.5))

    def test_a_value_is_that_of_exactly_one_sample(self):
        found = prometheus.samples(self.TEXT)
        self.assertEqual(prometheus.value(found, "b", osd="1"), 300.0)
        for labels in ({}, {"osd": "7"}):
            with self.assertRaises(AssertionError):
                prometheus.value(found, "b", **labels)

    def test_a_line_that_is_no_sample_is_told(self):
        with self.assertRaisesRegex(AssertionError, "no sample: a b c"):
            prometheus.samples("a b c")


class Forms(unittest.TestCase):
    def test_a_form_has_keys_and_kinds_and_no_values(self):
        form = sweep.form({"a": 1, "b": [True, True], "c": None, "d": [], "e": [{"f": "x"}, {"g": 2}]})
        self.assertEqual(form["a"], "number")
        self.assertEqual([form["b"], form["c"], form["d"]], [["bool"], "null", ["empty"]])
        self.assertEqual(form["e"], [{"f": "string", "g": "number"}])

    def test_differences_are_told_with_their_paths(self):
        theirs, ours = sweep.form({"a": {"b": 1, "c": "x"}}), sweep.form({"a": {"b": "1", "d": 2}})
        told = sorted(sweep.diff(theirs, ours))
        self.assertEqual(told, [".a.b: number there, string here", ".a.c: missing here", ".a.d: only here"])
        self.assertEqual(list(sweep.diff(theirs, theirs)), [])

    def test_an_empty_list_differs_from_no_list_of_others(self):
        self.assertEqual(list(sweep.diff(sweep.form([]), sweep.form([1]))), [])

    def test_what_is_different_each_time_is_masked(self):
        text = "osd.12 1.5 12345678-1234-1234-1234-123456789012 key=AQABCDEFGHIJKLMNOP=="
        self.assertEqual(sweep.mask(text), "osd.N N UUID KEY")


if __name__ == "__main__":
    unittest.main()
