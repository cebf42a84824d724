"""Roles that wait for others under `lockstep run`: the real controller, so the same order as on a cluster."""
import json
import pathlib
import unittest

from local_run import Run, RunTest

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "start-order.yaml"


def role(script, init=None, **fields):
    """A role whose program is a shell script, which finds the shared folder in FOLDER."""
    def container(name, text):
        return {"name": name, "image": "none", "command": ["sh", "-ec", text],
                "env": [{"name": "FOLDER", "value": "/shared"}],
                "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    spec = {"containers": [container("main", script)],
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]}
    if init is not None:
        spec["initContainers"] = [container("prepare", init)]
    return {**fields, "template": {"spec": spec}}


class StartOrderTest(RunTest):
    def run_job(self, roles, **spec):
        """The exit code and the report of a job that fails with the first failure of any replica."""
        job = pathlib.Path(self.folder) / "job.yaml"
        job.write_text(json.dumps({
            "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": "ordered"},
            "spec": {"restartScope": "Gang", "runPolicy": {"backoffLimit": 0}, "replicaSpecs": roles, **spec}}))
        run = Run(job, f"{self.folder}/run")
        self.addCleanup(run.kill)
        code, _, err = run.finish()
        self.assertEqual(0, code, f"{err}\n{run.logs()[-4000:]}")

    # The first role takes its time, so that workers which did not wait would find nothing.

    def test_workers_start_after_the_helpers_have_ended(self):
        helper = 'sleep 1; touch "$FOLDER/part-$LOCKSTEP_INDEX"'
        worker = 'test -e "$FOLDER/part-0"; test -e "$FOLDER/part-1"'
        self.run_job({"PS": role(helper, replicas=2),
                      "Worker": role(worker, replicas=2, dependsOn=[{"role": "PS", "status": "Complete"}])})

    def test_workers_start_after_the_init_containers_of_the_chief(self):
        chief = 'until test -e "$FOLDER/worked"; do sleep 0.1; done'
        worker = 'test -e "$FOLDER/prepared"; touch "$FOLDER/worked"'
        self.run_job({"Chief": role(chief, init='sleep 1; touch "$FOLDER/prepared"'),
                      "Worker": role(worker, dependsOn=[{"role": "Chief", "status": "Ready"}])})

    def test_a_chief_starts_after_the_workers_have_ended(self):
        self.run_job({"Worker": role('sleep 1; touch "$FOLDER/$LOCKSTEP_INDEX"', replicas=2),
                      "Chief": role('test -e "$FOLDER/0"; test -e "$FOLDER/1"',
                                    dependsOn=[{"role": "Worker", "status": "Complete"}])})

    def test_the_example_trains_on_what_its_init_container_has_made(self):
        run = Run(EXAMPLE, f"{self.folder}/run")
        self.addCleanup(run.kill)
        code, report, err = run.finish()
        self.assertEqual(0, code, f"{err}\n{run.logs()[-4000:]}")
        self.assertEqual(3 * 63, report["steps"])
        made = list(pathlib.Path(self.folder).glob("run/volumes/**/circle/*"))
        self.assertEqual(["test.csv", "train.csv"], sorted(path.name for path in made))


if __name__ == "__main__":
    unittest.main()
