"""An optimizer that keeps nothing but the parameters."""

from __future__ import annotations

from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy

_STATELESS = "sgd"
#: Optimizer → how many numbers it keeps for each parameter.
_KEPT = {"adam": 2, "momentum": 1, "adagrad": 1}


@registered_remedy
class StatelessOptimizer(Remedy):
    """Adam keeps two numbers for each parameter, momentum and Adagrad one."""

    name = "sgd"
    group = "training"
    title = "updates parameters by plain gradient descent, which keeps no state"
    costs = "more steps to the same accuracy, as a rule; it needs another learning rate"
    source = "Kingma and Ba, Adam: A Method for Stochastic Optimization (2015); torch.optim.SGD"
    effort = REWRITE
    changes = "what is learnt: another optimizer, whose learning rate has to be chosen anew"
    lossy = True

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only where the optimizer keeps something."""
        if target.kind != "training":
            return "it is no training"
        return None if target.settings["optimizer"] in _KEPT else "its optimizer keeps no state"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``optimizer``."""
        line = "optimizer = torch.optim.SGD(network.parameters(), lr=…)"
        return RemedySetting(settings={"optimizer": _STATELESS}, code=(line,))
