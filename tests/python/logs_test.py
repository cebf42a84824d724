"""How a followed log goes on, and which containers have one."""
import re
import unittest
import unittest.mock

import urllib3

from lockstep import _api, _logs, errors


def pod(**status):
    labels = {f"{_logs.PREFIX}role": "worker", f"{_logs.PREFIX}replica-index": "1", f"{_logs.PREFIX}job-uid": "j"}
    return {"metadata": {"name": "j-worker-1", "uid": "u", "labels": labels,
                         "ownerReferences": [{"kind": "TrainingJob", "uid": "j", "controller": True}]},
            "spec": {"containers": [{"name": "main"}]},
            "status": {"containerStatuses": [{"name": "main", "restartCount": 2, **status}]}}


class Answer:
    """An answer that gives its parts one by one; a part None is a lost connection."""

    def __init__(self, *parts):
        self.parts = list(parts)

    def stream(self, amt):
        while self.parts:
            part = self.parts.pop(0)
            if part is None:
                raise urllib3.exceptions.ProtocolError("lost")
            yield part

    def close(self):
        pass

    release_conn = close


class Api:
    """An API server with one pod, which runs until the last of the answers has been asked for."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def stream(self, path, *, query, silence_seconds):
        self.asked.append(query)
        return _api.Stream(self.answers.pop(0))

    def call(self, method, path):
        return pod(state={"running" if self.answers else "terminated": {}})


def followed(api):
    """The lines that a follower of the pod passes."""
    follower = _logs.Follower(api, "default", None, None, None, None)
    follower._read(_logs._log_of(pod(state={"running": {}}), None))
    return list(follower._lines.queue)


class LogsTest(unittest.TestCase):
    def test_a_log_goes_on_in_the_zone_of_its_node(self):
        for stamp, expected in (("2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00Z"),
                                ("2026-01-31T20:00:00.5+08:00", "2026-01-31T20:00:00+08:00")):
            self.assertEqual(expected, _logs._whole_seconds(stamp))

    def test_times_of_a_zone_are_in_order(self):
        order = _logs._order_of_time
        self.assertLess(order("2026-01-31T20:00:00.25+08:00"), order("2026-01-31T20:00:00.5+08:00"))
        self.assertLess(order(""), order("2026-01-31T20:00:00+08:00"))

    def test_a_container_that_waits_for_its_restart_has_the_log_of_its_latest_life(self):
        crashed = pod(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": {"exitCode": 1}})
        log = _logs._log_of(crashed, None)
        self.assertEqual(("worker-1", 2), (log.replica, log.restart))
        self.assertFalse(_logs._is_running(crashed, log))
        self.assertIsNone(_logs._log_of(pod(state={"waiting": {"reason": "ContainerCreating"}}), None))

    def test_an_init_container_has_a_log_before_the_others_have_started(self):
        starting = pod(state={"waiting": {"reason": "PodInitializing"}})
        starting["status"]["initContainerStatuses"] = [{"name": "copy-data", "state": {"running": {}}}]
        starting["status"]["ephemeralContainerStatuses"] = [{"name": "debug", "state": {"terminated": {}}}]
        self.assertIsNone(_logs._log_of(starting, None))
        log = _logs._log_of(starting, "copy-data")
        self.assertEqual(("worker-1", "copy-data", 0), (log.replica, log.container, log.restart))
        self.assertTrue(_logs._is_running(starting, log))
        self.assertFalse(_logs._is_running(starting, _logs._log_of(starting, "debug")))

    def test_a_pod_that_only_looks_like_a_replica_is_left_out(self):
        running = {"state": {"running": {}}}
        self.assertIsNotNone(_logs._log_of(pod(**running), None))
        strange = pod(**running)
        del strange["metadata"]["ownerReferences"]
        self.assertIsNone(_logs._log_of(strange, None))
        for label, value in (("replica-index", "x"), ("replica-index", "1" * 5000), ("role", "foo")):
            strange = pod(**running)
            strange["metadata"]["labels"][_logs.PREFIX + label] = value
            self.assertIsNone(_logs._log_of(strange, None), (label, value[:9]))

    def test_a_line_without_an_end_is_cut(self):
        answer = Answer(b"a\nb", *[b"x" * 5000] * 16, b"\n\nend")
        self.assertEqual([b"a", b"b" + b"x" * 8191, b"", b"end"], list(_api.Stream(answer).lines(longest=8192)))

    def test_a_progress_bar_is_seen_before_its_line_ends(self):
        answer = Answer(b"a\r", b"\nbar\r", b"10%\r20", b"%\r\r", b"30%", b"\r\nb\r")
        lines = _api.Stream(answer).drawn_lines(longest=8192)
        self.assertEqual([(b"a\r", True), (b"bar\r", True), (b"10%\r", False)], [next(lines) for _ in range(3)])
        self.assertEqual([b"%\r\r", b"30%", b"\r\nb\r"], answer.parts)
        self.assertEqual([(b"20%\r", False), (b"\r", False), (b"30%\r", False), (b"b\r", True)], list(lines))
        answer = Answer(*[b"x" * 5000] * 16, b"\r", b"50%\r", b"{'loss': 1}\n")
        self.assertEqual([b"x" * 8192, b"50%\r", b"{'loss': 1}"],
                         [line for line, _ in _api.Stream(answer).drawn_lines(longest=8192)])

    def test_a_progress_bar_goes_on_where_its_connection_was_lost(self):
        first, second = b"2026-01-31T12:00:00.25Z ", b"2026-01-31T12:00:00.5Z "
        with unittest.mock.patch("lockstep._watch.FIRST_PAUSE", 0.01):
            api = Api(Answer(first + b"begun\n" + second + b"bar\r", b"10%\r20", None),
                      Answer(first + b"begun\n" + second + b"bar\r10%\r20%\r" + second + b"30%\n",
                             b"unable to retrieve container logs\n", None),
                      Answer(first + b"begun\n" + second + b"bar\r10%\r20%\r" + second + b"30%\nend\n"))
            lines = followed(api)
        self.assertEqual(["begun", "bar\r", "10%\r", "20%\r", second.decode() + "30%",
                          "unable to retrieve container logs", "end"],
                         [line.removeprefix("worker-1: ") for line in lines])
        self.assertEqual([None] + ["2026-01-31T12:00:00Z"] * 2, [query["sinceTime"] for query in api.asked])

    def test_a_name_cannot_lead_out_of_its_folder(self):
        for name in ("", ".", ".."):
            with self.assertRaisesRegex(errors.ApiError, re.escape(f"found the name '{name}'")):
                _api.path_of("api", "v1", "namespaces", name, "pods")


if __name__ == "__main__":
    unittest.main()
