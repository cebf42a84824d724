"""Every test has a time limit for this machine and this build, and knows how slow they are."""
import json
import os
import subprocess
import unittest

LEAST_PERCENT = {"": 100, "address": 300, "thread": 1000}[os.environ["LOCKSTEP_SANITIZER"]]


class TimeLimitsTest(unittest.TestCase):
    def test_each_test_has_one_and_is_given_the_percentage(self):
        said = subprocess.run(["ctest", "--test-dir", os.environ["LOCKSTEP_BUILD"], "--show-only=json-v1"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        tests = json.loads(said)["tests"]
        self.assertGreater(len(tests), 100)
        for test in tests:
            properties = {one["name"]: one["value"] for one in test["properties"]}
            with self.subTest(test["name"]):
                self.assertIn("TIMEOUT", properties)
                settings = dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
                self.assertGreaterEqual(int(settings.get("LOCKSTEP_TIME_PERCENT", 0)), LEAST_PERCENT)


if __name__ == "__main__":
    unittest.main()
