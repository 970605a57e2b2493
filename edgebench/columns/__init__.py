"""Very many results lines at once: columns instead of records, kept beside the results.

A record takes a hundred times as long to make as its line takes to read, so of a large
``trials.jsonl`` none is made before somebody asks for it. What ``show`` and the frame of trials
need is read into columns (:mod:`.table`), line by line but fast (:mod:`.line`), and kept for the
next reader (:mod:`.kept`). Standard library and msgspec alone: it serves a board without numpy.
"""
