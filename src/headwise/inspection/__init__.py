"""Looking inside a model, and changing it for a while; results turn into JSON."""
