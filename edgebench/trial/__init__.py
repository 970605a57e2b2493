"""One trial: a fresh cgroup, a fresh process, watched from outside."""
