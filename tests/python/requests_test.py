"""What the client makes of an API server that is busy, away, or something else: on HTTP answers as written here."""
import http.server
import json
import threading
import time
import unittest
import unittest.mock

import kubernetes.client

import lockstep
from slowness import SLOWNESS

from lockstep import Client, TrainingJob

JOB = {"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob",
       "metadata": {"name": "j", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1}}
DONE = {**JOB, "metadata": {**JOB["metadata"], "resourceVersion": "9"},
        "status": {"conditions": [{"type": "Succeeded", "status": "True", "reason": "R", "message": "M"}]}}
LATE, LOST = "no answer until the server stops", "the end of the connection"
LIST = {"metadata": {"resourceVersion": "5"}, "items": [JOB]}


def worker(index):
    labels = {f"training.lockstep.dev/{key}": value
              for key, value in (("role", "worker"), ("replica-index", str(index)), ("job-uid", "u"))}
    return {"metadata": {"name": f"j-worker-{index}", "uid": f"u{index}", "labels": labels,
                         "ownerReferences": [{"kind": "TrainingJob", "uid": "u", "controller": True}]},
            "spec": {"containers": [{"name": "main"}]},
            "status": {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}}


def status(code, message):
    return {"kind": "Status", "code": code, "reason": "R", "message": message}


class ScriptedServer:
    """Gives its answers one after the other: (status, body, headers), or a list of lines of a watch, which ends with
    a proper end, or as a lost connection after None; or LATE or LOST."""

    def __init__(self, *answers):
        self.stopped = threading.Event()
        self.asked = []  # (method, path, headers, body)
        remaining = list(answers)
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.asked.append((self.command, self.path, dict(self.headers), body))
                answer = remaining.pop(0) if remaining else (500, status(500, "the script has ended"), {})
                if answer in (LATE, LOST):
                    self.close_connection = True
                    if answer == LATE:
                        server.stopped.wait(20)
                    return
                self.send_response(answer[0] if isinstance(answer, tuple) else 200)
                if isinstance(answer, tuple):
                    data = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
                    for name, value in {"Content-Length": len(data), **answer[2]}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)
                    return
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for line in answer:
                    if line is None:
                        self.close_connection = True
                        return
                    data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PATCH = do_DELETE = answer

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def stop(self):
        self.stopped.set()
        self._http.shutdown()
        self._http.server_close()

    def paths(self):
        """Of each request, what identifies it."""
        return [("watch " + path.split("resourceVersion=")[1].split("&")[0]) if "watch=true" in path else
                ("list" if "fieldSelector" in path else method) for method, path, _, _ in self.asked]


