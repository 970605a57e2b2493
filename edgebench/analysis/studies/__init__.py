"""The results of a study's sweep, from frames: tables, effects, bends."""
