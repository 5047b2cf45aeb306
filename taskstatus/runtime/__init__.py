"""Long-lived loops of the service process: the group-commit lanes."""
