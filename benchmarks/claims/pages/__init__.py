"""One module a page: ``PAGE`` names it, ``claims()`` yields what it says in numbers."""
