"""Plain JAX processes find each other by JAX_*, train one model, and report how far they are."""
import peer


class JaxTest(peer.ReportingExampleTest):
    def test_two_workers_train_one_model_and_go_on_after_a_kill(self):
        records = self.check_reports_and_restart("jax", 800, ["--steps", "800"])
        last = [record for _, attempt, record in records if attempt == 1 and "state" in record]
        self.assertEqual([0, 1], [record["process"] for record in last])
        self.assertEqual(1, len({record["state"] for record in last}), "both have the same bits")
        losses = [record["loss"] for *_, record in records if "loss" in record]
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    peer.main()
