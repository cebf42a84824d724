"""`lockstep top` beside a `lockstep run`: what its replicas spend their time on."""
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

from local_run import LOCKSTEP, SLOWNESS, Run, write_job


def top(*arguments):
    return subprocess.run([str(LOCKSTEP), "top", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60 * SLOWNESS, check=False)


class TopTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work_dir = pathlib.Path(folder.name) / "work"
        self.run_ = Run(write_job(folder.name, epochs=1000), self.work_dir)
        self.addCleanup(self.run_.kill)
        self.run_.wait_for_checkpoint()

    # Replicas of a loaded machine may take longer to answer than one look waits.
    def job_with_all_times(self):
        for _ in range(5):
            done = top("--work-dir", str(self.work_dir), "--once", "--interval", "5", "--output", "json")
            if done.returncode != 0:
                continue
            self.assertEqual("", done.stderr)
            job = json.loads(done.stdout)
            if not job["unread"] and all(times["step_seconds"] for times in (job, *job["ranks"])):
                return job
        self.fail(f"no look met both ranks twice: {done}")

    def test_the_time_of_a_step_by_phase_and_rank(self):
        job = self.job_with_all_times()
        self.assertEqual([], job["unread"])
        self.assertEqual([(0, "worker-0"), (1, "worker-1")], [(r["rank"], r["replica"]) for r in job["ranks"]])
        self.assertGreater(job["step"], 0)
        self.assertGreater(job["loss"], 0)
        for times in (job, *job["ranks"]):
            self.assertGreater(times["step_seconds"], 0)
            self.assertAlmostEqual(1, sum(times["phases"].values()))
            self.assertGreater(times["phases"]["compute"], 0)
        self.assertTrue(0 < job["goodput"] <= 1, job)

    def test_it_ends_with_the_run(self):
        with subprocess.Popen([str(LOCKSTEP), "top", "--work-dir", str(self.work_dir), "--interval", "1"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as watcher:
            self.addCleanup(watcher.kill)
            for line in watcher.stdout:
                if line.startswith("1 ") and "worker-1" in line:
                    break
            self.run_.process.send_signal(signal.SIGINT)
            rest = watcher.stdout.read()
            self.assertEqual(0, watcher.wait(60 * SLOWNESS))
        self.assertTrue(rest.splitlines()[-2].endswith(": Ended"), rest[-400:])
        self.run_.finish()
        done = top("--work-dir", str(self.work_dir), "--once")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("no lockstep run uses", done.stderr)


if __name__ == "__main__":
    unittest.main()
