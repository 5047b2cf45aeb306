"""The gRPC server: services, health, reflection, limits and graceful drain (T-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from taskstatus_pb.v1 import (
    admin_service_pb2,
    bind_execution_service_pb2,
    heartbeat_service_pb2,
    query_service_pb2,
    realtime_service_pb2,
    register_service_pb2,
    report_service_pb2,
)

from taskstatus.application.ports_clock import Clock
from taskstatus.entrypoints.grpc.stream_server import METHOD, StreamServer, handler
from taskstatus.entrypoints.grpc.unary import handlers_of
from taskstatus.entrypoints.wire.call import Dispatch

SERVICES: Sequence[ServiceDescriptor] = tuple(
    service
    for module in (
        register_service_pb2,
        report_service_pb2,
        heartbeat_service_pb2,
        bind_execution_service_pb2,
        query_service_pb2,
        realtime_service_pb2,
        admin_service_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
)


@dataclass(frozen=True, slots=True)
class GrpcConfig:
    """Where to listen and the limits of a connection; times in seconds, sizes in bytes."""

    listen: str
    reflection: bool = True
    max_message_bytes: int = 4 * 1024 * 1024
    unread_bytes_per_call: int = 128 * 1024
    max_connection_age_seconds: int = 1800
    max_connection_age_grace_seconds: int = 60
    drain_grace_seconds: float = 10.0
    tls: grpc.ServerCredentials | None = None

    def options(self) -> list[tuple[str, int]]:
        """Channel arguments; so_reuseport is off, or a left-over process would take a share of the traffic silently."""
        return [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_connection_age_ms", self.max_connection_age_seconds * 1000),
            ("grpc.max_connection_age_grace_ms", self.max_connection_age_grace_seconds * 1000),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            # What a client may send ahead of a stream's reader. Probing would let it grow to megabytes, which a
            # thousand clients that write and never read turned into gigabytes.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", self.unread_bytes_per_call),
        ]


class GrpcServer:
    """Serves every service on one port until it is stopped; must be made inside the loop that runs it."""

    def __init__(
        self, config: GrpcConfig, dispatch: Dispatch, clock: Clock, streams: StreamServer | None = None
    ) -> None:
        self._config = config
        self._streams = streams
        self._server = grpc.aio.server(options=config.options())
        self._health = health.aio.HealthServicer()
        stream_handlers = {METHOD.replace("/", "."): handler(streams)} if streams is not None else {}
        self._server.add_generic_rpc_handlers(handlers_of(SERVICES, dispatch, clock, stream_handlers))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = [service.full_name for service in SERVICES]
        if config.reflection:
            health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
            reflection.enable_server_reflection([*names, health_name, reflection.SERVICE_NAME], self._server)
        self._names = ["", *names]

    async def start(self) -> int:
        """Listen and return the port. Raises OSError naming the address when it is taken."""
        try:
            port = self._bind()
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._config.listen}; is another server on it?") from error
        await self._server.start()
        if self._streams is not None:
            self._streams.start()
        return port

    def _bind(self) -> int:
        if self._config.tls is None:
            return self._server.add_insecure_port(self._config.listen)
        return self._server.add_secure_port(self._config.listen, self._config.tls)

    async def set_serving(self, serving: bool) -> None:
        """What ``grpc.health.v1`` answers for the server and for each service."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in self._names:
            await self._health.set(name, status)

    async def stop(self) -> None:
        """Tell health watchers and open streams, take no new calls, let the running ones end within the grace."""
        await self._health.enter_graceful_shutdown()
        grace = self._config.drain_grace_seconds
        stopping = asyncio.ensure_future(self._server.stop(grace))
        if self._streams is not None:
            await self._streams.stop(grace)
        await stopping
