"""The store's ports in memory: deterministic, for unit tests and simulations; same contract suite as MySQL's."""
