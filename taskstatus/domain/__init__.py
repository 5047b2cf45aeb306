"""Pure, synchronous rules: no I/O, clock, randomness, logging, protobuf or SQL."""
