"""Random commands of every kind, one after the other, against a pure model: on the in-memory store and on real ones."""
