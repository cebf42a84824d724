"""kill -9 of anything: training goes on, nothing is lost, nothing is left behind."""
import calendar
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from local_run import (SLOWNESS, TRAINER, Run, alive, cmdline, descendants, environment, kill9, wait_until_gone,
                       write_job)


def results(report, run):
    """What must not depend on faults: bit for bit the same in every run of the same job."""
    found = {key: report[key] for key in ("state", "steps", "loss", "accuracy", "test_accuracy")}
    folders = run.work_dir.glob(f"volumes/checkpoints/step-{report['steps']:08d}*/manifest.json")
    last = max(folders).parent  # ".1" and so on: saved again after a kill in the middle of it
    for name in ("model.safetensors", "optimizer.safetensors"):
        found[name] = hashlib.sha256((last / name).read_bytes()).hexdigest()
    return found


def ledger(run):
    """The last record of the ledger in the leading worker's log."""
    return run.ledgers()[-1]


def seconds_since_1970(stamp):
    """What `time` of a log record says, which is UTC."""
    return calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) + float(stamp[19:-1])


class StampTest(unittest.TestCase):
    def test_a_stamp_is_utc_wherever_the_tests_run(self):
        self.addCleanup(time.tzset)  # after the variable is restored
        summer_all_year = "XST3:30XDT,0/0,J365/25"
        with unittest.mock.patch.dict(os.environ, TZ=summer_all_year):
            time.tzset()
            self.assertEqual(1782907200.25, seconds_since_1970("2026-07-01T12:00:00.250Z"))


class FaultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.job = write_job(cls.folder.name)
        run = Run(cls.job, cls.folder.name + "/undisturbed")
        code, report, err = run.finish()
        assert code == 0, f"{err}\n{run.logs()[-4000:]}"
        cls.expected = results(report, run)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def start(self, name, job=None):
        run = Run(job or self.job, f"{self.folder.name}/{name}")
        self.addCleanup(run.kill)
        return run

    def check_finish(self, run, expected=None):
        code, report, err = run.finish()
        self.assertEqual(code, 0, f"{err}\n{run.logs()[-4000:]}")
        self.assertEqual(results(report, run), expected or self.expected)
        last = ledger(run)
        self.assertEqual((last["samplesLost"], last["samplesDuplicated"]), (0, 0))
        return report

    def trainers(self, run):
        """{(pod, whether it is a replica): its process id}. A test looks for them before there is a checkpoint: half a
        second later, an undisturbed run is over."""
        places = {(pod, replica) for pod in ("0", "1") for replica in (False, True)}
        found = {}

        def all_have_started():
            found.clear()
            for pid in run.trainers():
                place = environment(pid).get("LOCKSTEP_INDEX"), "replica" in cmdline(pid)
                found.setdefault(place, []).append(pid)
            return set(found) == places and all(len(pids) == 1 for pids in found.values())

        run.wait_for(all_have_started, "two supervisors with a replica each")
        return {(int(pod), replica): pids[0] for (pod, replica), pids in found.items()}

    def seconds_to_next_step(self, run, killed_at):
        """From the kill to the first step that the new generation reports; None: there was nothing left to do."""
        times = [json.loads(line)["time"] for line in run.logs().splitlines()
                 if line.startswith("{") and '"first step of the generation"' in line]
        after = [seconds for seconds in (seconds_since_1970(stamp) - killed_at for stamp in times) if seconds > 0]
        return min(after, default=None)

    def kill_and_check(self, name, pod, replica, job=None, expected=None):
        for attempt in range(5):  # on a machine with other work, a run may be over before the kill
            run = self.start(f"{name}-{attempt}", job)
            victim = self.trainers(run)[pod, replica]
            run.wait_for_checkpoint()
            killed_at = time.time()
            kill9(victim)
            report = self.check_finish(run, expected)
            seconds = self.seconds_to_next_step(run, killed_at)
            if seconds is not None:
                break
        self.assertIsNotNone(seconds, "no step was done after the kill")
        self.assertLess(seconds, 10 * SLOWNESS)
        return report

    def test_over_tcp_as_between_hosts(self):
        """Gloo's ring in the place of shared memory: a replica's and a supervisor's death."""
        job = write_job(self.folder.name, name="ring", communication="Ring")
        undisturbed = Run(job, f"{self.folder.name}/ring")
        self.addCleanup(undisturbed.kill)
        code, report, err = undisturbed.finish()
        self.assertEqual(code, 0, f"{err}\n{undisturbed.logs()[-4000:]}")
        self.assertRegex(undisturbed.logs(), '"communicator":"gloo"')
        expected = results(report, undisturbed)
        for pod, replica in ((0, True), (1, False)):
            with self.subTest(pod=pod, replica=replica):
                self.kill_and_check(f"ring{pod}", pod, replica, job, expected)

    def test_replica_of_the_leading_worker(self):
        self.kill_and_check("replica0", pod=0, replica=True)

    def test_replica_of_the_other_worker(self):
        self.kill_and_check("replica1", pod=1, replica=True)

    def test_the_leading_worker_supervisor_too(self):
        report = self.kill_and_check("pod0", pod=0, replica=False)
        self.assertGreaterEqual(report["restarts"], 1)

    def test_the_other_worker_supervisor_too(self):
        report = self.kill_and_check("pod1", pod=1, replica=False)
        self.assertGreaterEqual(report["restarts"], 1)

    def test_kills_at_any_time(self):
        """Several in one run, of anything, at moments that nobody chose: before the first step, in
        the middle of a step, of an evaluation, of a save, of a recovery, after some replicas have
        ended."""
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        run = self.start(f"anytime-{seed}")
        run.wait_for(lambda: run.trainers(replica=True), "a replica")
        for _ in range(4):
            time.sleep(chance.uniform(0, 0.4) * SLOWNESS)  # undisturbed, a run takes 0.6 s
            victims = run.trainers()
            if run.process.poll() is not None or not victims:
                break
            kill9(chance.choice(victims))
        with self.subTest(seed=seed):
            self.check_finish(run)

    def test_a_stranger_cannot_take_a_place(self):
        """Another user of this machine, with all that a replica is told but the job's token."""
        run = self.start("stranger")
        member = self.trainers(run)[1, True]
        run.wait_for_checkpoint()
        os.kill(member, signal.SIGSTOP)  # so that training does not end before the stranger comes
        told = environment(member)
        token = pathlib.Path(told.pop("LOCKSTEP_TOKEN_FILE"))
        self.assertIn((run.work_dir / "config").resolve(), token.parents)
        self.assertEqual(token.stat().st_mode & 0o777, 0o400)  # 0440, less the group's part
        for name in ("LOCKSTEP_METRICS_FD", "LOCKSTEP_TERMINATION_MESSAGE_PATH"):
            told.pop(name, None)
        stranger = subprocess.Popen([str(TRAINER), "replica"], env=told, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        run.wait_for(lambda: "refused a caller that does not know the job's token" in run.logs(), "a refusal")
        os.kill(member, signal.SIGCONT)
        self.check_finish(run)
        self.assertNotRegex(run.logs(), "was started again")

    def test_with_scope_gang_all_restart_from_the_checkpoint(self):
        job = write_job(self.folder.name, name="gang", scope="Gang")
        run = Run(job, f"{self.folder.name}/gang")
        self.addCleanup(run.kill)
        before = self.trainers(run)
        run.wait_for_checkpoint()
        kill9(before[1, True])
        report = self.check_finish(run)
        self.assertGreaterEqual(report["restarts"], 1)
        self.assertRegex(run.logs(), "restored a checkpoint")
        wait_until_gone(before.values())

    def test_everything_killed_and_run_again_goes_on_from_the_checkpoint(self):
        run = self.start("all")
        run.wait_for_checkpoint()
        pids = descendants(run.process.pid)
        run.kill()
        self.assertEqual([pid for pid in pids if alive(pid)], [], "kill() has returned too early")
        again = self.start("all")
        self.check_finish(again)
        self.assertRegex(again.logs(), "restored a checkpoint")

    def test_interrupt_saves_stops_and_leaves_no_process(self):
        run = self.start("interrupt")
        self.trainers(run)
        pids = descendants(run.process.pid)
        run.wait_for_checkpoint()
        run.process.send_signal(signal.SIGINT)
        code, report, err = run.finish(timeout=30)
        self.assertEqual(code, 130, err)
        wait_until_gone(pids)
        again = self.start("interrupt")
        self.check_finish(again)
        self.assertRegex(again.logs(), "restored a checkpoint")


if __name__ == "__main__":
    unittest.main()
