"""Loaded once into the process that readers of checkpoints are forked from, for its weight is otherwise paid per child.

A comparison at full depth builds the model's skeleton with transformers, whose modelling code takes three seconds of
processor time to load. A child that is forked from here has it already.
"""

import transformers.masking_utils
import transformers.modeling_utils
import transformers.models.auto.modeling_auto
import transformers.models.qwen3.modeling_qwen3  # noqa: F401 - it draws in what nearly every decoder's module does
