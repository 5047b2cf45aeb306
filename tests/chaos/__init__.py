"""Real processes under load and faults, judged by the validators of ``tests.history`` (pitfalls.md C2, style.md 11)."""
