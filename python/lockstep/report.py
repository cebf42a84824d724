"""Tells the operator how far a training program of your own is, so that `kubectl get tj` shows it.

    from lockstep.report import report_progress

    report_progress(step=step, total=total_steps, loss=loss)

This file needs nothing but Python's standard library: copy it beside your program where the package `lockstep` is not
installed. It sends what Kubeflow Trainer's status server takes.
"""
from __future__ import annotations

import atexit
import json
import os
import threading
import time
import urllib.error
import urllib.request
from typing import Any

INTERVAL = 5.0  # seconds between two reports; the newest is sent
TIMEOUT = 5.0  # seconds for one try
TRIES = 3  # of two operators, one leads, and a Service may ask the other
LAST_WORDS = 3.0  # seconds that the program's end waits for its last report


class Reporter:
    """Sends reports on a thread of its own: an operator that does not answer costs a training step nothing."""

    def __init__(self, url: str, token_file: str, interval: float = INTERVAL) -> None:
        self._url, self._token_file, self._interval = url, token_file, interval
        self._changed = threading.Condition()
        self._next: dict[str, Any] | None = None
        self._busy = self._ending = False
        threading.Thread(target=self._run, name="report-progress", daemon=True).start()
        atexit.register(self.flush)

    def put(self, status: dict[str, Any]) -> None:
        with self._changed:
            self._next = status
            self._changed.notify_all()

    def flush(self, seconds: float = LAST_WORDS) -> bool:
        """Sends what has not been sent yet. False if that takes too long."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._next is None and not self._busy, seconds)

    def _run(self) -> None:
        sent = -self._interval
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next is not None)
                self._changed.wait_for(lambda: self._ending, max(0.0, sent + self._interval - time.monotonic()))
                status, self._next, self._busy = self._next, None, True
            self._send(status)
            sent = time.monotonic()
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _send(self, status: dict[str, Any] | None) -> None:
        for _ in range(TRIES):
            try:
                with open(self._token_file, encoding="utf-8") as file:
                    token = file.read().strip()
                request = urllib.request.Request(
                    self._url, json.dumps({"trainerStatus": status}).encode(), method="POST",
                    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=TIMEOUT):
                    return
            except urllib.error.HTTPError as error:
                error.close()
                if error.code != 503:
                    return
            except (OSError, ValueError):  # training goes on without reports
                pass


_reporter: Reporter | None = None


def report_progress(step: int | None = None, total: int | None = None, *, loss: float | None = None,
                    accuracy: float | None = None, epoch: float | None = None,
                    remaining_seconds: float | None = None, **metrics: float) -> bool:
    """Reports what is given. Call it at every step: the newest report is sent every five seconds, and at the end.

    Never raises and never waits. Returns False, and does nothing, in a process whose environment variable RANK is not
    0, and where the operator takes no reports (KUBEFLOW_TRAINER_SERVER_URL is not set). `metrics` has further
    numbers, of which the operator knows test_loss, test_accuracy and examples_per_second.
    """
    global _reporter
    url, token_file = (os.environ.get(f"KUBEFLOW_TRAINER_SERVER_{name}", "") for name in ("URL", "TOKEN"))
    if not url or not token_file or os.environ.get("RANK", "0") != "0":
        return False
    known = {"current_step": step, "total_steps": total, "current_epoch": epoch, "loss": loss, "accuracy": accuracy,
             **metrics}
    status: dict[str, Any] = {
        "metrics": [{"name": name, "value": str(value)} for name, value in known.items() if value is not None]}
    if step is not None and total:
        status["progressPercentage"] = max(0, min(100, step * 100 // total))
    if remaining_seconds is not None:
        status["estimatedRemainingSeconds"] = max(0, int(remaining_seconds))
    if _reporter is None:
        _reporter = Reporter(url, token_file)
    _reporter.put(status)
    return True
