"""The SDK's fake answers as the service does: one story told to both, and compared line by line (W-5)."""

from __future__ import annotations

from taskstatus.application.identity import Role
from taskstatus.sdk import TokenProvider
from taskstatus.sdk.testing import FakeTaskStatus
from tests.integration.service.conftest import OpenWith, Site
from tests.support.clients import unique
from tests.support.sdk_journal import Journal
from tests.support.sdk_script import COORDINATOR, PARSER, SEARCHER, cast, play

ROLES = {COORDINATOR: (Role.COORDINATOR, Role.BUSINESS), PARSER: (Role.WORKER,), SEARCHER: (Role.WORKER,)}


async def told_to_the_service(site: Site, run: str) -> Journal:
    """The story as the real service answers it."""

    def token_of(producer: str) -> TokenProvider:
        token = site.tokens.service(producer, *ROLES[producer])
        return lambda: token

    async with cast(site.target, run, {producer: token_of(producer) for producer in ROLES}) as scene:
        return await play(scene)


async def told_to_the_fake(run: str) -> Journal:
    """The story as the fake answers it; its tokens are the producers' names."""

    def token_of(producer: str) -> TokenProvider:
        return lambda: producer

    tokens = {producer: token_of(producer) for producer in ROLES}
    async with FakeTaskStatus() as fake, cast(fake.target, run, tokens) as scene:
        return await play(scene)


async def test_w5_fake_answers_a_coordinators_story_as_the_service_does(open_with: OpenWith) -> None:
    run = unique("story")

    real = (await told_to_the_service(await open_with(), run)).lines
    fake = (await told_to_the_fake(run)).lines

    assert [what for what, _ in fake] == [what for what, _ in real]
    for number, (told, known) in enumerate(zip(fake, real, strict=True)):
        assert told == known, f"line {number}"
    refusals = {answer[1] for _, answer in real if isinstance(answer, tuple)}
    assert {"NOT_CANCELLABLE", "ALREADY_CLASSIFIED", "TOKEN_REVOKED", "VERSION_MISMATCH"} <= refusals
