"""What goes on around a trial, outside its cgroup: the system's memory read, a load beside it."""
