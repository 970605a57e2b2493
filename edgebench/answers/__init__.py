"""What each verb answers: a headline, tables, warnings and one next step, made from typed facts.

Facts become rows here, and rows become text in one renderer each: :mod:`edgebench.cli.output` for
terminals, :mod:`edgebench.report` for Markdown and HTML. JSON is the facts.
"""
