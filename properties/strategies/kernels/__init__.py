"""Cases of each kernel. Each module registers the property of one kernel."""
