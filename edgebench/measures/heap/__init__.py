"""What the heap profilers' strategies need: their files, parsed and linked to spans."""
