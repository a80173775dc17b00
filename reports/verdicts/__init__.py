"""What measurements say: whether one run is worse than another, and when a series changed."""
