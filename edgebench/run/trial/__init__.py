"""One trial, from a fresh cgroup to a record."""
