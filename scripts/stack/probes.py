"""Asking a server whether it is ready, and who it is, in the few bytes of its own protocol that this needs."""

import socket
import urllib.error
import urllib.request

from scripts.stack.ports import HOST

TIMEOUT_SECONDS = 2.0


def mysql_greeting(host: str, port: int) -> str | None:
    """The version in the greeting of a MySQL or MariaDB server; None when nobody greets.

    A MariaDB server may put ``5.5.5-`` before its version for old replicas; it is removed.
    """
    try:
        with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection:
            packet = connection.recv(256)
    except OSError:
        return None
    if len(packet) < 6 or packet[4] != 10:
        return None
    return packet[5:].split(b"\0", 1)[0].decode("ascii", "replace").removeprefix("5.5.5-")


def redis_answers(host: str, port: int) -> bool:
    """Whether a Redis server answers PING, or asks for a password, which only a ready server does."""
    try:
        with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection:
            connection.sendall(b"PING\r\n")
            answer = connection.recv(64)
    except OSError:
        return False
    return answer.startswith((b"+PONG", b"-NOAUTH"))


def http_ok(url: str) -> bool:
    """Whether a GET of ``url`` answers 200. Proxy settings of the environment are not used: it is this machine."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def tcp_accepts(port: int) -> bool:
    """Whether somebody accepts connections on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(TIMEOUT_SECONDS)
        return probe.connect_ex((HOST, port)) == 0
