"""What tensors do in their model: roles by config, names, or shapes and values."""
