"""Ways to run a trained model fast, behind one protocol."""
