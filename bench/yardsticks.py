"""How fast the machine is just now, by two fixed things: for comparing the figures of different days and hosts."""

from __future__ import annotations

import socket
import threading
import time
from statistics import median

ADDITIONS = 2_000_000
ROUND_TRIPS = 300


def loop_ms() -> float:
    """CPU milliseconds of a fixed loop: the speed of a core."""
    began, total = time.process_time(), 0
    for number in range(ADDITIONS):
        total += number
    return (time.process_time() - began) * 1000


def round_trip_us() -> float:
    """Median microseconds of one byte to another thread and back over TCP: system calls and wake-ups.

    A build with many round trips per event suffers from a slow one far more than a build with few.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        echo = threading.Thread(target=_echo, args=(far,))
        echo.start()
        times = [_ping(near) for _ in range(ROUND_TRIPS)]
        near.shutdown(socket.SHUT_WR)
        echo.join()
    return median(times) * 1e6


def _ping(near: socket.socket) -> float:
    began = time.perf_counter()
    near.send(b"x")
    near.recv(1)
    return time.perf_counter() - began


def _echo(far: socket.socket) -> None:
    while data := far.recv(1):
        far.send(data)
