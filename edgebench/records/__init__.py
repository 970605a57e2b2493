"""What a trial leaves behind, as data: its record, and its events as phases."""
