"""What a tenant may run in a trainer's place, where the operator asks for progress over HTTP/2."""
import contextlib
import socket
import threading

PREFACE_BYTES = 24
DATA, HEADERS, SETTINGS, PING, CONTINUATION = 0, 1, 4, 6, 9
END_HEADERS = 4
STATUS_200 = b"\x88"  # of HPACK's static table
CONTENT_TYPE = b"\x0f\x10\x10application/grpc"
LARGEST_FRAME = 16384


def frame(kind, payload=b"", flags=0, stream=0):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def read_frame(connection):
    """(kind, stream), or None at the end."""
    head = connection.recv(9, socket.MSG_WAITALL)
    if len(head) < 9:
        return None
    left = int.from_bytes(head[:3], "big")
    while left:
        left -= len(connection.recv(left))
    return head[3], int.from_bytes(head[5:], "big")


def shake_hands(connection):
    """Returns the stream of the first question."""
    connection.recv(PREFACE_BYTES, socket.MSG_WAITALL)
    connection.sendall(frame(SETTINGS) + frame(SETTINGS, flags=1))
    while (seen := read_frame(connection)) is not None:
        if seen[0] == HEADERS:
            return seen[1]
    raise ConnectionError("no question came")


def say_nothing(connection):
    while connection.recv(65536):
        pass


def say_one_byte_at_a_time(connection):
    for byte in frame(SETTINGS) + frame(PING, bytes(8)) * 64:
        connection.sendall(bytes([byte]))
        connection.recv(65536)


def say_no_http(connection):
    connection.sendall(b"SSH-2.0-x\r\n" + b"\xff" * 4096)


def answer_without_end(connection):
    """A message of 4 GiB, as far as it is taken."""
    stream = shake_hands(connection)
    connection.sendall(frame(HEADERS, STATUS_200 + CONTENT_TYPE, END_HEADERS, stream))
    connection.sendall(frame(DATA, b"\x00\xff\xff\xff\xff", stream=stream))
    for _ in range(4096):
        connection.sendall(frame(DATA, b"x" * LARGEST_FRAME, stream=stream))


def send_headers_without_end(connection):
    stream = shake_hands(connection)
    connection.sendall(frame(HEADERS, STATUS_200 + CONTENT_TYPE, 0, stream))
    header = b"\x00\x01x\x7f\x81\x7e" + b"y" * 16256  # a literal name and a value that is not indexed
    for _ in range(4096):
        connection.sendall(frame(CONTINUATION, header[:LARGEST_FRAME], 0, stream))


def ask_back_without_end(connection):
    shake_hands(connection)
    for _ in range(100_000):
        connection.sendall(frame(PING, bytes(8)) + frame(SETTINGS))


class Trainers:
    """One for each behaviour, on loopback. The next connection to one begins when the last has ended."""

    BEHAVIOURS = (say_nothing, say_one_byte_at_a_time, say_no_http, answer_without_end,
                  send_headers_without_end, ask_back_without_end)

    def __init__(self):
        self.asked = {behaviour.__name__: 0 for behaviour in self.BEHAVIOURS}
        self._listening = []
        self._threads = []
        self._open = set()
        self._lock = threading.Lock()
        for behaviour in self.BEHAVIOURS:
            listening = socket.create_server(("127.0.0.1", 0))
            self._listening.append(listening)
            self._threads.append(threading.Thread(
                target=self._serve, args=(listening, behaviour), daemon=True))
        self.ports = [listening.getsockname()[1] for listening in self._listening]
        for thread in self._threads:
            thread.start()

    def stop(self):
        for listening in self._listening:
            listening.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _serve(self, listening, behave):
        with listening:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:  # stop()
                    return
                self.asked[behave.__name__] += 1
                with self._lock:
                    self._open.add(connection)
                with contextlib.suppress(OSError):
                    behave(connection)
                with self._lock:
                    self._open.discard(connection)
                    connection.close()
