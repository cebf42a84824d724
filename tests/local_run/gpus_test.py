"""A job that asks for GPUs, on a machine that has two and on one that has none. The GPUs are simulated ones."""
import json
import os
import unittest

import local_job
from local_run import RunTest, environment, kill9

SIMULATOR = os.environ["LOCKSTEP_CUDA_SIMULATOR"]
LAYERS = [{"type": "Conv2D", "filters": 4, "kernelSize": 3, "padding": "same", "activation": "relu"},
          {"type": "BatchNormalization"}, {"type": "MaxPooling2D"}, {"type": "Flatten"}, {"type": "Dense", "units": 10}]


class GpusTest(RunTest):
    def job(self, communication="Auto", epochs=2, fetches=False):
        training = {
            "model": {"layers": LAYERS}, "seed": 3,
            "dataset": {"format": "synthetic",
                        "synthetic": {"trainExamples": 320, "testExamples": 100, "shape": [1, 8, 8]}},
            "batchSize": {"global": 32}, "epochs": epochs,
            "optimizer": {"name": "Adam", "learningRate": 0.001},
            "checkpoint": {"directory": "/checkpoints", "everySteps": 5}}
        job = json.loads(local_job.text("gpus", training, folders=["checkpoints"],
                                        communication=communication))
        template = job["spec"]["replicaSpecs"]["Worker"]["template"]
        template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
        if fetches:
            template["spec"]["initContainers"] = [{"name": "fetch", "image": "none", "command": ["true"],
                                                   "resources": {"limits": {"nvidia.com/gpu": 1}}}]
        path = f"{self.folder}/gpus.yaml"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def start_with(self, job, name, gpus):
        return self.start(job, name, prefix=["env", f"CUDA_VISIBLE_DEVICES={gpus}", f"LOCKSTEP_CUDA_PATH={SIMULATOR}"])

    def run_with(self, name, gpus):
        run = self.start_with(self.job(), name, gpus)
        code, report, err = run.finish()
        self.assertEqual(0, code, f"{err}\n{run.logs()[-4000:]}")
        return report, run.logs(), err

    def gpus_of_pods(self, fetches=False):
        """Each pod's index and GPUs, of a job that does not end before both have been seen."""
        run = self.start_with(self.job(epochs=100_000, fetches=fetches), "fetches" if fetches else "long", "0,1")
        seen = set()

        def have_started():
            told = [environment(pid) for pid in run.trainers(replica=True)]
            seen.update((one["LOCKSTEP_INDEX"], one.get("CUDA_VISIBLE_DEVICES")) for one in told
                        if one)  # none of a process that has just ended
            return len({index for index, _ in seen}) == 2

        run.wait_for(have_started, "two replicas")
        run.kill()
        return seen

    def test_each_pod_trains_on_a_gpu_of_its_own_and_finds_what_the_cpu_finds(self):
        self.assertEqual(["0", "1"], sorted(gpu for _, gpu in self.gpus_of_pods()))
        report, logs, _ = self.run_with("gpus", "0,1")
        self.assertEqual(2, logs.count('"device":"cuda:simulated (compute capability 9.0)","generation":1'), logs[-4000:])

        self.assertIn('"communicator":"nccl"', logs)

        without, logs, err = self.run_with("cpu", "")
        self.assertNotIn("cuda:", logs)
        self.assertIn("a pod asks for 1 GPUs and this machine has 0", err)
        self.assertAlmostEqual(without["test_loss"], report["test_loss"], places=4)

    def test_an_init_container_leaves_its_gpu_to_its_pod(self):
        self.assertEqual(["0", "1"], sorted(gpu for _, gpu in self.gpus_of_pods(fetches=True)))

    def test_a_killed_process_leaves_the_others_in_nccl_and_training_goes_on_bit_for_bit(self):
        ends = []
        for kills in (False, True):
            run = self.start_with(self.job("NCCL", epochs=6), "killed" if kills else "whole", "0,1")
            if kills:
                run.wait_for_checkpoint()
                kill9(run.trainers(pod=1, replica=True)[0])
            code, report, err = run.finish()
            self.assertEqual(0, code, f"{err}\n{run.logs()[-4000:]}")
            ends.append({key: report[key] for key in ("steps", "loss", "accuracy", "test_loss")})
            self.assertEqual(kills, '"generation":2' in run.logs())
        self.assertEqual(ends[0], ends[1])

    def test_nccl_is_refused_where_a_process_has_no_gpu(self):
        run = self.start_with(self.job("NCCL"), "refused", "")
        code, _, err = run.finish()
        self.assertNotEqual(0, code)
        self.assertIn("spec.strategy.communication: found NCCL, but rank 0 does not compute on a GPU",
                      err + run.logs())


if __name__ == "__main__":
    unittest.main()
