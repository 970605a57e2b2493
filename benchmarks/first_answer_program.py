"""A program of one or two seconds that fills 300 MiB and reads them again and again."""

import random

_PASSES = 12

data = bytearray(random.randbytes(1 << 20)) * 300
for _ in range(_PASSES):
    data.count(1)
print("done")
