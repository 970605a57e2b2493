"""Which layer is to blame for a network's time, and for what a limit costs."""
