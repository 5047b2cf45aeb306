"""StreamExecutions on grpc.aio: reader, writer, and the ends of a stream (T-1, T-2, N-1).

A stream ends by ``finish`` (OK), by a half-close (OK: what was sent is answered first), by a refusal (a status with its
reason, after the answers that the client still takes), or because it is gone: cancelled, cut, or past its deadline. A
cancelled stream looks like a half-close to its reader, and only the next await of the handler itself is cancelled, so
the handler waits for the answers before it ends the stream, and writes nothing more once it was cancelled. Whatever was
submitted commits in tasks that belong to the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import grpc
import grpc.aio

from taskstatus.application.identity import ServiceIdentity
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.grpc.call_metadata import bearer_of, traceparent_of
from taskstatus.entrypoints.grpc.rich_status import to_grpc_status
from taskstatus.entrypoints.grpc.stream_config import StreamParts, leaving
from taskstatus.entrypoints.grpc.stream_session import StreamSession
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.dispatch import OK, Authenticate, CallObserver
from taskstatus.entrypoints.wire.statuses import GRPC_STATUS
from taskstatus.entrypoints.wire.tracing import mark_failed, server_span

logger = logging.getLogger(__name__)

METHOD = "taskstatus.v1.BindExecutionService/StreamExecutions"
TRANSPORT = "stream"

Context = grpc.aio.ServicerContext[bytes, bytes]


class StreamObserver(CallObserver, Protocol):
    """What is measured of streams (N-3)."""

    def streams_open(self, streams: int, executions: int) -> None:
        """How many streams are open, and how many executions they have bound."""
        ...


class StreamServer:
    """Every open stream of a process; ``start``, idempotent ``stop`` that drains, public ``run_once``."""

    def __init__(self, parts: StreamParts, authenticate: Authenticate, observer: StreamObserver) -> None:
        self._parts = parts
        self._authenticate = authenticate
        self._observer = observer
        self._sessions: set[StreamSession] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(parts.config.binding_at_once)
        self._all_over = asyncio.Event()
        self._all_over.set()
        self._is_draining = False
        self._watch: asyncio.Task[None] | None = None

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return len(self._sessions)

    def start(self) -> None:
        """Begin to watch over expiries, ages and stalled clients."""
        self._watch = asyncio.get_running_loop().create_task(self._run())

    async def run_once(self) -> None:
        """One look at every open stream."""
        for session in list(self._sessions):
            session.tick()
        self._observer.streams_open(len(self._sessions), sum(len(session.bindings) for session in self._sessions))

    async def stop(self, grace_seconds: float) -> None:
        """Tell every client to go elsewhere, answer what was taken, end the streams; may be called twice."""
        self._is_draining = True
        leave_seconds = min(self._parts.config.leave_seconds, grace_seconds / 2)
        for session in list(self._sessions):
            session.leave(leave_seconds)
        await self._until_all_over(leave_seconds)
        for session in list(self._sessions):
            session.end(leaving())
        await self._until_all_over(grace_seconds - leave_seconds)
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])

    async def serve(self, _requests: object, context: Context) -> None:
        """Serve one stream; raises nothing but the AbortError of its own status."""
        metadata = dict(context.invocation_metadata() or ())
        clock = self._parts.clock
        with server_span("grpc", METHOD, traceparent_of(metadata)) as (span, traceparent):
            began = clock.monotonic_seconds()
            call = CallInfo(TRANSPORT, bearer_of(metadata), traceparent, began, clock.unix_seconds())
            refusal: RefusedError | None = None
            status = "CANCELLED"
            try:
                refusal = await self._serve(call, context)
                status = OK if refusal is None else refusal.reason
            except Exception:
                logger.exception("a stream failed", extra={"method": METHOD})
                refusal = RefusedError(Reason.INTERNAL, "an internal fault; open another stream")
                status = refusal.reason
            finally:
                self._observer.call_ended("grpc", METHOD, status, clock.monotonic_seconds() - began)
            if refusal is not None:
                mark_failed(span, GRPC_STATUS[refusal.reason].name, refusal.reason)
        if refusal is not None:
            await _abort(context, refusal)

    async def _serve(self, call: CallInfo, context: Context) -> RefusedError | None:
        if self._is_draining:
            return leaving()
        try:
            identity = await self._authenticate(METHOD, call)
        except RefusedError as refusal:
            return refusal
        assert isinstance(identity, ServiceIdentity), "the access matrix admits workers only"
        session = StreamSession(self._parts, identity, call.traceparent, TRANSPORT, self._spawn, self._turn)
        self._sessions.add(session)
        self._all_over.clear()
        try:
            await _Transport(session, context, self._spawn).run()
            return session.failure
        finally:
            session.close()
            self._sessions.discard(session)
            if not self._sessions:
                self._all_over.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task that outlives its stream, kept from being collected."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of a stream failed", exc_info=error)

    async def _until_all_over(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_over.wait()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._parts.config.watch_seconds)
            try:
                await self.run_once()
            except Exception:
                logger.exception("the watch over the streams failed once")


async def _abort(context: Context, refusal: RefusedError) -> None:
    """End with a status; a client that takes no answer is waited for by this call alone, and may go away meanwhile."""
    try:
        await context.abort_with_status(to_grpc_status(refusal))
    except grpc.aio.AbortError:
        raise
    except Exception:
        logger.debug("a stream ended without its status", exc_info=True)


class _Transport:
    """Carries one session over one call."""

    def __init__(
        self,
        session: StreamSession,
        context: Context,
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
    ) -> None:
        self._session = session
        self._context = context
        self._spawn = spawn
        self._is_handling = False

    async def run(self) -> None:
        """Until the stream is over; a cancelled call passes its CancelledError through."""
        session = self._session
        reading = self._spawn(self._read())
        writing = self._spawn(self._write())
        try:
            over = asyncio.ensure_future(session.over.wait())
            try:
                await asyncio.wait({reading, writing, over}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
            if not writing.done():
                await self._end(reading, writing)
        finally:
            self._stop_reading(reading)
            writing.cancel()

    async def _end(self, reading: asyncio.Task[None], writing: asyncio.Task[None]) -> None:
        """Answer what was taken; a client that is to be refused may be one that takes no answer."""
        session = self._session
        self._stop_reading(reading)
        is_orderly = session.failure is None or session.failure.reason is Reason.UNAVAILABLE
        flushing = asyncio.ensure_future(self._flush(reading, writing))
        stalled = asyncio.ensure_future(session.stalled.wait())
        try:
            seconds = None if is_orderly else session.config.flush_seconds
            await asyncio.wait({flushing, stalled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flushing.cancel()
            stalled.cancel()

    async def _flush(self, reading: asyncio.Task[None], writing: asyncio.Task[None]) -> None:
        await asyncio.wait({reading})
        await self._session.settle()
        self._session.outbox.close()
        await asyncio.wait({writing})

    def _stop_reading(self, reading: asyncio.Task[None]) -> None:
        """Never in the middle of a frame: half of its events might be submitted and none answered."""
        self._session.over.set()
        if not self._is_handling:
            reading.cancel()

    async def _read(self) -> None:
        session = self._session
        while not session.over.is_set():
            message = await self._next_message()
            if message is None:
                return
            self._is_handling = True
            try:
                await session.handle(message)
            except RefusedError as refusal:
                session.end(refusal)
            except Exception:
                logger.exception("a frame failed", extra={"method": METHOD})
                session.end(RefusedError(Reason.INTERNAL, "an internal fault; open another stream"))
            finally:
                self._is_handling = False

    async def _next_message(self) -> bytes | None:
        """None at the end of the client's frames, and when the call is gone."""
        try:
            message = await self._context.read()
        except Exception:
            logger.debug("a stream could not be read", exc_info=True)
            return None
        return message if isinstance(message, bytes) else None

    async def _write(self) -> None:
        try:
            await self._session.outbox.run(_writer(self._context))
        except Exception:
            logger.debug("a stream could not be written", exc_info=True)
            self._session.outbox.drop()


def _writer(context: Context) -> Callable[[bytes], Awaitable[None]]:
    async def write(message: bytes) -> None:
        await context.write(message)

    return write


def handler(streams: StreamServer) -> grpc.RpcMethodHandler[Any, Any]:
    """The method's handler; bytes are parsed in it, gRPC itself would answer malformed ones with INTERNAL."""
    return grpc.stream_stream_rpc_method_handler(streams.serve)
