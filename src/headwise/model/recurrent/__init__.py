"""Recurrent encoder-decoders with attention: what the Transformer is compared with."""
