"""A growing sweep watched from outside: what is recorded, and the trial under way."""
