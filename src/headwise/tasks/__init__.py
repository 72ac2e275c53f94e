"""What the numbers mean: data, model, loss, search and metric bound for one use."""
