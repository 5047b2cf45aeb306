"""Figures and limits, each read from the constant that holds it."""

from collections.abc import Iterable
from typing import Any

from gateway_rest import app, json_text, server
from relay import publisher, rendering
from relay.config import RelayConfig, UpkeepConfig
from scripts.docs.markdown import page, prose, table
from taskstatus.adapters.definitions import documents, publishing
from taskstatus.adapters.mysql import engine, list_table, session, transactions
from taskstatus.adapters.tokens import execution_credentials, realtime_tokens
from taskstatus.adapters.wake_up import BREAKER_SECONDS
from taskstatus.application import admin, executions, lookups, ports_health, ports_heartbeats, query, task_lists
from taskstatus.domain import channels, guards, ids, lease, records, text
from taskstatus.domain.heartbeat import TermBounds
from taskstatus.entrypoints.grpc.server import GrpcConfig
from taskstatus.entrypoints.grpc.stream_config import StreamConfig
from taskstatus.entrypoints.wire import decode, decode_event, decode_heartbeat, decode_terms, handlers, values
from taskstatus.runtime.health_reconciler import ReconcilerConfig
from taskstatus.runtime.heartbeat_coalescer import CoalescerConfig
from taskstatus.runtime.lanes import LaneConfig
from taskstatus.runtime.readiness import ReadinessConfig
from taskstatus.runtime.recoveries import RecoveriesConfig

Figure = tuple[str, Any]

LENGTHS: tuple[Figure, ...] = (
    ("tenant, owner, scope, product, business status", _same := text.TENANT_MAX),
    ("event id, command id", text.EVENT_ID_MAX),
    ("principal of a grant", text.PRINCIPAL_MAX),
    ("client keys, types, operation, producer, schema, error code, phase code", text.CODE_MAX),
    ("step id (`A-Z a-z 0-9 . _ -`)", text.STEP_ID_MAX),
    (f"client step key (the step id is `{text.DYNAMIC_STEP_PREFIX}` + key)", text.CLIENT_STEP_KEY_MAX),
    ("title, after trimming", text.TITLE_MAX),
    ("display name, phase label", text.LABEL_MAX),
    ("unit of progress, error category", text.UNIT_MAX),
    ("failure message", text.FAILURE_MESSAGE_MAX),
    ("reason of a decision", text.DECISION_REASON_MAX),
    ("diagnostics reference", text.REFERENCE_MAX),
    ("input reference", text.INPUT_REF_MAX),
    ("owner's channel name, percent-encoded", channels.CHANNEL_MAX),
)

COUNTS: tuple[Figure, ...] = (
    ("initial tasks of a workflow", decode.MAX_INITIAL_TASKS),
    ("known steps of a task", decode.MAX_KNOWN_STEPS),
    ("dependencies of a step", decode.MAX_DEPENDENCIES),
    ("grants in one request", decode.MAX_GRANTS),
    ("policy executors of a task", decode.MAX_POLICY_EXECUTORS),
    ("weight of a step", decode.MAX_WEIGHT),
    ("events of one BatchReportEvents", handlers.MAX_BATCH_EVENTS),
    ("heartbeats of one BatchHeartbeat", decode_heartbeat.MAX_BATCH_HEARTBEATS),
    ("items of one frame of StreamExecutions", (_streams := StreamConfig()).frame_items),
    ("items of one stream that wait for their answer", _streams.window_items),
    ("executions bound on one stream", _streams.bound_executions),
    ("events of one ListTaskEvents: default, most", (query.TIMELINE_LIMIT_DEFAULT, query.TIMELINE_LIMIT_MAX)),
    ("executions of one ListStuckTasks: default, most", (admin.STUCK_LIMIT_DEFAULT, admin.STUCK_LIMIT_MAX)),
    ("tasks of one page of a list: default, most", (task_lists.PAGE_LIMIT_DEFAULT, task_lists.PAGE_LIMIT_MAX)),
    ("ids of one BatchGetTaskStatus", task_lists.STATUSES_MAX),
    ("projects and roles of a person whose lists are made", task_lists.MEMBERSHIPS_MAX),
    ("tasks that one page looks at, whatever its filter lets through", list_table.LOOKS * list_table.LOOKED_AT_ONCE),
    ("events of one LookupEvent, and of one ListTraceEvents", (lookups.EVENTS_MAX, lookups.TRACE_EVENTS_MAX)),
    ("runs in a snapshot and in a detail message", records.RUNS_SHOWN),
    ("timeouts that an execution which flaps is given more, at most", lease.MAX_PATIENCE),
    ("operations of one publication", documents.MAX_OPERATIONS),
    ("data schemas of one publication", documents.MAX_SCHEMAS),
    ("status definitions of one publication", documents.MAX_STATUS_DEFINITIONS),
    ("statuses of one definition", documents.MAX_STATUSES),
    ("published versions of one tenant and scope", publishing.MAX_VERSIONS),
    ("`sourceSeq`", decode_event.MAX_SEQUENCE),
    ("integers in `data.value`", f"±{values.SAFE_INTEGER}"),
    ("JSON levels of `data.value`", values.DATA_MAX_DEPTH),
    ("JSON levels of a REST body", json_text.MAX_DEPTH),
    ("virtual buckets", ids.BUCKET_COUNT),
)


