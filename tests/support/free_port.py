"""A port that a test gives away before somebody listens at it."""
import random
import socket

# Below those that the kernel gives to whoever asks for any (from 32768 on), so that no other test is given it meanwhile,
# and below those that `lockstep run` takes.
PORTS = range(10000, 19000)


def free_port():
    """A port of loopback at which nobody listens now, at random, since tests run beside each other."""
    while True:
        port = random.choice(PORTS)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
