"""What the tests' JWKS server answers, and what it was asked."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class JwksServer:
    """Set the answer; read the requests."""

    url: str = ""
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
