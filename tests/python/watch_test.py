"""A watch goes on where it was after every kind of end, lists again only where it must, and ends at its deadline."""
import unittest

from lockstep import _watch
from lockstep._watch import Deadline, Gone, Interrupted, follow


def thing(name, version, uid=None):
    return {"metadata": {"name": name, "uid": uid or name, "resourceVersion": str(version)}}


def event(kind, *arguments):
    return {"type": kind, "object": thing(*arguments)}


GONE = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old resource version"}}
BROKEN = {"type": "ERROR", "object": {"code": 500, "reason": "InternalError", "message": "etcd"}}


class FakeServer:
    """Answers list and watch calls from a script, one entry for each call: an exception is raised, also in the middle
    of events; a number is seconds that pass. Runs until the script ends, when it passes the deadline."""

    def __init__(self, *script):
        self.now = 0.0
        self.deadline = Deadline(1000.0, clock=lambda: self.now)
        self.calls = []
        self.slept = []
        self._script = list(script)

    def _next(self, call):
        self.calls.append(call)
        if not self._script:
            self.deadline.pass_now()
            raise Interrupted("the script has ended")
        return self._script.pop(0)

    def list(self):
        found = self._next("list")
        if isinstance(found, Exception):
            raise found
        return found

    def watch(self, version, seconds, silence_seconds):
        for one in self._next(f"watch {version}"):
            if isinstance(one, Exception):
                raise one
            if isinstance(one, float):
                self.now += one
            else:
                yield one

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def follow(self, *seen):
        """The changes as text."""
        return [f"{change.object['metadata']['name']}@{change.object['metadata']['resourceVersion']}"
                + (" deleted" if change.deleted else "")
                for change in follow(self, list(seen), self.deadline, self.sleep)]


class FollowTest(unittest.TestCase):
    def test_a_watch_that_the_server_ends_goes_on_from_the_last_version(self):
        server = FakeServer(([thing("a", 1)], "5"), [event("MODIFIED", "a", 6), 30.0], [event("MODIFIED", "a", 7)])
        self.assertEqual(["a@1", "a@6", "a@7"], server.follow())
        self.assertEqual(["list", "watch 5", "watch 6", "watch 7"], server.calls)

    def test_a_bookmark_moves_the_version_and_is_no_change(self):
        server = FakeServer(([thing("a", 1)], "5"), [event("BOOKMARK", "", 90)])
        self.assertEqual(["a@1"], server.follow())
        self.assertEqual(["list", "watch 5", "watch 90"], server.calls)

    def test_a_lost_connection_goes_on_from_the_last_version(self):
        server = FakeServer(([thing("a", 1)], "5"), [event("MODIFIED", "a", 6), Interrupted("reset")],
                            [event("MODIFIED", "a", 7)])
        self.assertEqual(["a@1", "a@6", "a@7"], server.follow())
        self.assertEqual(["list", "watch 5", "watch 6", "watch 7"], server.calls)

    def test_a_version_that_the_server_has_forgotten_is_listed_again(self):
        for end in (GONE, Gone("410")):
            server = FakeServer(([thing("a", 1)], "5"), [end], ([thing("a", 8)], "9"), [event("MODIFIED", "a", 10)])
            self.assertEqual(["a@1", "a@8", "a@10"], server.follow())
            self.assertEqual(["list", "watch 5", "list", "watch 9", "watch 10"], server.calls)

    def test_what_was_deleted_meanwhile_is_reported(self):
        server = FakeServer(([thing("a", 1), thing("b", 1)], "5"), [GONE],
                            ([thing("a", 8, "another"), thing("b", 1)], "9"))
        self.assertEqual(["a@1", "b@1", "a@1 deleted", "a@8", "b@1"], server.follow())

    def test_what_was_deleted_before_the_first_list_is_reported(self):
        self.assertEqual(["a@1 deleted"], FakeServer(([], "5")).follow(thing("a", 1)))

    def test_a_deletion_is_reported_once(self):
        server = FakeServer(([thing("a", 1)], "5"), [event("DELETED", "a", 6)], [GONE], ([], "9"))
        self.assertEqual(["a@1", "a@6 deleted"], server.follow())

    def test_a_server_that_is_away_is_asked_less_and_less_often(self):
        away = [Interrupted("away")]
        server = FakeServer(([thing("a", 1)], "5"), *[away] * 8, [event("MODIFIED", "a", 6)])
        self.assertEqual(["a@1", "a@6"], server.follow())
        self.assertEqual([0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0, 0.2], server.slept[:9])

    def test_a_list_that_fails_is_tried_again(self):
        server = FakeServer(Interrupted("away"), Gone("no"), ([thing("a", 1)], "5"))
        self.assertEqual(["a@1"], server.follow())

    def test_an_error_event_is_no_change_and_does_not_lose_the_version(self):
        server = FakeServer(([thing("a", 1)], "5"), [event("MODIFIED", "a", 6), BROKEN])
        self.assertEqual(["a@1", "a@6"], server.follow())
        self.assertEqual("watch 6", server.calls[2])

    def test_watches_that_end_at_once_are_not_asked_for_in_a_loop(self):
        server = FakeServer(([thing("a", 1)], "5"), [], [], [])
        server.follow()
        self.assertEqual([0.4, 0.8, 1.6], server.slept[:3])

    def test_a_quiet_watch_is_no_reason_to_wait(self):
        server = FakeServer(([thing("a", 1)], "5"), [_watch.WATCH_SECONDS], [_watch.WATCH_SECONDS])
        server.follow()
        self.assertEqual([0.2, 0.2], server.slept[:2])

    def test_it_ends_at_the_deadline_also_between_events(self):
        server = FakeServer(([thing("a", 1)], "5"), [event("MODIFIED", "a", 6), 2000.0, event("MODIFIED", "a", 7),
                                                      event("MODIFIED", "a", 8)])
        self.assertEqual(["a@1", "a@6", "a@7"], server.follow())
        self.assertEqual(["list", "watch 5"], server.calls)

    def test_other_errors_end_it(self):
        with self.assertRaises(PermissionError):
            FakeServer(([thing("a", 1)], "5"), [PermissionError("403")]).follow()

    def test_a_watch_is_not_asked_for_beyond_the_deadline(self):
        asked = []

        class Source(FakeServer):
            def watch(self, version, seconds, silence_seconds):
                asked.append((seconds, silence_seconds))
                self.now += seconds
                yield from ()

        server = Source(([thing("a", 1)], "5"))
        server.deadline = Deadline(130.0, clock=lambda: server.now)
        server.follow()
        self.assertEqual((_watch.WATCH_SECONDS, _watch.WATCH_SECONDS + _watch.GRACE_SECONDS), asked[0])
        self.assertEqual([(9.8, 9.8)], [tuple(round(one, 1) for one in pair) for pair in asked[1:]])


if __name__ == "__main__":
    unittest.main()
