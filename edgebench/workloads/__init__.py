"""What runs inside the limit: the worker, its event protocol, the kinds of workload."""
