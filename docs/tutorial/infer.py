"""Ten texts of 64 tokens through a small encoder: a program to try edgebench on."""

import torch
from torch import nn

layer = nn.TransformerEncoderLayer(d_model=768, nhead=12, batch_first=True)
network = nn.TransformerEncoder(layer, num_layers=12).eval()
with torch.inference_mode():
    for _ in range(10):
        network(torch.rand(1, 64, 768))
