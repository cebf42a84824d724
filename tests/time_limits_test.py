"""Every test has a time limit for this machine and this build, knows how slow they are, and reaches loopback."""
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

    def test_none_inherits_a_proxy(self):
        proxies = {name: "http://127.0.0.1:1" for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTPS_PROXY")}
        done = subprocess.run(["ctest", "--test-dir", os.environ["LOCKSTEP_BUILD"], "-V", "-R", "^no_proxies$"],
                              env={**os.environ, **proxies}, stdout=subprocess.PIPE, text=True, check=False)
        self.assertIn("100% tests passed, 0 tests failed out of 1", done.stdout)


if __name__ == "__main__":
    unittest.main()
