"""Every unary method of every service, served by one function over the shared dispatcher."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from taskstatus.application.ports_clock import Clock
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.grpc.call_metadata import bearer_of, traceparent_of
from taskstatus.entrypoints.grpc.rich_status import to_grpc_status
from taskstatus.entrypoints.wire.call import CallInfo, Dispatch
from taskstatus.entrypoints.wire.statuses import GRPC_STATUS
from taskstatus.entrypoints.wire.tracing import mark_failed, server_span

logger = logging.getLogger(__name__)

TRANSPORT = "grpc"


def handlers_of(
    services: Sequence[ServiceDescriptor],
    dispatch: Dispatch,
    clock: Clock,
    streams: Mapping[str, grpc.RpcMethodHandler[Any, Any]] | None = None,
) -> list[grpc.GenericRpcHandler]:
    """One generic handler per service, for its unary methods and those of ``streams``, by full name."""
    return [
        grpc.method_handlers_generic_handler(
            service.full_name,
            {
                method.name: _method_handler(method, dispatch, clock)
                for method in service.methods
                if not method.client_streaming
            }
            | {
                method.name: streams[method.full_name]
                for method in service.methods
                if streams and method.full_name in streams
            },
        )
        for service in services
    ]


def _method_handler(method: MethodDescriptor, dispatch: Dispatch, clock: Clock) -> grpc.RpcMethodHandler[Any, Any]:
    full_name = f"{method.containing_service.full_name}/{method.name}"

    request_class = GetMessageClass(method.input_type)
    response_class = GetMessageClass(method.output_type)

    async def serve(request: bytes, context: grpc.aio.ServicerContext[bytes, Message]) -> Message:
        metadata = dict(context.invocation_metadata() or ())
        outcome = await _serve(full_name, request_class, request, dispatch, clock, metadata)
        if isinstance(outcome, RefusedError):
            # Outside any try block: abort raises, and a broad except would swallow it.
            await context.abort_with_status(to_grpc_status(outcome))
        return outcome

    # Parsed in the handler: gRPC itself would answer malformed bytes with INTERNAL.
    return grpc.unary_unary_rpc_method_handler(
        serve, request_deserializer=None, response_serializer=response_class.SerializeToString
    )


async def _serve(
    method: str,
    request_class: type[Message],
    request: bytes,
    dispatch: Dispatch,
    clock: Clock,
    metadata: dict[str, Any],
) -> Message | RefusedError:
    with server_span(TRANSPORT, method, traceparent_of(metadata)) as (span, traceparent):
        call = CallInfo(
            transport=TRANSPORT,
            bearer_token=bearer_of(metadata),
            traceparent=traceparent,
            received_monotonic=clock.monotonic_seconds(),
            received_unix=clock.unix_seconds(),
        )
        try:
            return await dispatch(method, _parsed(request_class, request), call)
        except RefusedError as refusal:
            mark_failed(span, GRPC_STATUS[refusal.reason].name, refusal.reason)
            return refusal
        except Exception:
            logger.exception("a call failed", extra={"method": method})
            mark_failed(span, grpc.StatusCode.INTERNAL.name, Reason.INTERNAL)
            return RefusedError(Reason.INTERNAL, "an internal fault; send the same request again")


def _parsed(request_class: type[Message], request: bytes) -> Message:
    try:
        return request_class.FromString(request)
    except DecodeError:
        raise RefusedError(Reason.INVALID_ARGUMENT, "the request is not a message of this method") from None
