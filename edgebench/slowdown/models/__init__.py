"""The models that predict slowdown, behind one interface."""
