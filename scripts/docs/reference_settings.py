"""Every ``TASKSTATUS_`` variable: the processes' settings, and those of the developer stack."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from scripts.docs.markdown import code, page, prose, table
from taskstatus.settings import PREFIX, Settings

SECRETS_BY_FILE = ("database_url", "redis_url", "centrifugo_api_key")

MEANINGS: Mapping[str, str] = {
    "database_url": "`mysql://user:password@host:port/schema`; `mysql+aiomysql://` chooses the other driver",
    "redis_url": "wake-up hints for the relay; without it the relay polls",
    "grpc_listen": "where `taskstatus serve` listens",
    "grpc_reflection": "whether gRPC reflection is served",
    "grpc_tls_cert_file": "PEM certificate chain of the gRPC server; with the key: TLS",
    "grpc_tls_key_file": "PEM private key of the gRPC server",
    "grpc_tls_client_ca_file": "PEM of the CA whose client certificates are required: mutual TLS",
    "rest_listen": "where `python -m gateway_rest` listens",
    "cors_origins": "origins whose pages may call REST, separated by commas",
    "metrics_listen": "where this process serves `/metrics`",
    "identity_file": "JSON: the issuers of services and of people; needed by serve and gateway_rest",
    "execution_keys_file": "JSON: the secrets behind execution tokens and handles; needed by serve and gateway_rest",
    "execution_token_seconds": "lifetime of an execution token",
    "realtime_key_file": "PEM, P-256 private key of the browsers' tokens; needed by serve and gateway_rest",
    "realtime_key_id": "`kid` of that key",
    "centrifugo_grpc_target": "Centrifugo's gRPC API, for the relay",
    "centrifugo_api_url": "Centrifugo's HTTP API, for the relay",
    "centrifugo_api_key": "key of both APIs; needed by the relay",
    "centrifugo_public_url": "the WebSocket address that browsers are told",
    "relay_publisher": "`grpc` or `http`: which of the two APIs the relay uses",
    "version_epoch": "epoch of the detail channels' versions; change it after the database was restored",
    "log_format": "`json` or `text`",
    "log_level": "DEBUG, INFO, WARNING or ERROR",
    "lanes": "lanes of a process, each with one transaction at a time",
    "lane_batch_commands": "commands in one transaction, at most",
    "lane_cached_tasks": "tasks kept in memory as last committed, about 4 KB each",
    "lane_queue_commands": "commands waiting in one lane; beyond it RATE_LIMITED",
    "events_per_second": "events that one service identity may report per second in the long run",
    "burst_events": "how many of them at once",
    "heartbeats_per_second": "heartbeats that one service identity may send per second in the long run",
    "burst_heartbeats": "how many of them at once",
    "heartbeat_persist_seconds": "how long a heartbeat may stay in memory before it is persisted",
    "heartbeat_longest_interval_seconds": "how rarely a worker behind a slow link may be asked to beat",
    "health_grace_seconds": "how long after a start, an outage or a stall no silence counts; 0: not at all",
    "health_second_check": "whether silent workers are asked for a beat on their streams before they are shown STALE",
    "health_batch": "health changes that one round, or one wave of recoveries, submits at most",
    "worker_lost_after_seconds": "how long a step is STALE before WORKER_LOST asks for a person",
    "stale_stuck_after_seconds": "how long a step is STALE before it is listed as stuck work",
    "oldest_accepted_event_seconds": "age beyond which an event is refused with EVENT_TOO_OLD",
    "dynamic_steps": "dynamic steps of one run, where the task names no bound of its own",
    "dynamic_depth": "how deep dynamic steps may lie below one another, likewise",
    "dynamic_parallel": "open executions of dynamic steps at a time, likewise",
    "dynamic_per_minute": "registrations of dynamic steps in any 60 seconds, likewise",
    "stream_window_items": "events and beats of one stream that may wait for their answer; beyond it WINDOW_EXCEEDED",
    "stream_bound_executions": "executions that one stream may bind at a time",
    "stream_age_seconds": "age at which a stream is asked to move to another connection",
    "database_writers": "connections for transactions, per process; at least one per lane, and some for commands",
    "database_readers": "connections for reads, per process",
}

STACK: Mapping[str, tuple[str, str]] = {
    "TASKSTATUS_DB": ("mysql", "`mysql` or `mariadb`: the database of `make up`"),
    "TASKSTATUS_MYSQL_URL": ("", "a MySQL server to use instead of an own one"),
    "TASKSTATUS_MARIADB_URL": ("", "a MariaDB server to use instead of an own one"),
    "TASKSTATUS_MYSQLD": ("", "the `mysqld` program to start"),
    "TASKSTATUS_MARIADBD": ("", "the `mariadbd` program to start"),
    "TASKSTATUS_REDIS_SERVER": ("", "the `redis-server` program to start"),
    "TASKSTATUS_CENTRIFUGO": ("", "the `centrifugo` program to start"),
    "TASKSTATUS_STACK_PRIVATE": ("", "`1`: do not use programs found on the machine"),
    "TASKSTATUS_CACHE": ("~/.cache/taskstatus", "where installed servers and tools are kept"),
    "TASKSTATUS_DEBIAN_MIRROR": ("", "the Debian mirror from which servers are installed"),
    "TASKSTATUS_GO": ("", "the `go` program that builds Centrifugo"),
    "TASKSTATUS_PYTHON": ("", "the Python that makes `.venv`"),
    "TASKSTATUS_TEST_WORKDIR": ("", "set by `make test`: the folder of its servers"),
    "TASKSTATUS_PROCESS_REGISTRY": ("", "set by `make test`: the list of processes to end"),
}
"""(default, meaning) of what only `make` reads; TASKSTATUS_REDIS_URL there also names a Redis to use."""


def settings() -> str:
    """Both tables."""
    rows = [_row(name, field.default) for name, field in Settings.model_fields.items()]
    stack = [(code(name), code(default), meaning) for name, (default, meaning) in STACK.items()]
    secrets = ", ".join(code(f"{PREFIX}{name.upper()}_FILE") for name in SECRETS_BY_FILE)
    intro = f"""All processes read the same variables and pass over what they do not need; `taskstatus check-config`
        prints them, secrets masked, and tries the files and the database. Durations are in seconds. A secret may be
        given as a path to a file: {secrets}. Traces are sent where `OTEL_EXPORTER_OTLP_ENDPOINT` says, if it is set."""
    of_make = """Not read by any process of the product. `TASKSTATUS_REDIS_URL`, when set, also names a Redis that
        `make up` uses."""
    heads = ("variable", "default", "meaning")
    return page("Settings", prose(intro), table(heads, rows), "## Of `make` alone", prose(of_make), table(heads, stack))


def _row(name: str, default: Any) -> tuple[str, str, str]:
    return code(f"{PREFIX}{name.upper()}"), _default(default), MEANINGS[name]


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if value is None or value == ():
        return "not set"
    assert not isinstance(value, SecretStr | Path)
    return code(str(value).lower() if isinstance(value, bool) else value)
