"""A seeded simulation of the whole write path: clients, two replicas' lanes, relays and channels on a virtual clock.

``python -m tests.simulation --seeds N`` runs N schedules; ``--seed X`` runs one again and prints what happened. One
seed decides everything: the world, the faults, the order in which ready callbacks run. See
``docs/decisions/simulation-design.md``.
"""
