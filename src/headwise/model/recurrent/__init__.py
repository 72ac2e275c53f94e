"""Recurrent encoder-decoders: what the Transformer is compared with."""
