"""Requests to the API server. The `kubernetes` package reads the kubeconfig and keeps the credentials fresh; the
requests go through its connection pool, since its generated methods differ from version to version in how they
apply and stream."""
from __future__ import annotations

import json
import math
import os
import pathlib
import re
import socket
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import kubernetes.client
import kubernetes.config
import kubernetes.config.kube_config
import urllib3
import yaml

from lockstep import _watch
from lockstep.errors import ApiError

Object = dict[str, Any]

HOME_KUBECONFIG = "~/.kube/config"
ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
JSON = "application/json"
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
LINE_FEED = re.compile(rb"\n")
REDRAW = re.compile(rb"\n|(?<=\r)")  # the second, which has no length, is tried where there is no line feed
LONGEST_LINE = 16 << 20  # bytes; an object of the API server has at most a few MiB
MOST_TRIES = 5  # of a request that a busy server puts off
PAGE = 500  # objects of a list in one answer
# Lost connections are tried again for requests that may be sent twice. Redirects are not followed: they would carry
# the credentials elsewhere.
RETRIES = urllib3.Retry(total=2, redirect=0, status=0, raise_on_redirect=False, raise_on_status=False,
                        respect_retry_after_header=False, backoff_factor=0.2)
ONE_TRY = RETRIES.new(total=0)
MOST_LOST = 2  # connections of a request with a deadline, which urllib3 would try again beyond it


def connect(kubeconfig: str | None, context: str | None) -> tuple[Any, str]:
    """(an ApiClient of the package kubernetes, the namespace of its context). ApiError: there is no configuration.

    As kubectl: a kubeconfig if there is one, else the service account of the pod that this program runs in.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG")
    wanted = named or context or pathlib.Path(HOME_KUBECONFIG).expanduser().exists()
    try:
        if wanted:
            file = named or HOME_KUBECONFIG
            namespace = _namespace_of(file, context)
            return kubernetes.config.new_client_from_config(config_file=file, context=context), namespace
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_incluster_config(client_configuration=configuration)
    except (kubernetes.config.ConfigException, yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        where = named or f"{HOME_KUBECONFIG}, and no service account of a pod"
        raise ApiError(f"found no configuration of a cluster in {where}: {error}") from error
    own = ACCOUNT / "namespace"
    return kubernetes.client.ApiClient(configuration), own.read_text().strip() if own.exists() else "default"


def _namespace_of(kubeconfig: str, context: str | None) -> str:
    """Of a context, which needs no current one beside it; of the current one for None."""
    config = kubernetes.config.kube_config.KubeConfigMerger(kubeconfig).config
    if config is None:
        raise kubernetes.config.ConfigException("there is no such file")
    field, name = ("context", context) if context is not None else ("current-context", config["current-context"])
    names = [one["name"] for one in config["contexts"].value]
    if name not in names:
        raise ApiError(f"{field}: found {name!r}, expected one of {', '.join(names)}")
    return config["contexts"].get_with_name(name)["context"].safe_get("namespace") or "default"


class Stream:
    """An answer that is read line by line, by one thread. Any thread may interrupt it."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def lines(self, longest: int = LONGEST_LINE) -> Iterator[bytes]:
        """Lines, of which those of more than `longest` bytes are cut there. Raises urllib3's errors when the
        connection is lost."""
        return (line for line, _ in self._split(LINE_FEED, longest))

    def drawn_lines(self, longest: int) -> Iterator[tuple[bytes, bool]]:
        """(a line, whether it is the first after a line feed), where a carriage return ends a line, too, and stays in
        it: a progress bar ends each redraw so, and has a line feed only when it is full."""
        return self._split(REDRAW, longest)

    def _split(self, ends: re.Pattern[bytes], longest: int) -> Iterator[tuple[bytes, bool]]:
        held = bytearray()  # of the line that has yet to end
        is_first = True
        last = b""  # a carriage return, of which only the next part says what it is
        for part in self._response.stream(amt=None):
            part = last + part
            last = b"\r" if part.endswith(b"\r") else b""
            part = part[:len(part) - len(last)]
            begin = 0
            for end in ends.finditer(part):
                held += part[begin:min(end.start(), begin + longest - len(held))]
                yield bytes(held), is_first
                held.clear()
                is_first = bool(end.group())
                begin = end.end()
            held += part[begin:begin + longest - len(held)]
        held += last[:longest - len(held)]
        if held:
            yield bytes(held), is_first

    def interrupt(self) -> None:
        """Ends a read that waits. Closing the answer would wait for the read."""
        # Older versions of urllib3 keep the connection of an answer that is not read to its end.
        shutdown = getattr(self._response, "shutdown", None)  # since urllib3 2.3
        sock = getattr(getattr(self._response, "connection", None), "sock", None)
        try:
            if shutdown is not None:
                shutdown()
            elif sock is not None:
                sock.shutdown(socket.SHUT_RDWR)
        except (ValueError, OSError, RuntimeError):  # it has ended
            pass

    def close(self) -> None:
        self._response.close()
        self._response.release_conn()


