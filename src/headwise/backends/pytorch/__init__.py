"""Fused functions, training without padding, torch.compile and a KV cache."""
