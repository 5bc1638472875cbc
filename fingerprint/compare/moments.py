"""Where a model's inputs and output gradients point: second moments of every linear layer from one reference forward.

A trained change lies along the inputs a layer sees and the gradients it gets; a drawn one, low-rank or not, has no
way to know them (design 2-weights, section 5). Random token ids serve as well as text: measured on trained families,
gains of honest changes differ by less than 10% between the two, so no tokenizer and no corpus is needed.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fingerprint.architecture import read
from fingerprint.architecture.interface import Layout, Role, Slot, View
from fingerprint.checkpoint.interface import Checkpoint

SEQUENCES, LENGTH = 16, 64
"""Tokens that pass through the reference: 1,024 inputs a layer, seeded."""

MAX_PARAMETERS = 200_000_000
"""Largest reference that is run here; bigger ones go without gains, and what needs them stays inconclusive."""


@dataclass(frozen=True)
class Moments:
    """Second moments of one slot's linear map.

    Attributes:
        inputs: (in x in) mean of x x^T.
        gradients: (out x out) mean of g g^T, g the gradient of the loss by the output.
    """

    inputs: torch.Tensor
    gradients: torch.Tensor


def moments(checkpoint: Checkpoint, layout: Layout, *, seed: int = 0) -> Mapping[Slot, Moments]:
    """Moments of every slot that is one whole linear layer of a model transformers knows; empty when it cannot run.

    No code of the checkpoint is ever run: only ``model_type`` of the config chooses a class that ships with
    transformers, and sizes must agree with the tensors or nothing is built.
    """
    if sum(t.numel for t in checkpoint.tensors.values()) > MAX_PARAMETERS:
        return {}
    model = _model(checkpoint, layout) if _sane(checkpoint.config, layout) else None
    if model is None:
        return {}
    return dict(_collect(model, layout, seed))


def _sane(config: Mapping[str, Any], layout: Layout) -> bool:
    """Whether building a module from ``config`` is bounded: as many layers as there are tensors for, no huge number."""
    layers = [config[k] for k in ("num_hidden_layers", "n_layer", "num_layers") if k in config]
    if any(n != layout.dims.layers for n in layers):
        return False
    return all(abs(v) <= MAX_PARAMETERS for v in config.values() if isinstance(v, int | float))


def _model(checkpoint: Checkpoint, layout: Layout) -> Any | None:
    """The reference as a transformers module, or None when config and tensors do not make one."""
    # Imported here because it takes seconds and most comparisons end without it.
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

    config = {k: v for k, v in checkpoint.config.items() if k not in ("auto_map", "quantization_config")}
    kind = config.pop("model_type", None)
    if not isinstance(kind, str):
        return None
    try:
        with _quiet(), torch.device("meta"):
            made = AutoConfig.for_model(kind, **config)
            cls = AutoModelForCausalLM if type(made) in AutoModelForCausalLM._model_mapping else AutoModel
            if kind == "bert":
                cls = AutoModel
            model = cls.from_config(made, attn_implementation="eager")
        wanted = {n: tuple(p.shape) for n, p in model.named_parameters()}
        have = {n: tuple(t.shape) for n, t in checkpoint.tensors.items()}
        state = {}
        for name, shape in wanted.items():
            source = _source(name, have)
            values = _routed(name, checkpoint, layout) if source is None else checkpoint.tensor(source)
            if values is None or tuple(values.shape) != shape:
                return None
            state[name] = values.float()
        model = _materialise(cls, made, state)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError, OverflowError):
        return None
    return model.eval()


_ROUTED = re.compile(r"layers\.(\d{1,4})\.mlp\.(gate\.weight|experts\.gate_up_proj|experts\.down_proj)$")
"""How transformers 5 names a layer's router and its experts, which it holds in one tensor each."""


