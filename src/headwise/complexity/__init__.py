"""Table 1 of the paper, counted and measured: cost, order and reach of its layers."""
