"""The physical model: what the kernel does with a workload's memory at a limit."""
