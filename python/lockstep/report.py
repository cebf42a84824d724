"""Tells the operator how far a training program of your own is, so that `kubectl get tj` shows it.

    from lockstep.report import report_progress

    report_progress(step=step, total=total_steps, loss=loss)

This file needs nothing but Python's standard library: copy it beside your program where the package `lockstep` is not
installed. It sends what Kubeflow Trainer's status server takes.
"""
from __future__ import annotations

import http.client
import json
import math
import multiprocessing.util
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

INTERVAL = 5.0  # seconds between two reports
TIMEOUT = 5.0  # seconds for one try
FIRST_PAUSE = 0.1  # seconds before a report is sent again; doubles up to INTERVAL
LONGEST_LAST_PAUSE = 0.5  # seconds, while the program's end waits
LAST_WORDS = 3.0  # seconds that the program's end waits for its last report
LONGEST = 2**53 - 1  # seconds that may remain, for the operator
NOT_NOW = (429, 503)  # 503: of two operators, one leads, and a Service may ask the other

Number = TypeVar("Number", int, float)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


# Loads what the first connection would. A process that is forked while this thread imports a module waits for that
# module for ever.
"".encode("idna")

# The bearer is for the operator alone: neither a proxy nor whoever is named by an answer gets it.
_operator = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)


class _Report(NamedTuple):
    metrics: dict[str, int | float]
    seconds_left: int | None = None

    def then(self, later: _Report) -> _Report:
        """Both in one, which tells the operator what one after the other would, the time left included."""
        metrics = {**self.metrics, **later.metrics}
        step, total = later.metrics.get("current_step", 0), metrics.get("total_steps", math.inf)
        if step > total and "total_steps" not in later.metrics:  # the total of other work
            del metrics["total_steps"]
        return _Report(metrics, self.seconds_left if later.seconds_left is None else later.seconds_left)

    def body(self) -> bytes:
        status: dict[str, Any] = {
            "metrics": [{"name": name, "value": str(value)} for name, value in self.metrics.items()]}
        step, total = (self.metrics.get(name) for name in ("current_step", "total_steps"))
        if step is not None and total:
            status["progressPercentage"] = max(0, min(100, int(step * 100 // total)))
        if self.seconds_left is not None:
            status["estimatedRemainingSeconds"] = self.seconds_left
        return json.dumps({"trainerStatus": status}).encode()


class Reporter:
    """Sends reports on a thread of its own: an operator that does not answer costs a training step nothing."""

    def __init__(self, url: str, token_file: str, interval: float = INTERVAL) -> None:
        self._url, self._token_file, self._interval = url, token_file, interval
        self._changed = threading.Condition()
        self._next: _Report | None = None
        self._due = 0.0  # when it may be sent, of time.monotonic()
        self._busy = self._ending = self._has_warned = False
        self._first: tuple[int, float] | None = None  # step that was reported, and when, of time.monotonic()
        threading.Thread(target=self._run, name="report-progress", daemon=True).start()
        # At the program's end, and at that of a process of multiprocessing, which does without atexit.
        multiprocessing.util.Finalize(None, self.flush, exitpriority=0)

    def seconds_left(self, step: int, total: int) -> int | None:
        """At the pace since the first step that was reported. A step before that one is of another training."""
        now = time.monotonic()
        if self._first is None or step < self._first[0]:
            self._first = step, now
        done = step - self._first[0]
        return round((now - self._first[1]) / done * max(0, total - step)) if done else None

    def put(self, metrics: dict[str, int | float], seconds_left: int | None = None) -> None:
        """A number that waits to be sent stays until one of the same name replaces it."""
        report = _Report(metrics, seconds_left)
        with self._changed:
            self._next = self._next.then(report) if self._next is not None else report
            self._changed.notify_all()

    def flush(self, seconds: float = LAST_WORDS) -> bool:
        """Sends what has not been sent yet. False if that takes too long."""
        with self._changed:
            self._ending = True
            self._due = 0.0
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._next is None and not self._busy, seconds)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            report = self._take()
            try:
                settled = self._send(report.body())
            except Exception:  # training goes on, and so do its reports
                settled = False
            with self._changed:
                longest = LONGEST_LAST_PAUSE if self._ending else max(self._interval, FIRST_PAUSE)
                pause = FIRST_PAUSE if settled else min(2 * pause, longest)
                if not settled:
                    self._due = time.monotonic() + pause
                    self._next = report.then(self._next) if self._next is not None else report
                elif not self._ending:
                    self._due = time.monotonic() + self._interval
                self._busy = False
                self._changed.notify_all()

    def _take(self) -> _Report:
        with self._changed:
            while True:
                left = self._due - time.monotonic()
                if self._next is not None and left <= 0:
                    report, self._next, self._busy = self._next, None, True
                    return report
                self._changed.wait(None if self._next is None else left)

    def _send(self, body: bytes) -> bool:
        """False if the same report may be taken later."""
        try:
            with open(self._token_file, encoding="utf-8") as file:
                token = file.read().strip()
            request = urllib.request.Request(
                self._url, body, method="POST",
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
            with _operator.open(request, timeout=TIMEOUT):
                return True
        except urllib.error.HTTPError as error:
            with error:
                if error.code in NOT_NOW:
                    return False
                self._warn(error)
                return True
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def _warn(self, error: urllib.error.HTTPError) -> None:
        """Says once why nothing is shown: whoever looks for it may not see the operator's answers."""
        if self._has_warned:
            return
        self._has_warned = True
        try:
            said = error.read(500).decode(errors="replace").strip()
            print(f"lockstep.report: found the answer {error.code} ({said}) to a report of progress, expected 200",
                  file=sys.stderr)
        except (OSError, ValueError, http.client.HTTPException):  # nobody reads it
            pass


_reporter: Reporter | None = None


def report_progress(step: int | None = None, total: int | None = None, *, loss: float | None = None,
                    accuracy: float | None = None, epoch: float | None = None,
                    remaining_seconds: float | None = None, **metrics: float) -> bool:
    """Reports what is given. Call it at every step: the newest numbers are sent every five seconds, and at the end.

    The time left is that at the pace so far, unless the program says it (`remaining_seconds`).

    Never raises and never waits. Returns False, and does nothing, in a process whose environment variable RANK is not
    0, and where the operator takes no reports (KUBEFLOW_TRAINER_SERVER_URL is not set). `metrics` has further
    numbers, of which the operator knows test_loss, test_accuracy and examples_per_second. A number may be of any type
    that int() or float() takes, such as NumPy's; what is none, or not finite, is left out.
    """
    global _reporter
    url, token_file = (os.environ.get(f"KUBEFLOW_TRAINER_SERVER_{name}", "") for name in ("URL", "TOKEN"))
    if not url or not token_file or os.environ.get("RANK", "0") != "0":
        return False
    step, total, seconds = (_finite(int, value) for value in (step, total, remaining_seconds))
    numbers = {"current_epoch": epoch, "loss": loss, "accuracy": accuracy, **metrics}
    known = {"current_step": step, "total_steps": total,
             **{name: _finite(float, value) for name, value in numbers.items()}}
    try:
        if _reporter is None:
            _reporter = Reporter(url, token_file)
        if seconds is None and step is not None and total:
            seconds = _reporter.seconds_left(step, total)
        _reporter.put({name: value for name, value in known.items() if value is not None},
                      None if seconds is None else max(0, min(LONGEST, seconds)))
    except Exception:  # such as: no thread can be started
        return False
    return True


def _finite(kind: Callable[[Any], Number], value: Any) -> Number | None:
    try:
        number = kind(value)
        return number if math.isfinite(number) else None
    except Exception:  # it is the program's own type, such as a tensor
        return None


def _forget() -> None:
    """In a process that was forked: the thread is the parent's, and its lock may be held for ever."""
    global _reporter
    _reporter = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
