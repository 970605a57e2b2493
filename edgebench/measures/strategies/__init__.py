"""The strategies: one module each, with what it does outside the worker and inside it.

:mod:`edgebench.measures.registry` finds every strategy in this package.
"""
