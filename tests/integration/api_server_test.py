"""tools/kube/api-server: it ends its servers in every case, and keeps its objects."""
import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import time
import unittest

from api_server import ROOT, program
from free_port import free_port
from slowness import SLOWNESS

TOOL = ROOT / "tools" / "kube" / "api-server"


def children(pid):
    return [int(number) for number in
            pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class ApiServerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-api-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self):
        process = subprocess.Popen([TOOL, self.folder], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual("ready\n", process.stdout.readline())
        servers = children(process.pid)
        self.assertEqual(2, len(servers))
        return process, servers

    def end(self, process):
        process.kill()  # has no effect if it has ended
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def kubectl(self, *arguments):
        return subprocess.run(
            [program("kubectl"), "--kubeconfig", self.folder / "kubeconfig", *arguments], check=True,
            stdout=subprocess.PIPE, text=True).stdout

    def wait_until_gone(self, pids):
        end = time.monotonic() + 20 * SLOWNESS
        while any(map(is_running, pids)):
            self.assertLess(time.monotonic(), end, "a server outlived the tool")
            select.select([], [], [], 0.02)

    def test_it_ends_with_its_stdin_and_keeps_its_objects_for_the_next_start(self):
        # Else it takes one that somebody else may be given while nobody listens at it.
        (self.folder / "port").write_text(str(free_port()))
        process, servers = self.start()
        self.kubectl("create", "namespace", "kept")
        process.stdin.close()
        self.assertEqual(0, process.wait(30))
        self.wait_until_gone(servers)
        address = self.address()
        self.start()
        self.assertIn("kept", self.kubectl("get", "namespaces"))
        self.assertEqual(address, self.address())

    def address(self):
        return json.loads((self.folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]

    def test_it_ends_with_a_signal(self):
        process, servers = self.start()
        process.terminate()
        self.assertEqual(0, process.wait(30))
        self.wait_until_gone(servers)

    def test_nothing_is_left_when_it_is_killed(self):
        process, servers = self.start()
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.wait_until_gone(servers)

    def test_it_reports_that_a_server_died(self):
        process = subprocess.Popen([TOOL, self.folder], stdin=subprocess.PIPE, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.assertEqual("ready\n", process.stdout.readline())
        servers = children(process.pid)
        os.kill(servers[1], signal.SIGKILL)
        self.assertEqual(1, process.wait(30))
        self.assertIn("kube-apiserver ended with -9", process.stderr.read())
        self.wait_until_gone(servers)

    def test_missing_programs_are_named(self):
        done = subprocess.run([TOOL, self.folder], env={**os.environ, "KUBEBUILDER_ASSETS": "/none"},
                              check=False, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(1, done.returncode)
        self.assertIn("found no kube-apiserver in /none", done.stderr)


if __name__ == "__main__":
    unittest.main()
