"""Choosing TCP ports on the loopback interface."""

import socket

HOST = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now; old connections in TIME_WAIT do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return not _answers(port)


def _answers(port: int) -> bool:
    """Whether somebody accepts there: a listener on all interfaces does not always refuse the bind."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def prefer(port: int, taken: set[int], attempts: int = 200) -> int:
    """``port`` if it is free, else the next free one; the choice is added to ``taken``."""
    for candidate in range(port, port + attempts):
        if candidate not in taken and is_free(candidate):
            taken.add(candidate)
            return candidate
    raise OSError(f"no free TCP port from {port} to {port + attempts - 1}")


def any_free() -> int:
    """A port that the system gives out, for servers of tests."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
