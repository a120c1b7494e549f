"""Programs that workloads and agents find by name on every node."""
