"""Remedies, tried in turn beside the plain workload."""