class Api:
    """Threads may share it."""

    def __init__(self, api_client: Any) -> None:
        self._configuration = api_client.configuration
        self._pool: urllib3.PoolManager = api_client.rest_client.pool_manager
        self.host = str(self._configuration.host).rstrip("/")

    def call(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Object | None = None,
             content_type: str = JSON, deadline: _watch.Deadline | None = None) -> Object:
        """The object that the server answers with. ApiError: it refuses, or cannot be reached, or has not answered by
        the deadline, which only a GET may have."""
        answer = self._send(method, path, query, body, content_type, ANSWER_SECONDS, deadline)
        try:
            data = answer.data
        except urllib3.exceptions.HTTPError as error:
            raise self._lost(method, path, error) from error
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ApiError(f"{method} {path}: found an answer that is no JSON object, expected the API server at "
                           f"{self.host}", answer.status)
        return found

    def stream(self, path: str, *, query: Mapping[str, Any], silence_seconds: float | None,
               deadline: _watch.Deadline | None = None) -> Stream:
        """An answer that goes on, and begins before the deadline. A read that waits for longer than `silence_seconds`
        raises."""
        return Stream(self._send("GET", path, query, None, JSON, silence_seconds, deadline))

    def pages(self, path: str, query: Mapping[str, Any],
              deadline: _watch.Deadline | None = None) -> tuple[list[Object], str]:
        """(every object of a list, the version from which to watch)"""
        objects: list[Object] = []
        token = ""
        while True:
            page = self.call("GET", path, query={**query, "limit": PAGE, "continue": token or None},
                             deadline=deadline)
            objects += page.get("items") or []
            token = page["metadata"].get("continue") or ""
            if not token:
                return objects, page["metadata"]["resourceVersion"]

    def _send(self, method: str, path: str, query: Mapping[str, Any] | None, body: Object | None, content_type: str,
              read_seconds: float | None, deadline: _watch.Deadline | None = None) -> urllib3.BaseHTTPResponse:
        given = {name: str(value).lower() if isinstance(value, bool) else value
                 for name, value in (query or {}).items() if value is not None}
        url = f"{self.host}{path}" + (f"?{urlencode(given)}" if given else "")
        retries = RETRIES if deadline is None else ONE_TRY
        deadline = deadline or _watch.Deadline(None)
        busy = lost = 0
        while True:
            headers = {"Accept": JSON, "Content-Type": content_type, "User-Agent": "lockstep-python"}
            for one in self._configuration.auth_settings().values():  # this refreshes a token that has expired
                if one["in"] == "header" and one["value"]:
                    headers[one["key"]] = one["value"]
            try:
                answer = self._pool.request(
                    method, url, body=None if body is None else json.dumps(body).encode(), headers=headers,
                    timeout=_timeout(read_seconds, deadline), retries=retries, preload_content=False, redirect=False)
            except urllib3.exceptions.HTTPError as error:
                lost += 1
                if retries is RETRIES or lost > MOST_LOST or deadline.has_passed():
                    raise self._lost(method, path, error) from error
                time.sleep(deadline.cap(_watch.FIRST_PAUSE * lost))
                continue
            busy += answer.status == 429
            if answer.status != 429 or busy == MOST_TRIES:
                break
            time.sleep(deadline.cap(_seconds(answer.headers.get("Retry-After"))))
            if deadline.has_passed():
                break
            answer.drain_conn()
        if 200 <= answer.status <= 299:
            return answer
        raise ApiError(f"{method} {path}: the API server said {answer.status}: {_message(answer)}", answer.status)

    def _lost(self, method: str, path: str, error: Exception) -> ApiError:
        return ApiError(f"{method} {path}: {self.host} cannot be reached: {error}")


