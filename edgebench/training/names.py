"""What training is asked for by name, told without torch: what a scenario is checked against."""

from __future__ import annotations

from edgebench.layers.names import NETWORKS

PYTORCH, NUMPY = "pytorch", "numpy"
FRAMEWORKS = (PYTORCH, NUMPY)
MLP, BASIC_CNN, LSTM = "mlp", "basic_cnn", "lstm"
#: Built without torchvision, for images of any shape.
OWN = (MLP, BASIC_CNN, LSTM)
#: Networks for training alone, and all that inference knows.
TRAINED = (*OWN, *NETWORKS)
#: The images a network was made for, as a scenario writes them; of all others :data:`USUAL_SHAPE`.
SHAPES = {
    **dict.fromkeys((*OWN, "lenet"), "1x28x28"),
    "inception_v3": "3x299x299",
}
USUAL_SHAPE = "3x224x224"
#: Those that have a depth and a width of their own.
SIZED = (MLP, LSTM)
ACTIVATIONS = ("relu", "tanh", "sigmoid")
OPTIMIZERS = ("sgd", "momentum", "adam", "adagrad")
PRECISIONS = ("float32", "bfloat16")
#: The part of the last update that ``momentum`` makes again.
MOMENTUM = 0.9
#: Where parameters come from, unless a checkpoint is named: the seed.
SCRATCH = "scratch"
