"""The second check before STALE, over real streams and databases (H-2, H-4, H-6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from taskstatus_pb.v1 import common_pb2

from taskstatus.domain.ids import parse_execution_id
from tests.integration.service.conftest import OpenSite
from tests.integration.service.health_ward import Ward, open_ward
from tests.support.streams import StreamClient, progress

NEAR_SECONDS = 55
"""Of a timeout of 60: so much silence is asked about ahead of its deadline."""


@pytest.fixture
async def ward(open_site: OpenSite, database_url: str) -> AsyncIterator[Ward]:
    """See ``open_ward``; the first replica holds the streams."""
    async with open_ward(open_site, database_url) as ward:
        yield ward


async def bound(ward: Ward, stream: StreamClient) -> tuple[Any, int]:
    """A running execution, and its number on the stream."""
    context = await ward.running()
    return context, await stream.key_of(context)


async def answer(stream: StreamClient, key: int, seq: int) -> None:
    """Beat once asked to, as the SDK does."""
    await stream.notice(lambda notice: notice.stream_execution_key == key and notice.beat_now)
    assert (await stream.beat((key, seq))).accepted == 1


async def seconds_left(ward: Ward, context: Any) -> int:
    """Until the deadline of an execution."""
    ((seconds,),) = await ward.sql(
        "SELECT TIMESTAMPDIFF(SECOND,NOW(6),deadline_at) FROM task_execution_lease WHERE execution_id=%s",
        parse_execution_id(context.execution_id),
    )
    return int(seconds)


async def test_h6_worker_that_answers_on_its_stream_is_not_told_stale(ward: Ward) -> None:
    async with StreamClient(ward.site.worker) as stream:
        context, key = await bound(ward, stream)
        await ward.be_silent(context)

        recorded, _ = await asyncio.gather(ward.site.service.reconciler.run_once(), answer(stream, key, 1))

        assert recorded == 0

        async def renewed() -> bool:
            return await seconds_left(ward, context) > 30

        await ward.until(renewed, "the answer is in the lease")
        assert await ward.look() == 0
        assert await ward.signs(context) == []
        assert (await ward.snapshot(context)).task_version == 2, "asking makes no version"


async def test_h6_worker_that_reports_when_asked_is_not_told_stale(ward: Ward) -> None:
    async with StreamClient(ward.site.worker) as stream:
        context, key = await bound(ward, stream)
        await ward.be_silent(context)

        async def report() -> None:
            await stream.notice(lambda notice: notice.beat_now)
            (result,) = await stream.report(progress(key, 2, 1))
            assert result.accepted

        recorded, _ = await asyncio.gather(ward.site.service.reconciler.run_once(), report())

        assert (recorded, await ward.signs(context)) == (0, [])


async def test_h6_worker_that_stays_silent_when_asked_is_told_stale_and_comes_back(ward: Ward) -> None:
    async with StreamClient(ward.site.worker) as stream:
        context, key = await bound(ward, stream)
        await ward.be_silent(context)

        assert await ward.site.service.reconciler.run_once() == 1

        notice = await stream.notice(lambda notice: notice.health == common_pb2.STALE or notice.beat_now)
        assert notice.stream_execution_key == key
        assert (await stream.beat((key, 1))).accepted == 1
        await ward.until_back(context)
        assert await ward.signs(context) == ["SILENT", "BEATING"]


async def test_h6_replica_without_the_stream_is_forestalled_by_the_one_that_asks_ahead(ward: Ward) -> None:
    async with StreamClient(ward.site.worker) as stream:
        context, key = await bound(ward, stream)
        await ward.be_silent(context, seconds=NEAR_SECONDS)

        await asyncio.gather(ward.look(), answer(stream, key, 1))

        async def renewed() -> bool:
            return await seconds_left(ward, context) > 30

        await ward.until(renewed, "the answer is in the lease before its deadline")
        assert await ward.sites[1].service.reconciler.run_once() == 0
        assert await ward.signs(context) == []


async def test_h6_judgement_of_a_replica_without_the_stream_stands(ward: Ward) -> None:
    async with StreamClient(ward.site.worker) as stream:
        context, key = await bound(ward, stream)
        await ward.be_silent(context)
        assert await ward.sites[1].service.reconciler.run_once() == 1
        assert (await stream.beat((key, 1))).accepted == 1
        await ward.until_back(context)
        assert await ward.signs(context) == ["SILENT", "BEATING"]


async def test_h6_switched_off_nobody_is_asked(open_site: OpenSite, database_url: str) -> None:
    async with (
        open_ward(open_site, database_url, health_second_check="false") as ward,
        StreamClient(ward.site.worker) as stream,
    ):
        context, key = await bound(ward, stream)
        await ward.be_silent(context)
        assert await ward.site.service.reconciler.run_once() == 1
        await stream.beat((key, 1))
        await ward.until_back(context)
        assert not any(notice.beat_now for notice in stream.notices)
