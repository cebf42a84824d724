"""Follows objects by a watch: lists once, and again only if the server has forgotten the version. Knows no network."""
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, Protocol

Object = dict[str, Any]

WATCH_SECONDS = 120.0  # how long the server may keep a watch open
GRACE_SECONDS = 5.0  # after which a server that should have ended the watch is taken for lost
CALM_SECONDS = 1.0
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0


class Gone(Exception):
    """The server has forgotten the version (410)."""


class Interrupted(Exception):
    """The connection was lost, or the server cannot answer now."""


class Source(Protocol):
    """Raises Gone, Interrupted, or what ends the whole thing."""

    def list(self) -> tuple[list[Object], str]:
        """(the objects, the version from which to watch)"""

    def watch(self, version: str, seconds: float, silence_seconds: float) -> Generator[Object, None, None]:
        """The watch events after a version, for so many seconds; Interrupted after so many without a byte."""


class Deadline:
    """When a wait ends; never, with None."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._end = None if seconds is None else clock() + seconds

    def cap(self, seconds: float) -> float:
        """At most what is left, and not below 0."""
        return seconds if self._end is None else max(0.0, min(seconds, self._end - self.clock()))

    def pass_now(self) -> None:
        """Ends the wait; any thread may call it."""
        self._end = self.clock()

    def has_passed(self) -> bool:
        return self.cap(1.0) <= 0.0


class Change(NamedTuple):
    """An object as it is now, or as it was when it was last seen."""
    object: Object
    deleted: bool


def follow(source: Source, seen: list[Object], deadline: Deadline,
           sleep: Callable[[float], None] = time.sleep) -> Iterator[Change]:
    """Each object as it is now, then each change, until the deadline.

    `seen` are objects that the caller has read before: those that are gone by now are reported as deleted. An
    object that was deleted and created again is reported as both. A change may be reported twice.
    """
    known = {_uid(one): one for one in seen}
    version: str | None = None
    pause = FIRST_PAUSE
    while not deadline.has_passed():
        began = deadline.clock()
        calm = False  # whether the server was there for a while, or had something to say
        try:
            if version is None:
                objects, version = source.list()
                listed = {_uid(one): one for one in objects}
                gone = [one for uid, one in known.items() if uid not in listed]
                known = listed
                yield from (Change(one, True) for one in gone)
                yield from (Change(one, False) for one in objects)
            seconds = deadline.cap(WATCH_SECONDS)
            silence = deadline.cap(WATCH_SECONDS + GRACE_SECONDS)
            if seconds <= 0.0:
                return
            with contextlib.closing(source.watch(version, seconds, silence)) as events:
                for event in events:
                    if event["type"] == "ERROR":
                        raise _error(event["object"])
                    calm = True
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        deleted = event["type"] == "DELETED"
                        if deleted:
                            known.pop(_uid(event["object"]), None)
                        else:
                            known[_uid(event["object"])] = event["object"]
                        yield Change(event["object"], deleted)
                    if deadline.has_passed():
                        return
            calm = calm or deadline.clock() - began > CALM_SECONDS
        except Gone:
            version = None
        except Interrupted:
            pass
        # A server that ends every watch at once is not asked in a loop.
        pause = FIRST_PAUSE if calm else min(pause * 2, LONGEST_PAUSE)
        sleep(deadline.cap(pause))


def _uid(one: Object) -> str:
    return str(one["metadata"]["uid"])


def _error(status: Object) -> Exception:
    text = f"{status.get('reason')}: {status.get('message')}"
    return Gone(text) if status.get("code") == 410 else Interrupted(text)