class Collection:
    """The objects of a path that a selector takes, as `_watch.follow` reads them."""

    def __init__(self, api: Api, path: str, selector: Mapping[str, str],
                 deadline: _watch.Deadline | None = None) -> None:
        self._api = api
        self._deadline = deadline  # of `list` and `watch`
        self._path = path
        self._selector = selector
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._interrupted = False

    def list(self) -> tuple[list[Object], str]:
        try:
            return self._api.pages(self._path, self._selector, self._deadline)
        except ApiError as error:
            raise _as_watch_error(error) from error

    def objects(self) -> Sequence[Object]:
        """The objects; raises the errors of a call, which are for people."""
        return self._api.pages(self._path, self._selector)[0]

    def watch(self, version: str, seconds: float, silence_seconds: float) -> Generator[Object, None, None]:
        stream = None
        try:
            stream = self._api.stream(self._path, silence_seconds=silence_seconds, deadline=self._deadline, query={
                **self._selector, "watch": True, "resourceVersion": version, "allowWatchBookmarks": True,
                "timeoutSeconds": max(1, math.ceil(seconds))})
            with self._lock:
                self._stream = stream
                if self._interrupted:
                    return
            for line in stream.lines():
                yield json.loads(line)
        except ApiError as error:
            raise _as_watch_error(error) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:  # a line that was cut is no JSON
            raise _watch.Interrupted(str(error)) from error
        finally:
            with self._lock:
                self._stream = None
            if stream is not None:
                stream.close()

    def interrupt(self) -> None:
        """Ends the watch under way and later ones at once; any thread may call it."""
        with self._lock:
            self._interrupted = True
            if self._stream is not None:
                self._stream.interrupt()


def path_of(*parts: str) -> str:
    """/api/v1/namespaces/… of its parts, each of which may hold any character. ApiError: a part would lead to
    another folder of the path."""
    for part in parts:
        if part in ("", ".", ".."):
            raise ApiError(f"found the name {part!r}, expected one that can stand in a path")
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _as_watch_error(error: ApiError) -> Exception:
    """An error that ends a watch for good stays what it is."""
    if error.status == 410:
        return _watch.Gone(str(error))
    if error.status is None or error.status == 429 or error.status >= 500:
        return _watch.Interrupted(str(error))
    return error


def _timeout(read_seconds: float | None, deadline: _watch.Deadline) -> urllib3.Timeout:
    """Of one try. urllib3 refuses a time of 0."""
    longest = math.inf if read_seconds is None else read_seconds
    read = max(deadline.cap(longest), 0.001)
    return urllib3.Timeout(connect=max(deadline.cap(CONNECT_SECONDS), 0.001), read=None if read == math.inf else read)


def _seconds(retry_after: str | None) -> float:
    return min(float(retry_after), 30.0) if retry_after and retry_after.isdigit() else 1.0


def _message(answer: urllib3.BaseHTTPResponse) -> str:
    """What a metav1.Status says, or the text of a proxy."""
    try:
        text = answer.data.decode(errors="replace")
    except urllib3.exceptions.HTTPError as error:
        return str(error)
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or str(answer.reason)
