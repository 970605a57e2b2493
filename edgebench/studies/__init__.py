"""What a study's sweep comes to, from frames: tables, effects, bends. Nothing here measures."""
