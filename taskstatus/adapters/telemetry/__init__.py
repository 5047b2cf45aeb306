"""Metrics, structured logs and traces (N-3)."""
