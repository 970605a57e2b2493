"""Names of networks, engines, schedules and loaders; workers load nothing more for them."""

from __future__ import annotations

#: The schedule that has to know how much memory is free.
ADMISSION = "admission"
#: The schedule that keeps what fits of mapped weights, so that it has to know the limit.
STREAM = "stream"
#: How a schedule interleaves loading and executing layers (:mod:`edgebench.layers.schedules`).
SCHEDULES = ("linear", "bulk", "partial", "deepeye", "deepeye-frugal", ADMISSION, STREAM)
#: The one schedule of an engine that can't load and execute by layer.
WHOLE = "whole"
#: The schedule of text generation, which settings with ``new_tokens`` have.
GENERATE = "generate"
#: The engine of networks that are known by name, and of settings that name none.
TORCH = "torch"
#: What computes beside the processor; a point without one has no such setting.
NO_ACCELERATOR, CUDA = "none", "cuda"
ACCELERATORS = (NO_ACCELERATOR, CUDA)
#: Configurations of transformers that come with edgebench, so that nothing is downloaded.
CONFIGURATIONS = ("gpt2", "smollm2-135m")
#: Into what memory weights are loaded (:mod:`edgebench.layers.tensor_files`).
COPY = "copy"
LOADERS = (COPY, "mmap")
#: Types that weights may have in memory; by default they have the type of their files.
HALF_PRECISIONS = ("bfloat16", "float16")
#: Weights of linear layers are integers of one byte; activations become such in each execution.
INT8 = "int8"
WEIGHT_PRECISIONS = (*HALF_PRECISIONS, INT8)
_REGNET_SIZES = ("16gf", "1_6gf", "32gf", "3_2gf", "400mf", "800mf", "8gf")
#: The networks that are known by name: torchvision's for classification, and edgebench's own.
NETWORKS: tuple[str, ...] = tuple(
    sorted(
        (
            *("alexnet", "googlenet", "inception_v3", "lenet", "maxvit_t", "regnet_y_128gf"),
            *(f"convnext_{size}" for size in ("base", "large", "small", "tiny")),
            *(f"densenet{depth}" for depth in (121, 161, 169, 201)),
            *(f"efficientnet_b{number}" for number in range(8)),
            *(f"efficientnet_v2_{size}" for size in "lms"),
            *("mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"),
            *(f"mnasnet{width}" for width in ("0_5", "0_75", "1_0", "1_3")),
            *(f"regnet_{kind}_{size}" for kind in "xy" for size in _REGNET_SIZES),
            *(f"resnet{depth}" for depth in (18, 34, 50, 101, 152)),
            *("resnext101_32x8d", "resnext101_64x4d", "resnext50_32x4d"),
            *(f"shufflenet_v2_x{width}" for width in ("0_5", "1_0", "1_5", "2_0")),
            *("squeezenet1_0", "squeezenet1_1", "wide_resnet101_2", "wide_resnet50_2"),
            *(f"swin_{size}" for size in ("b", "s", "t", "v2_b", "v2_s", "v2_t")),
            *(f"vgg{depth}{suffix}" for depth in (11, 13, 16, 19) for suffix in ("", "_bn")),
            *(f"vit_{size}" for size in ("b_16", "b_32", "h_14", "l_16", "l_32")),
        )
    )
)
