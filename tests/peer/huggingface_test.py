"""The Trainer of transformers under torchrun reports how far it is: by its own callback, and by that of the example."""
import json
import os
from unittest import mock

import peer

EXAMPLE = peer.ROOT / "examples" / "huggingface"


class HuggingFaceTest(peer.ReportingExampleTest):
    def test_two_workers_train_one_model_and_go_on_after_a_kill(self):
        records = self.check_reports_and_restart(
            "huggingface", 200, ["--steps", "200", "--save-every", "40"])
        starts = [record for *_, record in records if "world" in record]
        self.assertEqual({(2, True)}, {(record["world"], record["reports_itself"]) for record in starts})
        last = [record for _, attempt, record in records if attempt == 1 and "steps" in record]
        self.assertEqual([(0, 200), (1, 200)], [(record["rank"], record["steps"]) for record in last])
        self.assertLess(last[0]["loss"], 3.5)  # ln 61 = 4.1: it has learned

    def test_the_examples_callback_reports_where_transformers_has_none(self):
        arguments = json.dumps(["--checkpoints", "/checkpoints", "--steps", "10"])
        with mock.patch.dict(os.environ, {"DISABLE_KUBEFLOW_INTEGRATION": "TRUE", "CUDA_VISIBLE_DEVICES": "",
                                          "PYTHONPATH": str(peer.ROOT / "python" / "lockstep")}):
            report = self.lockstep_run(
                EXAMPLE / "job.yaml", "--volume", f"program={EXAMPLE}",
                "--set", f"spec.replicaSpecs.Worker.template.spec.containers[0].args={arguments}")
        self.assertEqual((10, 0), (report["steps"], report["restarts"]))
        self.assertGreater(report["loss"], 0)
        self.assertIn('"reports_itself": false', self.logs())


if __name__ == "__main__":
    peer.main()
