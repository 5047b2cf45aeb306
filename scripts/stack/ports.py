"""Choosing TCP ports on the loopback interface."""

import random
import socket
from functools import cache
from pathlib import Path

HOST = "127.0.0.1"
_CLIENT_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_000
_ATTEMPTS = 100
_given: set[int] = set()


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
    """A free port for a server of a test, the same again when it restarts.

    Outside the range from which the system gives ports to clients, where it can: while a server is down, another
    program's connection would take its port.
    """
    for _ in range(_ATTEMPTS):
        candidate = random.randrange(*_range_for_servers())
        if candidate not in _given and is_free(candidate):
            _given.add(candidate)
            return candidate
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@cache
def _range_for_servers() -> tuple[int, int]:
    """First port and the one behind the last, below the clients' (Linux tells; elsewhere they begin at 49152)."""
    try:
        first_of_clients = int(_CLIENT_PORTS.read_text().split()[0])
    except (OSError, ValueError):
        first_of_clients = 49152
    return _FIRST, max(first_of_clients, _FIRST + 1)
