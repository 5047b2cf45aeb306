"""Credentials: who calls (JWTs of services and people), what an execution may do, and tokens for browsers.

Three families of keys that never stand in for one another:

- **identity** (``identity_verifier``): keys of other parties, by (issuer, kid), from the identity file. The issuer, not
  the token's content, decides whether a token speaks for a service or for a person.
- **execution** (``execution_credentials``): our own secrets, from which a token key and a handle key are derived.
- **realtime** (``realtime_tokens``): our own ES256 key, whose public half Centrifugo holds.

Every way in which a credential can be wrong gives the same answer, so that a forger learns nothing; only a genuine
identity token past its ``exp`` is told apart (TOKEN_EXPIRED). What was wrong is logged as a fixed label, never with
the token or its claims.
"""

from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.adapters.tokens.execution_credentials import JwtExecutionCredentials
from taskstatus.adapters.tokens.identity_verifier import JwtIdentityVerifier
from taskstatus.adapters.tokens.realtime_tokens import EcdsaRealtimeTokens

__all__ = ["CredentialConfigError", "EcdsaRealtimeTokens", "JwtExecutionCredentials", "JwtIdentityVerifier"]
