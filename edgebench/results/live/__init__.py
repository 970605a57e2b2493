"""A running sweep followed from outside: its records, and the trial that runs now."""
