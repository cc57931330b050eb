"""Pictures of memory: the order in which tensors read their slots, and the view that scrambles heads."""
