"""Boards: RAM, cores, storage and swap of small computers, each number with its source.

``files/`` has a TOML file for each board, ``storage.toml`` the storage that boards have. What no
source was found for is left out. Nothing here needs a library beyond the standard one, since a
storage speed is parsed wherever a limit is.
"""
