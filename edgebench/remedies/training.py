"""Remedies of edgebench's trainings."""

from __future__ import annotations

from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, with_settings
from edgebench.workloads.engines.engine import TORCH
from edgebench.workloads.training.names import LAST, LSTM, WHOLE

#: Accumulation cuts a batch into the first of these numbers of parts that divides it.
_PARTS = (4, 3, 2)
#: Adam keeps two numbers for each parameter, the others one.
_WITH_STATE = ("adam", "momentum", "adagrad")
_NO_TRAINING = "it is no training"
_NOT_PYTORCH = "it is no training in PyTorch"
_ALREADY = "it does so already"


def _is_pytorch(target: RemedyTarget) -> bool:
    return target.kind == "training" and target.runtime == TORCH


def _not_accumulated(target: RemedyTarget) -> str | None:
    if target.kind != "training":
        return _NO_TRAINING
    if target.settings.get("compiled"):
        return "a compiled step trains on its batch as a whole"
    return None if _parts(target) else "its batch can't be cut into equal parts"


def _accumulation(target: RemedyTarget) -> RemedySetting:
    parts = _parts(target)
    line = f"backward for each of {parts} parts of the batch, then one optimizer.step()"
    return RemedySetting(settings={"accumulation": parts}, code=(line,))


def _parts(target: RemedyTarget) -> int:
    """Parts of the batch in all; 0: no further cut is possible."""
    now = int(target.settings.get("accumulation") or 1)
    size = int(target.settings["batch"]) // now
    return next((now * parts for parts in _PARTS if size >= parts and size % parts == 0), 0)


def _not_halved(target: RemedyTarget) -> str | None:
    """Half of the batch must be a whole number that accumulation divides."""
    if target.kind != "training":
        return _NO_TRAINING
    parts = int(target.settings.get("accumulation") or 1)
    return None if int(target.settings["batch"]) % (2 * parts) == 0 else "its batch is not even"


def _half_batch(target: RemedyTarget) -> RemedySetting:
    """Its time is compared for the same number of examples: two steps of it with one without."""
    half = int(target.settings["batch"]) // 2
    return RemedySetting(settings={"batch": half}, code=(f"batch_size={half}",), work=0.5)


def _not_bfloat16(target: RemedyTarget) -> str | None:
    if not _is_pytorch(target):
        return _NOT_PYTORCH
    return None if target.settings["precision"] == "float32" else _ALREADY


def _not_checkpointed(target: RemedyTarget) -> str | None:
    if not _is_pytorch(target):
        return _NOT_PYTORCH
    if target.settings["network"] == LSTM:
        return "an lstm has no blocks to checkpoint"
    return _ALREADY if target.settings.get("checkpointing") else None


def _not_last_layer(target: RemedyTarget) -> str | None:
    if not _is_pytorch(target):
        return _NOT_PYTORCH
    return None if target.settings["trained"] == WHOLE else "a part alone is trained already"


def _not_stateless(target: RemedyTarget) -> str | None:
    if target.kind != "training":
        return _NO_TRAINING
    return None if target.settings["optimizer"] in _WITH_STATE else "its optimizer keeps no state"


REMEDIES = (
    # Only the activations of one part are held at a time.
    Remedy(
        name="accumulation",
        group="training",
        title="trains on a batch in parts, and adds up their gradients",
        costs="smaller parts use cores and caches less well",
        source="PyTorch's automatic mixed precision examples, gradient accumulation",
        changes="batch normalisation, which sees each part alone; the last digits of gradients",
        unfit=_not_accumulated,
        setting=_accumulation,
        effort=REWRITE,
    ),
    Remedy(
        name="half-batch",
        group="training",
        title="trains on half a batch in each step",
        costs="twice as many updates for the same examples",
        source="docs/studies/cnn-batch.md",
        changes="what is learnt: twice as many steps, each on noisier gradients",
        lossy=True,
        unfit=_not_halved,
        setting=_half_batch,
        effort=REWRITE,
    ),
    # Parameters, gradients, the optimizer's state and activations take half the memory.
    Remedy(
        name="bfloat16",
        group="training",
        title="trains in bfloat16: all tensors are half as large",
        costs="slower on a processor without instructions for it",
        source="torch.nn.Module.bfloat16",
        changes="results: about three digits are left of each value",
        lossy=True,
        unfit=_not_bfloat16,
        setting=with_settings(
            "network.to(torch.bfloat16)   # before the optimizer is made; the images too",
            precision="bfloat16",
        ),
        effort=REWRITE,
    ),
    # Only the input of each block is kept until the backward pass.
    Remedy(
        name="checkpointing",
        group="training",
        title="drops activations, and computes them again in the backward pass",
        costs="about a third more time where memory is no limit: a second forward pass",
        source="Chen et al., Training Deep Nets with Sublinear Memory Cost (2016)",
        changes="running averages of batch normalisation, which see each batch twice",
        unfit=_not_checkpointed,
        setting=with_settings(
            "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
            checkpointing=True,
        ),
        effort=REWRITE,
    ),
    # For networks that were trained before, on other data.
    Remedy(
        name="last-layer",
        group="training",
        title="trains the last layer alone: no gradients, state or activations of the others",
        costs="nothing: a step is faster; but the network learns less",
        source="Yosinski et al., How transferable are features in deep neural networks? (2014)",
        changes="what is learnt: all layers but the last stay as they are",
        lossy=True,
        unfit=_not_last_layer,
        setting=with_settings(
            "network.requires_grad_(False); network.fc.requires_grad_(True)", trained=LAST
        ),
        effort=REWRITE,
    ),
    Remedy(
        name="sgd",
        group="training",
        title="updates parameters by plain gradient descent, which keeps no state",
        costs="more steps to the same accuracy, as a rule; it needs another learning rate",
        source="Kingma and Ba, Adam: A Method for Stochastic Optimization (2015); torch.optim.SGD",
        changes="what is learnt: another optimizer, whose learning rate has to be chosen anew",
        lossy=True,
        unfit=_not_stateless,
        setting=with_settings(
            "optimizer = torch.optim.SGD(network.parameters(), lr=…)", optimizer="sgd"
        ),
        effort=REWRITE,
    ),
)
