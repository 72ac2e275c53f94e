"""Variants of the boxes of Figure 1, each chosen by one setting (docs/variants.md).

The paper in ``model/`` stays readable without them: it asks the dicts here for a box of
another kind, and has its own otherwise.
"""
