"""Variants of the boxes of Figure 1, each chosen by one setting (docs/variants.md).

The paper in ``model/`` stays readable without them: ``model/boxes.py`` takes a box from
the dicts here if settings say so.
"""