def _routed(name: str, checkpoint: Checkpoint, layout: Layout) -> torch.Tensor | None:
    """A router or all experts of a layer, put together from the slots; None for any other parameter."""
    found = _ROUTED.search(name)
    if found is None:
        return None
    layer, kind = int(found[1]), found[2]
    if kind == "gate.weight":
        view = layout.slots.get(Slot(Role.ROUTER, layer))
        return None if view is None else read(checkpoint, view)
    roles = (Role.GATE, Role.UP) if kind.endswith("gate_up_proj") else (Role.DOWN,)
    views = [[layout.slots.get(Slot(role, layer, e)) for role in roles] for e in range(layout.dims.experts)]
    if not views or any(view is None for row in views for view in row):
        return None
    return torch.stack([torch.cat([read(checkpoint, view) for view in row if view is not None]) for row in views])


def _materialise(cls: Any, config: Any, state: Mapping[str, torch.Tensor]) -> Any:
    with _quiet():
        model = cls.from_config(config, attn_implementation="eager")
    model.load_state_dict(dict(state), strict=False)
    return model.float()


def _source(name: str, have: Mapping[str, tuple[int, ...]]) -> str | None:
    """The stored name of a parameter: as it is, or under one of the usual prefixes, added or dropped."""
    for candidate in (name, f"model.{name}", f"transformer.{name}", f"bert.{name}", name.split(".", 1)[-1]):
        if candidate in have:
            return candidate
    return None


def _collect(model: Any, layout: Layout, seed: int) -> Iterator[tuple[Slot, Moments]]:
    """Run once, hook every linear layer, and yield moments for the slots whose tensors these layers hold."""
    inputs: dict[str, torch.Tensor] = {}
    gradients: dict[str, torch.Tensor] = {}
    handles = [
        module.register_forward_hook(_hook(name, inputs, gradients))
        for name, module in model.named_modules()
        if type(module).__name__ in ("Linear", "Conv1D") and not name.endswith("lm_head")
    ]
    try:
        _run(model, seed)
    finally:
        for handle in handles:
            handle.remove()
    for slot, view in layout.slots.items():
        module = next((m for m in _module_names(view.tensor) if m in inputs and m in gradients), None)
        if module is not None and view.index is None and view.order is None:
            yield slot, _cut(view, inputs[module], gradients[module])


def _module_names(tensor: str) -> Iterator[str]:
    stem = tensor.removesuffix(".weight")
    yield stem
    for prefix in ("model.", "transformer.", "bert."):
        yield prefix + stem
        yield stem.removeprefix(prefix)


def _cut(view: View, inputs: torch.Tensor, gradients: torch.Tensor) -> Moments:
    """Moments of a slot: a fused projection shares its inputs and has its own rows of the gradients."""
    if view.rows is None:
        return Moments(inputs, gradients)
    start, stop = view.rows
    return Moments(inputs, gradients[start:stop, start:stop])


def _hook(name: str, inputs: dict[str, torch.Tensor], gradients: dict[str, torch.Tensor]) -> Any:
    def forward(_module: Any, args: tuple[Any, ...], output: torch.Tensor) -> None:
        x = args[0].detach().flatten(0, -2)
        if x.shape[0] == 0 or not output.requires_grad:
            return
        inputs[name] = x.T @ x / x.shape[0]
        output.register_hook(backward)  # type: ignore[no-untyped-call]

    def backward(gradient: torch.Tensor) -> None:
        g = gradient.detach().flatten(0, -2)
        gradients[name] = g.T @ g / g.shape[0]

    return forward


def _run(model: Any, seed: int) -> None:
    """One forward and backward: cross-entropy to labels drawn from the model's own predictions (Fisher's moments)."""
    vocabulary = model.get_input_embeddings().weight
    generator = torch.Generator().manual_seed(seed)
    limit = getattr(model.config, "max_position_embeddings", LENGTH) or LENGTH
    ids = torch.randint(0, vocabulary.shape[0], (SEQUENCES, min(LENGTH, int(limit))), generator=generator)
    with torch.enable_grad(), _quiet():
        out = model(input_ids=ids)
        logits = out.logits if hasattr(out, "logits") else out.last_hidden_state @ vocabulary.T
        flat = torch.log_softmax(logits.flatten(0, -2), -1)
        labels = torch.multinomial(flat.detach().exp(), 1, generator=generator)
        (-flat.gather(-1, labels)).sum().backward()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' talk about configs off the terminal."""
    import warnings

    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
