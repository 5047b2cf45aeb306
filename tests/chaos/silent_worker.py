"""``python -m tests.chaos.silent_worker CONTEXT``: a worker of the SDK that starts one execution and beats on and on.

A process of its own, so that it can be paused as a whole. ``CHAOS_TARGET`` and ``CHAOS_TOKEN`` say where and who.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from unittest.mock import PropertyMock, patch

from taskstatus.sdk import ExecutionContext, StreamReporter, connect
from taskstatus.sdk.stream_link import StreamLink

TARGET_VARIABLE, TOKEN_VARIABLE = "CHAOS_TARGET", "CHAOS_TOKEN"


async def work(context: ExecutionContext) -> None:
    """Bind, start, and beat until the process ends."""
    token = os.environ[TOKEN_VARIABLE]
    async with connect(os.environ[TARGET_VARIABLE], lambda: token) as connection, StreamReporter(connection) as stream:
        execution = await stream.bind(context)
        await execution.started()
        await execution.stopped.wait()


if __name__ == "__main__":
    # Its link takes no time, whatever this machine measures: the terms stay as activated (H-6).
    with patch.object(StreamLink, "round_trip_ms", PropertyMock(return_value=0.0), create=True):
        asyncio.run(work(ExecutionContext.from_dict(json.loads(sys.argv[1]))))
