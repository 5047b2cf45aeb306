"""What only a real server can show: plans, costs, failures."""
