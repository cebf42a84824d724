"""DistributedDataParallel under torchrun, whose rank 0 reports how far it is."""
import random

import peer


def write_idx(path, shape, content):
    path.write_bytes(bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape) + content)


class PyTorchTest(peer.ReportingExampleTest):
    def write_data(self):
        """In the form of MNIST, but smaller: each image is a row of light, at the height of its label."""
        folder = self.work_dir / "data"
        folder.mkdir()
        for part, count in (("train", 12800), ("t10k", 500)):
            labels = bytes(random.Random(1).choices(range(10), k=count))
            images = b"".join(bytes(56 * label + 84) + b"\xff" * 56 + bytes(644 - 56 * label) for label in labels)
            write_idx(folder / f"{part}-images-idx3-ubyte", (count, 28, 28), images)
            write_idx(folder / f"{part}-labels-idx1-ubyte", (count,), labels)
        return folder

    def test_two_workers_train_one_model_and_go_on_after_a_kill(self):
        data = self.write_data()
        records = self.check_reports_and_restart(
            "pytorch-ddp", 800, ["--data", "/data/mnist", "--epochs", "8", "--save-every", "50"],
            ["--volume", f"mnist={data}"])
        self.assertEqual({2}, {record["world"] for *_, record in records if "world" in record})
        last = [record for _, attempt, record in records if attempt == 1 and "accuracy" in record]
        self.assertEqual([(0, 800), (1, 800)], [(record["rank"], record["steps"]) for record in last])
        self.assertGreater(last[0]["accuracy"], 0.9)


if __name__ == "__main__":
    peer.main()
