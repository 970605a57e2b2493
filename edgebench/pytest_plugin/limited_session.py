"""The session that all marked tests of one pytest process share: opened once, closed at its end."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from edgebench.cgroups.kernel_checks import check_limit
from edgebench.run.echo import echo_to
from edgebench.run.session import Session, open_session


@dataclass(frozen=True)
class _Opened:
    session: Session
    stack: ExitStack


_KEY = pytest.StashKey[_Opened]()


def shared_session(config: pytest.Config) -> Session:
    """The session, in which memory limits are known to be enforced.

    Raises:
        MachineError, CgroupError: none can be had here.
    """
    if (opened := config.stash.get(_KEY, None)) is None:
        with ExitStack() as stack:
            echo = echo_to(sys.stdout) if config.getoption("capture") == "no" else None
            session = stack.enter_context(open_session(echo=echo))
            check_limit(session.setup.parent)
            opened = config.stash[_KEY] = _Opened(session, stack.pop_all())
    return opened.session


def close_session(config: pytest.Config) -> None:
    """Remove all that the session made. Safe to call without one."""
    if (opened := config.stash.get(_KEY, None)) is not None:
        del config.stash[_KEY]
        opened.stack.close()
