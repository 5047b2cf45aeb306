"""The named validators, as data: what a run with faults must have kept (pitfalls.md C2, style.md 11).

Each is a pure function from a ``History`` to sentences about what is wrong; none means kept. The simulation and the
chaos run call ``check``; ``test_validators.py`` shows that each of them fails on a history doctored for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.history import rules_channels, rules_events, rules_health, rules_runs, rules_state, rules_workflows
from tests.history.model import History

Rule = Callable[[History], Iterator[str]]

VALIDATORS: tuple[Rule, ...] = (
    rules_events.acknowledged_exists_once_with_its_version,
    rules_events.unknown_is_there_once_or_not_at_all,
    rules_events.committed_event_is_answered_with_its_first_result,
    rules_events.rejected_left_nothing,
    rules_events.one_effect_per_event_id,
    rules_events.broken_stream_waits,
    rules_events.one_execution_per_attempt,
    rules_events.one_task_per_client_key,
    rules_events.every_event_is_answered,
    rules_state.versions_are_gapless,
    rules_state.fold_equals_rows,
    rules_state.terminal_never_reverts,
    rules_state.leases_follow_steps,
    rules_state.retries_supersede,
    rules_state.counters_are_the_sum_of_the_steps,
    rules_health.health_alternates,
    rules_health.health_is_of_running_executions,
    rules_health.health_flags_follow_facts,
    rules_health.patience_grows,
    rules_health.lost_comes_late,
    rules_health.stale_is_true,
    rules_health.silence_is_told,
    rules_health.signs_of_life_end_stale,
    rules_health.beats_are_answered_truly,
    rules_health.acknowledged_beats_are_kept,
    rules_runs.runs_follow_one_another,
    rules_runs.ended_runs_keep_their_outcome,
    rules_runs.skips_name_a_result,
    rules_runs.cancelling_never_succeeds,
    rules_runs.revoked_credentials_are_dead,
    rules_runs.labels_follow_their_facts,
    rules_runs.changes_are_audited,
    rules_workflows.workflow_versions_are_gapless,
    rules_workflows.workflows_follow_their_tasks,
    rules_workflows.aggregates_differ,
    rules_channels.outbox_reaches_every_channel,
    rules_channels.every_version_has_its_rows,
    rules_channels.nothing_uncommitted_is_shown,
    rules_channels.detail_shows_one_version,
    rules_channels.detail_never_goes_back,
    rules_channels.channels_hold_only_their_own,
    rules_channels.outbox_is_drained,
    rules_channels.without_faults_nothing_is_published_twice,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One sentence of one validator."""

    validator: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.validator}: {self.sentence}"


def check(history: History) -> list[Violation]:
    """Everything that is wrong, in the order of the validators; empty when the run kept every rule."""
    return [Violation(rule.__name__, sentence) for rule in VALIDATORS for sentence in rule(history)]
