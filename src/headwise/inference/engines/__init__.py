"""Ways to run a trained model, behind one protocol."""
