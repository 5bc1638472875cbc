"""Numbers that stay when a model is rewritten without changing its function (design/2-weights, section 4)."""
