"""Asks a server's ``grpc.health.v1``: ``python -m scripts.stack.grpc_health HOST:PORT`` ends with 0 when it serves.

Runs in the project's environment, because it needs ``grpcio``.
"""

import sys

import grpc

TIMEOUT_SECONDS = 2.0
METHOD = "/grpc.health.v1.Health/Check"
WHOLE_SERVER = b""
"""A HealthCheckRequest that names no service."""

SERVING = b"\x08\x01"
"""A HealthCheckResponse whose status is SERVING."""


def serving(target: str) -> bool:
    """Whether the server as a whole says SERVING."""
    with grpc.insecure_channel(target, [("grpc.enable_http_proxy", 0)]) as channel:
        check = channel.unary_unary(METHOD, request_serializer=bytes, response_deserializer=bytes)
        try:
            return check(WHOLE_SERVER, timeout=TIMEOUT_SECONDS) == SERVING
        except grpc.RpcError:
            return False


if __name__ == "__main__":
    sys.exit(0 if serving(sys.argv[1]) else 1)