def limits() -> str:
    """All tables."""
    assert _same == text.OWNER_MAX == text.SCOPE_MAX == text.PRODUCT_MAX == text.BUSINESS_STATUS_MAX
    intro = """What can be set is in [settings.md](settings.md). Ids, keys and codes are visible ASCII without spaces;
        beyond a limit the answer is INVALID_ARGUMENT, for the size of `data` PAYLOAD_TOO_LARGE."""
    tables = {
        "Lengths in characters": LENGTHS,
        "Counts and numbers": COUNTS,
        "Sizes in bytes": _sizes(),
        "Times in seconds": _times(),
        "Lanes and pools": _lanes(),
        "Relay": _relay(),
    }
    parts = [part for title, figures in tables.items() for part in (f"## {title}", _table(figures))]
    return page("Figures and limits", prose(intro), *parts)


def _sizes() -> Iterable[Figure]:
    yield "`data.value` of an event", values.EVENT_DATA_MAX_BYTES
    yield "JSON Schema of one kind of data", documents.MAX_SCHEMA_BYTES
    yield "gRPC message", GrpcConfig("").max_message_bytes
    yield "answers of one stream that wait before it is read no further", _streams.waiting_bytes
    yield "REST body", app.RestSettings().max_body_bytes
    yield "realtime message (beyond it: DEAD)", rendering.PAYLOAD_MAX_BYTES
    yield "one request of the relay to Centrifugo", publisher.BATCH_BYTES


