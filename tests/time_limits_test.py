"""Every test has a time limit for this machine, and knows how slow the machine is."""
import json
import os
import subprocess
import unittest


class TimeLimitsTest(unittest.TestCase):
    def test_each_test_has_one_and_is_given_the_machines_percentage(self):
        said = subprocess.run(["ctest", "--test-dir", os.environ["LOCKSTEP_BUILD"], "--show-only=json-v1"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        tests = json.loads(said)["tests"]
        self.assertGreater(len(tests), 100)
        for test in tests:
            properties = {one["name"]: one["value"] for one in test["properties"]}
            with self.subTest(test["name"]):
                self.assertIn("TIMEOUT", properties)
                self.assertTrue(any(one.startswith("LOCKSTEP_TIME_PERCENT=")
                                    for one in properties.get("ENVIRONMENT", [])))


if __name__ == "__main__":
    unittest.main()
