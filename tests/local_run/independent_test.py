"""strategy Independent: processes that train alone, a table of their results, and one that dies."""
import hashlib
import pathlib
import subprocess
import unittest

import yaml

from local_run import LOCKSTEP, SLOWNESS, RunTest, kill9

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "independent.yaml"


def job(folder, **training):
    """The example with other fields in `training`."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["spec"]["training"].update(training)
    path = pathlib.Path(folder) / "independent.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


def models(run):
    """What each variant's newest checkpoint holds."""
    found = {}
    for manifest in sorted(run.work_dir.glob("volumes/results/checkpoints/*/*/manifest.json")):
        model = (manifest.parent / "model.safetensors").read_bytes()
        found[manifest.parent.parent.name] = hashlib.sha256(model).hexdigest()
    return found


class IndependentTest(RunTest):
    def test_the_example_ends_with_a_table(self):
        text = subprocess.run([LOCKSTEP, "run", EXAMPLE, "--work-dir", f"{self.folder}/run"],
                              capture_output=True, text=True, timeout=120 * SLOWNESS, check=True).stdout
        rows = [line.split() for line in text.splitlines()]
        table = rows[next(i for i, row in enumerate(rows) if row[:1] == ["VARIANT"]) + 1:][:4]
        self.assertEqual([row[:3] for row in table],
                         [["adam", "done", "192"], ["adam-slow", "done", "192"], ["sgd", "done", "192"],
                          ["small-batch", "done", "250"]])
        self.assertEqual(sum(row[-1] == "best" for row in table), 1)
        exported = pathlib.Path(self.folder, "run/volumes/results/models").glob("*/*")
        self.assertEqual({f"{row[0]}/model.onnx" for row in table},
                         {f"{path.parent.name}/{path.name}" for path in exported})

    def test_variants_are_what_each_would_be_alone_and_one_that_diverges_stops_no_other(self):
        code, report, err = self.start(job(self.folder, variants=[
            {"name": "a"}, {"name": "b", "seed": 7},
            {"name": "wild", "optimizer": {"name": "SGD", "learningRate": 1e30}},
            {"name": "again"}])).finish()
        self.assertEqual((code, report["state"]), (0, "Succeeded"), err)
        found = {variant["name"]: variant for variant in report["variants"]}
        self.assertEqual([variant["index"] for variant in report["variants"]], [0, 1, 2, 3])
        self.assertTrue(found["wild"]["diverged"])
        self.assertLess(found["wild"]["steps"], 192)
        for name in ("a", "b", "again"):
            self.assertFalse(found[name]["diverged"])
            self.assertEqual(found[name]["steps"], 192)
            self.assertGreater(found[name]["test_accuracy"], 0.5)
        same = ("steps", "loss", "accuracy", "test_accuracy", "test_loss")
        self.assertEqual({key: found["a"][key] for key in same},
                         {key: found["again"][key] for key in same})
        self.assertNotEqual(found["a"]["loss"], found["b"]["loss"])

    def test_a_process_that_dies_goes_on_alone(self):
        path = job(self.folder, epochs=30, variants=[{"name": name, "seed": seed} for seed, name in
                                                     enumerate(("a", "b", "c", "d"))])
        undisturbed = self.start(path, "undisturbed")
        self.assertEqual(undisturbed.finish()[0], 0)
        run = self.start(path, "disturbed")
        run.wait_for(lambda: list(run.work_dir.glob("volumes/results/checkpoints/*/*/manifest.json")),
                     "a first checkpoint")
        victims = run.trainers(pod=1, replica=True)
        kill9(victims[0])
        code, report, err = run.finish()
        self.assertEqual((code, report["restarts"]), (0, 0), f"{err}\n{run.logs()[-4000:]}")
        self.assertEqual(run.logs().count("replica failed: signal 9"), 1, run.logs()[-4000:])
        self.assertEqual(models(run), models(undisturbed))
        self.assertEqual(set(models(run)), {"a", "b", "c", "d"})


if __name__ == "__main__":
    unittest.main()
