"""Many trials, in order and resumable; or one of any command."""