def _times() -> Iterable[Figure]:
    interval, timeout = decode.DEFAULT_HEARTBEAT_INTERVAL_SECONDS, decode.DEFAULT_HEARTBEAT_TIMEOUT_SECONDS
    persist = decode.HEARTBEAT_PERSIST_SECONDS
    readiness, grpc, retry = ReadinessConfig(), GrpcConfig(""), transactions.RetryLimits()
    health = ReconcilerConfig()
    yield "oldest accepted event", int(guards.OLDEST_ACCEPTED_EVENT.total_seconds())
    yield f"heartbeat interval, timeout (at least 3 intervals + {persist})", (interval, timeout)
    yield "heartbeat interval behind a slow link, at most", TermBounds().longest_interval_seconds
    yield "longest heartbeat timeout", decode.MAX_HEARTBEAT_TIMEOUT_SECONDS
    yield "health reconciler: a round every, if full, else", (health.busy_pause_seconds, health.idle_pause_seconds)
    yield "health reconciler: a stall is", health.stall_seconds
    yield (
        "silent workers on streams: asked ahead of their deadline, time to answer",
        (
            health.ask_ahead_seconds,
            CoalescerConfig().answer_seconds,
        ),
    )
    yield "activated and not started: stuck work after", ports_health.NOT_TAKEN_UP_SECONDS
    yield "longest `maxRunSeconds` of a step or task", decode_terms.MAX_RUN_SECONDS
    yield "execution token", execution_credentials.TOKEN_TTL_SECONDS
    yield "connection and subscription tokens of browsers, at most", realtime_tokens.MAX_TTL_SECONDS
    yield "one REST request", app.RestSettings().request_timeout_seconds
    yield "one statement: on the server, on the client", (engine.STATEMENT_LIMIT_SECONDS, session.CLIENT_LIMIT_SECONDS)
    yield "waiting for a row lock", engine.LOCK_WAIT_SECONDS
    yield "trying one transaction again, in all", retry.budget_seconds
    yield "readiness: looks every, forgives for", (readiness.check_every_seconds, readiness.forgive_seconds)
    yield "draining after SIGTERM: gRPC, REST", (grpc.drain_grace_seconds, server.GRACE_SECONDS)
    yield "stream: it is asked to move after, then ends after", (_streams.age_seconds, _streams.leave_seconds)
    yield "stream: a client that takes no answer is cut off after", _streams.stall_seconds
    yield "no wake-up hints after a failure of Redis", BREAKER_SECONDS


def _lanes() -> Iterable[Figure]:
    lanes, pools, retry = LaneConfig(), engine.PoolLimits(), transactions.RetryLimits()
    beats = CoalescerConfig()
    yield "lanes", lanes.lanes_per_shard
    yield "commands in one transaction", lanes.max_batch_commands
    yield "bytes in one transaction", lanes.max_batch_bytes
    yield "commands with which a lane does not wait for another's commit", lanes.small_batch_commands
    yield "longest such wait, milliseconds", lanes.held_seconds * 1000
    yield "commands waiting in one lane (then RATE_LIMITED)", lanes.max_queued_commands
    yield "tasks kept as last committed", lanes.cached_tasks
    yield "runs of one transaction (deadlock, lost connection)", retry.attempts
    yield "connections: writers, readers", (pools.writers, pools.readers)
    yield "bindings kept for handles", executions.DIRECTORY_SIZE
    yield "executions with a heartbeat in memory", beats.max_pending_executions
    yield "heartbeats in one statement", ports_heartbeats.MAX_PERSISTED_BEATS
    yield "executions bound by the streams of a process", beats.max_bindings
    yield "recoveries from STALE in memory", RecoveriesConfig().max_waiting
    yield "silent workers asked ahead in one round", ReconcilerConfig().ask_ahead_batch


def _relay() -> Iterable[Figure]:
    relay, upkeep = RelayConfig(), UpkeepConfig()
    yield "rows of one claim", relay.batch_rows
    yield "claims at once on a backlog", relay.turns_at_once
    yield "lease of a claim, s", relay.lease_seconds
    yield "one request to Centrifugo, s", relay.publish_timeout_seconds
    yield "retryable failures until DEAD (an outage is none)", relay.failure_budget
    yield "pause after a failure, s: first, longest", (relay.backoff_first_seconds, relay.backoff_most_seconds)
    yield "poll, s: busy, idle", (relay.poll_busy_seconds, relay.poll_idle_seconds)
    yield "pause in an outage, s: first, longest", (relay.outage_first_seconds, relay.outage_most_seconds)
    yield "published rows are kept, s", upkeep.published_retention_seconds
    yield "gauges every, cleaning every, s", (upkeep.gauge_interval_seconds, upkeep.clean_interval_seconds)


def _table(figures: Iterable[Figure]) -> str:
    return table(("what", "figure"), [(what, _shown(figure)) for what, figure in figures])


def _shown(figure: Any) -> str:
    if isinstance(figure, tuple):
        return ", ".join(map(_shown, figure))
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:g}" if isinstance(figure, float) else str(figure)
