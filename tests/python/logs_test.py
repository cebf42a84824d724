"""How a followed log goes on, and which containers have one."""
import unittest

from lockstep import _logs


def pod(**status):
    labels = {f"{_logs.PREFIX}role": "worker", f"{_logs.PREFIX}replica-index": "1"}
    return {"metadata": {"name": "j-worker-1", "uid": "u", "labels": labels},
            "spec": {"containers": [{"name": "main"}]},
            "status": {"containerStatuses": [{"name": "main", "restartCount": 2, **status}]}}


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


if __name__ == "__main__":
    unittest.main()
