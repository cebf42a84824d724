"""Two plain TensorFlow processes find each other by the TF_CONFIG that Lockstep wrote, and train."""
import json
import os

import peer

EXAMPLE = peer.ROOT / "examples" / "tensorflow-local"


class TensorFlowLocalTest(peer.LocalRunTest):
    def test_two_workers_train_one_model(self):
        # As behind a company's proxy, which knows nothing of addresses of this machine.
        os.environ.update(http_proxy="http://127.0.0.1:1", no_proxy="localhost,127.0.0.1")
        report = self.lockstep_run("job.yaml", cwd=EXAMPLE)
        self.assertEqual("Succeeded", report["state"])
        lines = [line for path in sorted(self.work_dir.glob("logs/*/*.log"))
                 for line in path.read_text(errors="replace").splitlines()]
        results = [json.loads(line) for line in lines if line.startswith('{"task"')]
        self.assertEqual({"worker:0", "worker:1"}, {result["task"] for result in results},
                         self.logs())
        for result in results:
            self.assertEqual(2, result["replicas"])
            self.assertTrue(result["variables_equal"])
            self.assertLess(result["loss"], result["first_loss"] / 10)
        self.assertEqual(1, len({result["loss"] for result in results}), results)


if __name__ == "__main__":
    peer.main()
