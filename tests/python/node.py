"""A node whose kubelet runs nothing, but serves the logs that a test writes for its pods."""
import http.server
import ssl
import threading
import time
import urllib.parse

from api_server import server

NAME = "test-node"


class Node:
    """Pods are bound to it with `adopt`. The API server asks it for logs, as it asks a kubelet."""

    def __init__(self):
        self._changed = threading.Condition()
        self._lines = {}  # pod: [(time, text)]
        self._ended = set()
        self._cut = set()
        self.asked = []  # (pod, query) of each request
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                node._answer(self)

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server().folder / "server.crt", server().folder / "server.key")
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self._call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}})
        self._call("PATCH", f"/api/v1/nodes/{NAME}/status", {"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._http.server_address[1]}}}})

    def stop(self):
        with self._changed:
            self._ended |= set(self._lines)
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._call("DELETE", f"/api/v1/nodes/{NAME}")

    def adopt(self, pod):
        """Binds a new pod; any thread may call it."""
        name = pod["metadata"]["name"]
        with self._changed:
            self._lines[name] = []
            self._ended.discard(name)
        self._call("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}/binding", {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NAME}})

    def write(self, pod, text):
        with self._changed:
            self._lines.setdefault(pod, []).append((time.time(), text))
            self._changed.notify_all()

    def end(self, pod):
        """The container of a pod ends, and with it its log."""
        with self._changed:
            self._ended.add(pod)
            self._changed.notify_all()

    def cut(self, pod):
        """Cuts the connections that follow a pod's log, as a load balancer would."""
        with self._changed:
            self._cut.add(pod)
            self._changed.notify_all()

    def _answer(self, request):
        url = urllib.parse.urlsplit(request.path)
        _, _, _, pod, _ = url.path.split("/")  # /containerLogs/NAMESPACE/POD/CONTAINER
        query = dict(urllib.parse.parse_qsl(url.query))
        with self._changed:
            self.asked.append((pod, query))
            self._changed.notify_all()
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        try:
            for part in self._parts(pod, query):
                request.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                request.wfile.flush()
            request.wfile.write(b"0\r\n\r\n")
        except OSError:  # whoever asked is gone, or the connection was cut
            request.close_connection = True

    def _parts(self, pod, query):
        tail = query.get("tailLines")
        sent = max(0, len(self._lines.get(pod, [])) - int(tail)) if tail else 0
        while True:
            with self._changed:
                if pod in self._cut:
                    self._cut.discard(pod)
                    raise ConnectionAbortedError
                lines = self._lines.get(pod, [])[sent:]
                if not lines:
                    if query.get("follow") != "true" or pod in self._ended:
                        return
                    self._changed.wait()
                    continue
            sent += len(lines)
            for when, text in lines:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when)) + f"{when % 1:.9f}"[1:] + "Z"
                if stamp[:19] + "Z" >= query.get("sinceTime", ""):
                    yield (f"{stamp} " if query.get("timestamps") == "true" else "").encode() + text.encode() + b"\n"

    @staticmethod
    def _call(method, path, body=None):
        connection = server().connect()
        code, answer = connection.call(method, path, body)
        connection.close()
        if code >= 400:
            raise AssertionError(f"{method} {path}: {code}: {answer.get('message')}")
