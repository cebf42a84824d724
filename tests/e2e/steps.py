"""Steps of a scenario: each has a name and a time limit, and how long it took is kept."""
import contextlib
import json
import os
import subprocess
import time

# On a slow or busy machine 2 or 3 allows each step as much more time.
PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))
SHOWN = 1500  # characters of what was found


class Failure(Exception):
    """What was found and what was expected, for people."""


class Skipped(Exception):
    """Why a scenario shows nothing on this cluster."""


def shown(found):
    text = found if isinstance(found, str) else json.dumps(found, default=str)
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


class Steps:
    """The one that runs now, and what is known of those before. For one thread."""

    def __init__(self):
        self.began = time.monotonic()
        self.deadline = self.began
        self.scenario, self.name = "", ""
        self.interrupted = False  # by the user or by a time limit: no scenario follows
        self.times = []  # (scenario, step, seconds)
        self.facts = []  # (scenario, what was measured)

    def say(self, text):
        print(f"e2e: [{time.monotonic() - self.began:4.0f} s] {self.scenario}: {text}", flush=True)

    def note(self, fact):
        """A measurement, which is printed again at the end."""
        self.say(fact)
        self.facts.append((self.scenario, fact))

    @contextlib.contextmanager
    def step(self, name, seconds):
        """What runs in it fails with `name` when it is not done in `seconds`."""
        limit = seconds * PATIENCE
        start = time.monotonic()
        self.name, self.deadline = name, start + limit
        self.say(name)
        try:
            yield
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{name}: not done within {limit:.0f} s: {error.cmd}") from error
        except subprocess.CalledProcessError as error:
            said = (error.stderr or error.stdout or "").strip()
            raise Failure(f"{name}: {' '.join(map(str, error.cmd))} ended with {error.returncode}: "
                          f"{said[-SHOWN:]}") from error
        except Failure as error:
            raise Failure(f"{name}: {error}") from error
        self.times.append((self.scenario, name, time.monotonic() - start))

    def within(self, goal, seconds, what):
        """Notes what it took; a Failure if that was longer than the goal."""
        self.note(f"{seconds:.1f} s {what}")
        expect(seconds <= goal * PATIENCE, f"at most {goal} s {what}", f"{seconds:.1f} s")

    def left(self):
        return max(self.deadline - time.monotonic(), 0.1)

    def until(self, expected, look, holds=bool, every=0.5):
        """What `look` found when `holds` was first true of it; a Failure when the step's time is up."""
        while True:
            found = look()
            if holds(found):
                return found
            if time.monotonic() > self.deadline:
                raise Failure(f"found {shown(found)}, expected {expected}")
            time.sleep(every)

    def stays(self, expected, look, holds, seconds, every=1.0):
        """Looks for `seconds`; a Failure as soon as `holds` is false of what `look` found."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = look()
            expect(holds(found), expected, found)
            time.sleep(every)


def expect(holds, expected, found):
    if not holds:
        raise Failure(f"found {shown(found)}, expected {expected}")
