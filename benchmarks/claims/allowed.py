"""Numbers that nothing measured: what they are, by kind. Whatever else has digits needs a claim."""

from __future__ import annotations

#: Kind → patterns, in the order in which they are taken out; ``^`` is a line's start.
KINDS: dict[str, tuple[str, ...]] = {
    "promises, in lists below their test's file": (r"^\* .*",),
    "keys and flags, with their defaults": (r"^\| (?:`[^`\n]*`(?:, )?)+ \|.*",),
    "examples, code, names of files and links": (
        r"^```[^\n]*\n(?:.*\n)*?```",
        r"`[^`\n]+`",
        r"\]\([^)]*\)",
        r"<[^>\n]+>",
    ),
    "heads of tables and numbered lists": (r"^\|.*\|(?=\n\|[ :\-|]+\|\n)", r"^#+ .*", r"^\d+\. "),
    "names": (
        r"\b\d+-core\b|\bresnet18\b|\b(?:decision|study|decisions) \d+\b",
        r"\b(?:ResNet|VGG|LeNet|CIFAR|MobileNetV|EdgeCaffe|libgoogle-perftools|IPv|utf-?)-?\d+\b",
        r"\bfloat32\b|\bbfloat16\b|\bJetPack \d\b|\bv[12]\b|\bdensenet121\b|\b(?:Apache|BSD)-\d(?:\.0)?",
    ),
    "versions": (
        r"\b3\.1[0-4]\b|\bDebian's (?:own )?6\.\d+|\b\d\.\d+\.\d\b|\baarch64\b",
        r"\b(?:Python|Linux|torch|torchvision|gperftools|kernel|version|cgroup version)s?"
        r" [\d.]+\d\b(?:(?:, | and | to )\d[\d.]*\d\b)*",
        r"\b[Vv]ersions? \d\b",
    ),
    "publications": (r"\(?\b(?:19|20)\d\d\)", r"\w+ et al\., \d{4}", r"[^.(]{0,80}doi [^)]*\)"),
    "sizes that were asked for": (
        r"\d+ × \d+(?: × \d+)?",
        r"\bbatch(?:es)? of \d+(?:(?:, | and | to | or )\d+)*",
        r"\bkernels? (?:of )?\d+(?:(?:, | and | to )\d+)*\b",
        r"\b\d kHz|\bevery \d+ m?s\b",
    ),
    "machines": (
        r"(?:AMD EPYC|Intel Xeon), (?:\d cores, )?\d+ GiB",
        r"\bvm-2core-24g\b|\bNVIDIA H200\b",
        r"\b2 cores of an AMD EPYC",
    ),
    "limits asked for": (
        r"\b(?:[Aa]t|[Bb]elow|down to) \d+ (?:MiB|GiB)\b",
        r"\bat \d+ % of (?:its |the )?demand",
    ),
    "speeds declared": (r"\b(?:held|Held)\s+to\s+\d+ MB/s",),
    "confidence asked for": (r"\b9[05] % (?:interval|confidence|probability)s?",),
    "aims and thresholds": (
        r"\b(?:above|below) \d+ \w+, with the command",
        r"[≤≥] ?\d[\d.]*(?: ?(?:%|MiB|MB|s|ms)\b)?",
    ),
}
#: Pages of keys, flags and decisions: only numbers with one of these units may be a measurement.
REFERENCE = (
    "docs/verbs/",
    "docs/reference/results.md",
    "docs/reference/scenarios.md",
    "docs/index.md",
    "docs/glossary.md",
    "docs/tutorial/",
    "docs/how-to/memory-budget-in-ci.md",
    "docs/how-to/fleet.md",
    "docs/how-to/small-board.md",
)
UNITS = r"(?: ?(?:%|[kMG]B|[KMG]iB|[mµ]s|s|MB/s|min|hours?|minutes|seconds)(?![\w/])| times\b|-fold\b| (?:of|in) \d+\b)"
#: Page → its own: definitions, settings of scenarios, figures of others with their source. Each
#: must be on the page.
PAGES: dict[str, tuple[str, ...]] = {
    "docs/how-to/inside-a-container.md": (
        *(
            "10.7 MiB, of podman itself",
            "205.4 MiB, as without",
            "`minimum` of 99 MiB in `python3 -c`: 103 MiB",
        ),
    ),
    "docs/how-to/small-board.md": (
        *("pages of 4 KiB and of 16 KiB (as", "on 16 KiB also", "torch on pages of 16 KiB"),
    ),
    "docs/verbs/advise.md": (
        *("less than 10 %", "5 % of each other", "same to 1 %", "exact test at 10 %"),
    ),
    "docs/explanation/storage-speed.md": ("more than 10 % off", "slowed 1.5 times or more"),
    "docs/how-to/onnx-and-tflite.md": ("between 0 and 1, whole numbers are 0 or 1",),
    "docs/how-to/your-own-model.md": ("3x224x224", "numbers from 0 to 1."),
    "results/README.md": (
        "with 24 GiB",
        "15 training steps",
        "at 50 MB/s, and at 300 MB/s",
        "EfficientNet-B0",
    ),
    "docs/explanation/observer-effect.md": (
        "versions 1 and 2; in an emulated machine on 6.12, but not on 6.1",
        *("6.18, and the 90 % interval", "a machine with 16 cores"),
        *("touches 80 MiB under a limit of 64 MiB", "as of 6.18", "Until 6.11", "since 6.12 ("),
        *("about 6.16", "95 % interval. No row"),
    ),
    "docs/reference/scenarios.md": ("at 80 % and 60 % of what",),
    "docs/verbs/layers.md": ("at 40 % of its demand",),
    "docs/verbs/report.md": ("below 5 MB",),
    "README.md": ("never 0",),
    "docs/studies/edgecaffe.md": (*("2 GiB of swap", "at 4 GB … 128 MB"),),
    "docs/explanation/why-numbers-differ.md": (
        *(
            "64 pages at a time",
            "at least each 32 MiB",
            "256 KiB a CPU with pages of 4 KiB",
        ),
        "at most 2 % of the larger figure, or 2 MiB",
    ),
    "docs/studies/lowpower.md": (
        *("over 15 steps in a trial", "as many channels out as in (32)"),
        *("Batches of 8 images",),
        *("kernels of 1 to 11, batches of 1 to 64",),
        *(
            "does 49 times",
            "(batch 16, forward). ",
            "kernel's area up to 11",
        ),
        *("batch 16, 40 steps",),
    ),
    "docs/studies/cnn-batch.md": (
        "some 220 MiB",
        "until 64 images or more",
        "basic CNN until 4 to 16",
    ),
    "docs/how-to/training.md": ("at 85, 70 and 55 % of its demand",),
    "docs/studies/hyperparameters.md": (
        *("5 to 11 trials a data set", "up to 512 MiB"),
        "intervals of 95 %, HC3",
    ),
    "docs/explanation/slowdown-model.md": (
        *("that were slowed 1.5 times or more", "reads held to 100 MB/s"),
        *("one walk at 100 MB/s", "down to 88 %", "16 MiB", "2.7 MB", "within 3 %", "within 8 %"),
    ),
}


def patterns() -> list[str]:
    """All of :data:`KINDS`."""
    return [pattern for kind in KINDS.values() for pattern in kind]