class RequestsTest(unittest.TestCase):
    def client(self, *answers):
        self.server = ScriptedServer(*answers)
        self.addCleanup(self.server.stop)
        configuration = kubernetes.client.Configuration(host=self.server.url)
        configuration.api_key = {"authorization": "Bearer secret"}
        return Client(api_client=kubernetes.client.ApiClient(configuration))

    def test_a_watch_goes_on_after_a_lost_connection_a_cut_line_and_a_forgotten_version(self):
        seen = {"type": "MODIFIED", "object": {**JOB, "metadata": {**JOB["metadata"], "resourceVersion": "6"}}}
        client = self.client(
            (200, JOB, {}), (200, LIST, {}),
            [seen, None],
            [b'{"type": "MODIFIED", "obj', None],
            [b'{"type": "MODIFIED", "obj'],
            (410, status(410, "gone"), {}), (200, LIST, {}),
            [{"type": "ERROR", "object": status(410, "too old resource version")}], (200, LIST, {}),
            (503, status(503, "away"), {}),
            [{"type": "MODIFIED", "object": DONE}])
        with unittest.mock.patch("lockstep._watch.FIRST_PAUSE", 0.01):
            self.assertTrue(client.wait("j", timeout=20 * SLOWNESS).status.succeeded)
        self.assertEqual("GET, list, watch 5, watch 6, watch 6, watch 6, list, watch 5, list, watch 5, watch 5",
                         ", ".join(self.server.paths()))

    def test_a_watch_that_is_forbidden_ends_the_wait(self):
        client = self.client((200, JOB, {}), (200, LIST, {}), (403, status(403, "cannot watch"), {}))
        with self.assertRaisesRegex(lockstep.ApiError, "cannot watch"):
            client.wait("j", timeout=20 * SLOWNESS)

    def test_a_watch_without_a_word_ends_at_the_time_limit(self):
        class Silent(list):
            def __iter__(self):
                time.sleep(20)
                return iter(())

        client = self.client((200, JOB, {}), (200, LIST, {}), Silent())
        began = time.monotonic()
        with self.assertRaises(lockstep.WaitTimeout):
            client.wait("j", timeout=2)
        self.assertLess(time.monotonic() - began, 10)

    def test_a_server_that_does_not_answer_ends_a_wait_at_the_time_limit(self):
        done = (200, DONE, {})
        for answers, expected in (([(200, JOB, {}), LATE], lockstep.WaitTimeout),
                                  ([(200, JOB, {}), (200, LIST, {}), LATE], lockstep.WaitTimeout),
                                  ([(200, JOB, {}), (429, status(429, "busy"), {"Retry-After": "20"}), done],
                                   lockstep.WaitTimeout),
                                  ([LATE], lockstep.ApiError)):
            with self.subTest(answers=len(answers)):
                client = self.client(*answers)
                began = time.monotonic()
                with self.assertRaises(expected):
                    client.wait("j", timeout=2)
                self.assertLess(time.monotonic() - began, 15)

    def test_a_log_that_cannot_be_read_does_not_hide_the_others(self):
        job = {**JOB, "spec": {"replicaSpecs": {"Worker": {"replicas": 5}}}}
        pods = {"metadata": {"resourceVersion": "5"}, "items": [worker(index) for index in range(5)]}
        found = (200, job, {}), (200, pods, {})
        logs = [(500, status(500, "dial tcp: timeout"), {}), (404, status(404, "pods j-worker-1 not found"), {}),
                [b"a\n"], [b"b\n", None], (200, b"c\nd\n", {})]
        lines = []
        with self.assertRaisesRegex(lockstep.ApiError, "dial tcp: timeout"):
            lines.extend(self.client(*found, *logs).logs("j"))
        self.assertEqual(["worker-2: a", "worker-3: b", "worker-4: c", "worker-4: d"], lines)
        with self.assertRaisesRegex(lockstep.ApiError, "the log of pod j-worker-1 was cut off"):
            list(self.client(*found, [b"a\n"], [b"b\n", None], [], [], []).logs("j"))
        for refusal in 401, 403:
            refused = (refusal, status(refusal, "no"), {})
            with self.assertRaisesRegex(lockstep.ApiError, "no"):
                list(self.client(*found, [b"a\n"], refused).logs("j"))
            self.assertEqual(2 + 2, len(self.server.paths()), "nobody asks for the other logs")
        silent = LOST, LOST, LOST
        lines = []
        with self.assertRaisesRegex(lockstep.ApiError, "cannot be reached"):
            lines.extend(self.client(*found, *silent, [b"b\n"], *silent, [b"d\n"], []).logs("j"))
        self.assertEqual(["worker-1: b", "worker-3: d"], lines, "one node's silence hides no other log")
        with self.assertRaisesRegex(lockstep.ApiError, "cannot be reached"):
            list(self.client(*found, *silent, *silent).logs("j"))
        self.assertEqual(2 + 6, len(self.server.paths()), "of the server's, nobody asks on")
        gone = (404, status(404, "not found"), {})
        self.assertEqual(["worker-1: b"], list(self.client(*found, gone, [b"b\n"], gone, gone, gone).logs("j")))

    def test_a_log_of_a_progress_bar_has_its_end(self):
        bar = b"\r".join(b"%5d/20000" % step for step in range(20_000))
        pods = {"metadata": {"resourceVersion": "5"}, "items": [worker(0)]}
        client = self.client((200, {**JOB, "spec": {"replicaSpecs": {"Worker": {}}}}, {}), (200, pods, {}),
                             (200, bar + b"\r{'loss': 1}\n", {}))
        lines = list(client.logs("j"))
        self.assertEqual(["worker-0: 19999/20000\r", "worker-0: {'loss': 1}"], lines[-2:])
        self.assertEqual(20_001, len(lines))

    def test_a_lost_connection_does_not_end_a_wait_with_a_time_limit(self):
        client = self.client(LOST, LOST, (200, DONE, {}))
        self.assertTrue(client.wait("j", timeout=20 * SLOWNESS).status.succeeded)
        with self.assertRaisesRegex(lockstep.ApiError, "cannot be reached"):
            self.client(LOST, LOST, LOST, (200, DONE, {})).wait("j", timeout=20 * SLOWNESS)

    def test_a_busy_server_is_asked_again_when_it_says(self):
        client = self.client((429, status(429, "busy"), {"Retry-After": "1"}), (201, JOB, {}))
        began = time.monotonic()
        self.assertEqual("j", client.create(TrainingJob("j", image="x")).name)
        self.assertGreaterEqual(time.monotonic() - began, 1)
        self.assertEqual(["POST", "POST"], self.server.paths())

    def test_a_server_that_stays_busy_is_named(self):
        client = self.client(*[(429, status(429, "busy"), {"Retry-After": "0"})] * 5)
        with self.assertRaisesRegex(lockstep.ApiError, "said 429: busy") as raised:
            client.get("j")
        self.assertEqual((429, 5), (raised.exception.status, len(self.server.asked)))

    def test_credentials_are_sent_to_the_server_and_follow_no_redirect(self):
        client = self.client((302, b"", {"Location": "/elsewhere"}))
        with self.assertRaisesRegex(lockstep.ApiError, "said 302"):
            client.get("j")
        self.assertEqual(["Bearer secret"], [headers["authorization"] for _, _, headers, _ in self.server.asked])

    def test_what_is_no_api_server_is_named(self):
        for answer, said in (((200, b"<html>", {}), "found an answer that is no JSON object, expected the API server"),
                             ((502, b"<html>", {}), "said 502: <html>")):
            with self.assertRaisesRegex(lockstep.ApiError, said):
                self.client(answer).get("j")
        client = self.client()
        self.server.stop()
        said = f"job default/j: .*{self.server.url} cannot be reached"
        with self.assertRaisesRegex(lockstep.ApiError, said) as raised:
            client.get("j")
        self.assertIsNone(raised.exception.status)

    def test_a_cluster_without_the_crd_is_named(self):
        for call in (lambda client: client.get("j"), lambda client: client.list(),
                     lambda client: client.create(TrainingJob("j", image="x"))):
            with self.assertRaisesRegex(lockstep.ApiError, "expected one where Lockstep is installed") as raised:
                call(self.client((404, b"404 page not found\n", {})))
            self.assertNotIsInstance(raised.exception, lockstep.NotFound)

    def test_names_cannot_leave_their_place_in_a_path(self):
        with self.assertRaises(lockstep.ApiError):
            self.client().get("../../secrets/x?y")
        self.assertTrue(self.server.asked[0][1].endswith("/trainingjobs/..%2F..%2Fsecrets%2Fx%3Fy"))


if __name__ == "__main__":
    unittest.main()
