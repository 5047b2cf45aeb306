"""What one batch of events costs the database: the same at 3 and at 300 steps per task, to the last row read."""

from __future__ import annotations

from bench.counting import costs
from scripts.stack.devkeys import DevKeys

TASKS = 20


async def test_e6_statements_and_row_reads_per_event_are_equal_at_3_and_300_steps(
    database_url: str, dev_keys: DevKeys
) -> None:
    few, many = [await costs(database_url, dev_keys.execution_keys_file, steps, TASKS) for steps in (3, 300)]
    assert [cost.counters for cost in many] == [cost.counters for cost in few]
    # BEGIN, a lock, a write to each of task, step, dedup, events and outbox, COMMIT: something was counted.
    assert all(cost.statements >= 8 and cost.rows_read >= TASKS for cost in few)


async def test_e6_statements_of_a_batch_do_not_grow_with_its_events(database_url: str, dev_keys: DevKeys) -> None:
    small, large = [await costs(database_url, dev_keys.execution_keys_file, 3, tasks) for tasks in (2, 100)]
    assert [cost.statements for cost in large] == [cost.statements for cost in small]


async def test_e6_a_batch_of_an_odd_size_costs_a_few_statements_more(database_url: str, dev_keys: DevKeys) -> None:
    few, odd = [await costs(database_url, dev_keys.execution_keys_file, 3, tasks) for tasks in (3, 99)]
    assert all(less.statements <= cost.statements <= less.statements + 14 for less, cost in zip(few, odd, strict=True))
