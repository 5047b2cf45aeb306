"""Verified tokens are remembered briefly, within bounds, and never past their end (pitfalls C6)."""

from __future__ import annotations

import pytest

from taskstatus.adapters.tokens import JwtIdentityVerifier
from taskstatus.adapters.tokens.identity_file import IssuerKind, TrustedIssuer
from taskstatus.adapters.tokens.keys import VerificationKey, secret_key
from taskstatus.adapters.tokens.lru import LruCache
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

from .support import AUDIENCE, NOW, SERVICE_CLAIMS, SERVICE_SECRET, SERVICES, FakeClock, sign

TOKEN = sign(SERVICE_CLAIMS)


class CountingKeySet:
    """One key, replaceable, that counts how often it was looked up, which is once per full verification."""

    def __init__(self) -> None:
        self.epoch = 0
        self.lookups = 0
        self.key: VerificationKey | None = secret_key("k1", SERVICE_SECRET)

    async def find(self, kid: str) -> VerificationKey | None:
        self.lookups += 1
        return self.key

    async def aclose(self) -> None:
        """Nothing is in flight."""


@pytest.fixture
def keys() -> CountingKeySet:
    return CountingKeySet()


def verifier_of(keys: CountingKeySet, clock: FakeClock, cache_entries: int = 10) -> JwtIdentityVerifier:
    issuer = TrustedIssuer(SERVICES, AUDIENCE, IssuerKind.SERVICE, keys)
    return JwtIdentityVerifier({SERVICES: issuer}, clock, cache_entries=cache_entries)


@pytest.mark.asyncio
async def test_second_use_of_a_token_is_answered_from_the_cache(keys: CountingKeySet, clock: FakeClock) -> None:
    verifier = verifier_of(keys, clock)
    first = await verifier.verify(TOKEN)
    assert await verifier.verify(TOKEN) is first
    assert keys.lookups == 1


@pytest.mark.asyncio
async def test_cache_is_keyed_by_the_whole_token(keys: CountingKeySet, clock: FakeClock) -> None:
    verifier = verifier_of(keys, clock)
    await verifier.verify(TOKEN)
    head, _, signature = TOKEN.rpartition(".")
    forged = f"{head}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"
    with pytest.raises(RefusedError):
        await verifier.verify(forged)


@pytest.mark.asyncio
async def test_token_is_verified_again_after_the_cache_period(keys: CountingKeySet, clock: FakeClock) -> None:
    verifier = verifier_of(keys, clock)
    await verifier.verify(TOKEN)
    clock.advance(59)
    await verifier.verify(TOKEN)
    assert keys.lookups == 1
    clock.advance(1)
    await verifier.verify(TOKEN)
    assert keys.lookups == 2


@pytest.mark.asyncio
async def test_cached_token_ends_at_its_exp(keys: CountingKeySet, clock: FakeClock) -> None:
    verifier = verifier_of(keys, clock)
    token = sign({**SERVICE_CLAIMS, "exp": NOW + 5})
    await verifier.verify(token)
    clock.advance(5)
    with pytest.raises(RefusedError) as caught:
        await verifier.verify(token)
    assert caught.value.reason is Reason.TOKEN_EXPIRED


@pytest.mark.asyncio
async def test_wall_clock_set_back_does_not_lengthen_the_cache_period(keys: CountingKeySet, clock: FakeClock) -> None:
    verifier = verifier_of(keys, clock)
    await verifier.verify(TOKEN)
    clock.monotonic += 60
    await verifier.verify(TOKEN)
    assert keys.lookups == 2


@pytest.mark.asyncio
async def test_rotation_drops_what_the_old_keys_verified(keys: CountingKeySet, clock: FakeClock) -> None:
    verifier = verifier_of(keys, clock)
    await verifier.verify(TOKEN)
    keys.key = None
    keys.epoch += 1
    with pytest.raises(RefusedError) as caught:
        await verifier.verify(TOKEN)
    assert caught.value.reason is Reason.UNAUTHENTICATED


@pytest.mark.asyncio
async def test_refusal_is_not_remembered(keys: CountingKeySet, clock: FakeClock) -> None:
    verifier = verifier_of(keys, clock)
    key, keys.key = keys.key, None
    with pytest.raises(RefusedError):
        await verifier.verify(TOKEN)
    keys.key = key
    assert await verifier.verify(TOKEN)


@pytest.mark.asyncio
async def test_cache_is_bounded(keys: CountingKeySet, clock: FakeClock) -> None:
    verifier = verifier_of(keys, clock, cache_entries=2)
    tokens = [sign({**SERVICE_CLAIMS, "jti": str(number)}) for number in range(3)]
    for token in tokens:
        await verifier.verify(token)
    await verifier.verify(tokens[2])
    assert keys.lookups == 3
    await verifier.verify(tokens[0])
    assert keys.lookups == 4


def test_lru_forgets_what_was_used_least_recently() -> None:
    cache: LruCache[bytes, int] = LruCache(2)
    cache.put(b"a", 1)
    cache.put(b"b", 2)
    assert cache.get(b"a") == 1
    cache.put(b"c", 3)
    assert (cache.get(b"a"), cache.get(b"b"), cache.get(b"c"), len(cache)) == (1, None, 3, 2)
    cache.drop(b"a")
    cache.drop(b"a")
    assert len(cache) == 1


def test_lru_needs_a_capacity() -> None:
    with pytest.raises(ValueError, match="capacity"):
        LruCache(0)
