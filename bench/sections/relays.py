"""How fast a full outbox drains: summary rows, and detail rows apart, with one and two relays, by each publisher."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from prometheus_client.parser import text_string_to_metric_families

from bench import fill, verify
from bench.cpu import FOREIGN, CpuMeter
from bench.loads import WorkerFailedError
from bench.plan import Plan
from bench.plots import bars
from bench.prepare import Order, prepare
from bench.section import Aim, SectionResult, table
from bench.stack import RELAY, BenchServers, BenchStack
from bench.verify import Check
from scripts.stack.progress import Progress

TITLE = "Draining the outbox"
AIM = 20_000.0
TEMPLATE_TASKS = 100
GRPC, HTTP = "grpc", "http"
DRAIN_SECONDS = 900.0
TAKEN = "relay_published_total"
RELEASE = f"UPDATE task_outbox SET due_at=UTC_TIMESTAMP(6) WHERE due_at={fill.NEVER}"
LEFT = "SELECT EXISTS(SELECT 1 FROM task_outbox WHERE due_at IS NOT NULL)"
SECONDS = "SELECT TIMESTAMPDIFF(MICROSECOND, %s, MAX(published_at)) FROM task_outbox"
NOTE = (
    "The relays run and have nothing to do; then all rows become due by one statement, and time runs from its commit to"
    " the last row marked PUBLISHED. Nobody is subscribed. Every detail row belongs to a task of its own and is"
    " rendered from its rows: no detail stands for another here."
)


@dataclass(frozen=True, slots=True)
class Drain:
    """One outbox drained; CPU seconds by part, the relays together."""

    what: str
    publisher: str
    relays: int
    rows: int
    seconds: float
    cpu: dict[str, float]

    @property
    def per_second(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds


def run(servers: BenchServers, plan: Plan, progress: Progress) -> SectionResult:
    """Each outbox in a schema of its own."""
    drains, checks = [], []
    for what, rows in (("summary", plan.summary_rows), ("detail", plan.detail_rows)):
        for publisher in (GRPC, HTTP):
            for relays in (1, 2):
                with servers.site({"TASKSTATUS_RELAY_PUBLISHER": publisher}, serving=False) as site:
                    drain, found = _drain(site, what, rows, relays, publisher)
                drains.append(drain)
                checks += found
                progress.say(f"    {what}, {publisher}, {relays} relays: {drain.per_second:,.0f} rows/s")
    return SectionResult(
        TITLE,
        [*_table(drains), NOTE],
        [_aim(drains)],
        [bars("relay", "Rows published per second", [(_name(drain), drain.per_second) for drain in drains])],
        checks,
        {_name(drain): asdict(drain) for drain in drains},
    )


def _drain(site: BenchStack, what: str, rows: int, relays: int, publisher: str) -> tuple[Drain, list[Check]]:
    prepare(site.database_url, site.keys.execution_keys_file, [Order("relay", TEMPLATE_TASKS)])
    added = (fill.fill_summaries if what == "summary" else fill.fill_details)(site.database_url, TEMPLATE_TASKS, rows)
    verify.change(site.database_url, f"UPDATE task_outbox SET due_at=NULL WHERE due_at<>{fill.NEVER}")
    started = [site.start_relay(f"{RELAY}-{number}") for number in range(relays)]
    meter = CpuMeter(site.pids)
    verify.change(site.database_url, RELEASE)
    began = verify.moment(site.database_url)
    meter.start()
    if not verify.becomes_zero(site.database_url, LEFT, DRAIN_SECONDS):
        raise WorkerFailedError(f"{rows} {what} rows did not drain within {DRAIN_SECONDS:.0f} s")
    cpu = meter.read()
    seconds = verify.number(site.database_url, SECONDS.replace("%s", f"'{began}'")) / 1e6
    name = f"{TITLE}: {what}, {publisher}, {relays}"
    checks = [
        Check(name, "rows published once", verify.number(site.database_url, PUBLISHED_ONCE), added),
        Check(name, "messages that Centrifugo took", _taken(site, relays), added),
        Check(name, "rows given up", verify.number(site.database_url, DEAD), 0),
    ]
    for number, identity in enumerate(started):
        site.stop(f"{RELAY}-{number}", identity)
    summed = {"relay": sum(value for key, value in cpu.items() if key.startswith(RELAY))}
    return Drain(what, publisher, relays, added, seconds, cpu | summed), checks


def _taken(site: BenchStack, relays: int) -> int:
    """By the relays' own counters: a row whose task is gone is marked without a message."""
    found = 0.0
    for number in range(relays):
        address = site.address(f"{RELAY}-{number}", "TASKSTATUS_METRICS_LISTEN")
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        families = text_string_to_metric_families(text)
        found += sum(sample.value for each in families for sample in each.samples if sample.name == TAKEN)
    return int(found)


PUBLISHED_ONCE = "SELECT COUNT(*) FROM task_outbox WHERE status='PUBLISHED' AND attempts=1"
DEAD = "SELECT COUNT(*) FROM task_outbox WHERE status='DEAD'"


def _table(drains: Sequence[Drain]) -> list[str]:
    body = [
        [
            drain.what,
            drain.publisher,
            str(drain.relays),
            f"{drain.rows:,}",
            f"{drain.per_second:,.0f}",
            *(f"{1000 * drain.cpu[name] / drain.rows:.3f}" for name in ("relay", "database", "centrifugo")),
            f"{drain.cpu[FOREIGN] / drain.seconds:.2f}",
        ]
        for drain in drains
    ]
    head = ("rows", "publisher", "relays", "number", "rows/s", "relay", "database", "Centrifugo", "others, cores")
    return [*table(head, body), "The parts' columns are CPU seconds per 1,000 rows.", ""]


def _aim(drains: Sequence[Drain]) -> Aim:
    best = max((d for d in drains if d.what == "summary" and d.relays == 1), key=lambda drain: drain.per_second)
    cores = {name: best.cpu[name] / best.seconds for name in ("relay", "database", "centrifugo")}
    return Aim(
        f"summary rows, one relay ({best.publisher})",
        f"≥ {AIM:,.0f} rows/s",
        f"{best.per_second:,.0f}/s",
        best.per_second >= AIM,
        "cores in use: " + ", ".join(f"{name} {value:.2f}" for name, value in cores.items()),
    )


def _name(drain: Drain) -> str:
    return f"{drain.what}, {drain.publisher}, {drain.relays}"
