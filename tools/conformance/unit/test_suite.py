"""The suite begins what has room, and nothing that another target is to come before."""
import tempfile
import types
import unittest
from pathlib import Path

import where

where.scripts()

import suite


def target(name, load=1.0, after=(), alone=False):
    return types.SimpleNamespace(name=name, load=load, after=after, alone=alone)


class Order(unittest.TestCase):
    def runner(self, *running):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        runner = suite.Suite(Path(folder.name), 2, 4)
        runner.running = [types.SimpleNamespace(target=of) for of in running]
        return runner

    def test_the_first_that_has_room_begins(self):
        large, small = target("large", 1.5), target("small", 0.5)
        self.assertIs(self.runner().next([large, small]), large)
        self.assertIs(self.runner(target("other", 1.0)).next([large, small]), small)

    def test_what_comes_after_another_waits_while_that_waits_or_runs(self):
        build, test = target("build"), target("test", 0.1, after=("build",))
        self.assertIs(self.runner().next([test, build]), build)
        self.assertIsNone(self.runner(build).next([test]))
        self.assertIs(self.runner().next([test]), test)

    def test_nothing_runs_beside_what_must_be_alone(self):
        alone = target("alone", 0.1, alone=True)
        self.assertIsNone(self.runner(target("other", 0.1)).next([alone]))
        self.assertIsNone(self.runner(alone).next([target("other", 0.1)]))
        self.assertIs(self.runner().next([alone]), alone)


if __name__ == "__main__":
    unittest.main()
