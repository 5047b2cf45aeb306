"""Servers that the environment names by a URL: asked who they are before anything is built on them."""

from urllib.parse import SplitResult, urlsplit, urlunsplit

from scripts.stack import probes, versions
from scripts.stack.binaries import REDIS, Server
from scripts.stack.progress import StackError

DEFAULT_PORTS = {"mysql": 3306, "mariadb": 3306, "redis": 6379}


def check(server: Server, url: str) -> str:
    """Who answers at ``url``, for people to read; StackError when nobody does, or another product."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[server.product]
    remedy = f"start it, or unset {server.url_variable}"
    if server is REDIS:
        if not probes.redis_answers(host, port):
            raise StackError(f"no Redis answers at {without_password(url)}", remedy)
        return "Redis"
    greeting = probes.mysql_greeting(host, port)
    version = versions.of_greeting(greeting) if greeting else None
    if version is None:
        raise StackError(f"no {server.title} answers at {without_password(url)}", remedy)
    if not server.accepts(version):
        raise StackError(f"{server.url_variable} leads to {version}; wanted is {server.wish}", remedy)
    return str(version)


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.hostname or ""
    place = f"{parts.username or ''}:***@{host}" + (f":{parts.port}" if parts.port else "")
    return urlunsplit(SplitResult(parts.scheme, place, parts.path, parts.query, ""))
