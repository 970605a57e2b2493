"""A large ``trials.jsonl`` as columns instead of records, cached beside the results.

Making a record takes a hundred times as long as reading its line, so for a large file records are
made only when they are asked for. What ``show`` and the frame of trials need is read into columns
(:mod:`.table`), line by line but fast (:mod:`.line_decoder`), and cached for the next reader
(:mod:`.cache`). Standard library and msgspec alone: it works on a board without numpy.
"""
