"""What an ONNX graph says about its weights: how to dequantise them, how they lie, what they were called.

Exporters fold ``weight.T`` into a constant and lose its name (``onnx::MatMul_470``, ``val_49``); quantisers replace it
by codes, scale and zero point. The graph still tells: a MatMul's right side is (in x out), and the bias added to its
product kept its name. Nothing is run; a handful of operators is followed symbolically.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch

from fingerprint.checkpoint.onnx_model import Graph, Node, Stored
from fingerprint.errors import UnsupportedCheckpoint

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
_CODES = re.compile(r"(?P<base>.+?)(_quantized|_q|_Q4|_DequantizeLinear_Output|_f|_cast)?$")
_RIGHT = {"MatMul": 1, "MatMulInteger": 1, "DynamicQuantizeMatMul": 1, "QLinearMatMul": 3, "Gemm": 1, "QGemm": 3}
"""Operators and the input that is their right-hand matrix."""
_THROUGH = frozenset({"Cast", "Mul", "Reshape", "Identity", "DequantizeLinear", "QuantizeLinear"})
_HOPS = 5
_SMALL = 4096
_CODE_KINDS = frozenset({"INT8", "UINT8", "INT4", "UINT4"})


@dataclass(frozen=True)
class Value:
    """A weight as the graph uses it.

    Attributes:
        name: Recovered parameter name where ``named``, else the graph's own.
        codes: Stored elements.
        scale: Broadcast-ready scale (every axis 1, full, or a divisor of the size for blocks); None if not quantised.
        zero: Zero point of the scale's shape, or None.
        swapped: A Transpose lies between storage and use.
        named: The exporter kept the parameter's name, hence also its layout.
        uses: The operators that read it, with the input's position.
    """

    name: str
    codes: Stored
    scale: torch.Tensor | None = None
    zero: torch.Tensor | None = None
    swapped: bool = False
    named: bool = False
    uses: list[tuple[Node, int]] = field(default_factory=list)


def weights(graph: Graph) -> list[Value]:
    """The logical weights of ``graph``, named as well as can be; ``swapped`` now means: transpose to (out x in).

    Raises:
        UnsupportedCheckpoint: Integer codes whose scale is not found.
    """
    values = _fold(graph)
    consumers: dict[str, list[tuple[Node, int]]] = defaultdict(list)
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            consumers[name].append((node, position))
            if name in values:
                values[name].uses.append((node, position))
    taken = {value.name for value in values.values() if value.named}
    chosen: dict[str, Value] = {}
    for value in filter(_is_weight, values.values()):
        before = chosen.get(value.name)
        if before is None or (_right_uses(value) and not _right_uses(before)):
            chosen[value.name] = value
    return [_settled(value, consumers, graph.tensors, taken) for value in chosen.values()]


def _right_uses(value: Value) -> list[Node]:
    """The operators that read ``value`` as their right-hand matrix."""
    return [node for node, at in value.uses if _RIGHT.get(node.op) == at]


def _is_weight(value: Value) -> bool:
    """Reals, and named integers; not the shape constants and scalars an exporter strews about."""
    if value.scale is not None:
        return True
    if value.codes.kind in _CODE_KINDS and len(value.codes.shape) > 1 and math.prod(value.codes.shape) > _SMALL:
        raise _unscaled(value)
    return value.named or (value.codes.floating and math.prod(value.codes.shape) > 1)


def _unscaled(value: Value) -> UnsupportedCheckpoint:
    return UnsupportedCheckpoint(
        "integer codes without a scale that fits",
        where=value.codes.name[:100],
        got=f"{value.codes.kind} {value.codes.shape}",
        expected="DequantizeLinear, Cast and Mul, or _scale and _zero_point beside it",
        remedy="Compare the checkpoint it was exported from.",
    )


def _fold(graph: Graph) -> dict[str, Value]:
    """Every initialiser, and every constant made of initialisers by a scale, cast or transpose."""
    spent: set[str] = set()
    values = {name: Value(name, stored, named=_is_named(name)) for name, stored in graph.tensors.items()}
    _pair_by_name(graph.tensors, values, spent)
    for node in graph.nodes:
        if node.op == "MatMulNBits":
            _block_matrix(node, graph.tensors, values, spent)
            continue
        made = _made(node, values, graph.tensors, spent)
        if made is not None:
            values[node.outputs[0]] = made
    return {name: value for name, value in values.items() if name not in spent}


def _is_named(name: str) -> bool:
    return bool(_DOTTED.fullmatch(name))


def _pair_by_name(tensors: Mapping[str, Stored], values: dict[str, Value], spent: set[str]) -> None:
    """``W_quantized``, ``W_scale``, ``W_zero_point``: what onnxruntime's quantiser writes for integer operators."""
    for name, stored in tensors.items():
        base = next((name[: -len(end)] for end in ("_quantized", "_q") if name.endswith(end)), None)
        if base is None or stored.dtype.is_floating_point or f"{base}_scale" not in tensors:
            continue
        scale = _broadcast(tensors[f"{base}_scale"], stored.shape, axis=-1)
        zero = tensors.get(f"{base}_zero_point")
        if scale is not None:
            offset = None if zero is None else _broadcast(zero, stored.shape, axis=-1)
            values[name] = Value(base, stored, scale, offset, named=_is_named(base))
            spent |= {f"{base}_scale", f"{base}_zero_point"}


def _made(node: Node, values: dict[str, Value], tensors: Mapping[str, Stored], spent: set[str]) -> Value | None:
    """The constant that ``node`` makes of a constant, if it is one of the few operators that do."""
    source = values.get(node.inputs[0]) if node.inputs and len(node.outputs) == 1 else None
    if source is None:
        return None
    if node.op in {"Cast", "Identity"}:
        return source
    if node.op == "Transpose" and len(source.codes.shape) == 2 and node.ints.get("perm", (1, 0)) == (1, 0):
        return replace(source, swapped=not source.swapped, uses=[])
    if source.codes.floating or node.op not in {"DequantizeLinear", "Mul", "Sub"}:
        return None
    others = [tensors.get(name) for name in node.inputs[1:]]
    if not others or any(other is None for other in others):
        return None
    spent |= {source.codes.name, *node.inputs}
    return _affine(node, source, [other for other in others if other is not None])


def _affine(node: Node, source: Value, others: list[Stored]) -> Value | None:
    """``(codes - zero) * scale`` out of DequantizeLinear, Sub or Mul."""
    shape, axis = source.codes.shape, node.ints.get("axis", (1,))[0]
    parameter = _broadcast(others[0], shape, axis=axis if node.op == "DequantizeLinear" else -1)
    if parameter is None:
        if node.op == "DequantizeLinear":
            raise _unscaled(source)
        return None
    name = _plain(node.outputs[0], source.name)
    made = replace(source, name=name, named=_is_named(name), uses=[])
    if node.op == "Sub":
        return replace(made, zero=parameter)
    zero = source.zero
    if node.op == "DequantizeLinear":
        zero = _broadcast(others[1], shape, axis=axis) if len(others) > 1 else None
    return replace(made, scale=parameter, zero=zero)


def _block_matrix(node: Node, tensors: Mapping[str, Stored], values: dict[str, Value], spent: set[str]) -> None:
    """MatMulNBits (com.microsoft): codes (N x K) in blocks along K, 4 bits low nibble first, zero point 8 or packed."""
    rows, width, bits, block = (node.ints.get(key, (0,))[0] for key in ("N", "K", "bits", "block_size"))
    codes, scale, *more = [tensors.get(name) for name in node.inputs[1:] if name] or [None, None]
    if codes is None or scale is None or bits not in (4, 8) or block < 1 or rows < 1 or width < 1 or width % block:
        return  # what stays behind without a scale is refused by name
    blocks = width // block
    kind = "UINT4" if bits == 4 else "UINT8"
    zero = torch.full((rows, 1), 1 << (bits - 1)) if not more else _packed_zeros(more[0], rows, blocks, kind)
    if codes.data.numel() * 8 != rows * width * bits or math.prod(scale.shape) != rows * blocks or zero is None:
        return
    matrix = replace(codes, shape=(rows, width), kind=kind, dtype=torch.int8 if bits == 4 else torch.uint8)
    name = _by_scope(node.name) or node.inputs[1]
    taken = replace(Value(name, matrix), scale=scale.whole().reshape(rows, blocks), zero=zero, named=True)
    values[node.inputs[1]] = taken
    spent |= set(node.inputs[2:])


def _packed_zeros(stored: Stored | None, rows: int, blocks: int, kind: str) -> torch.Tensor | None:
    """Zero points as they are packed beside the codes; None when they are something else."""
    bits = 4 if kind == "UINT4" else 8
    line = -(-blocks * bits // 8)
    if stored is None or stored.dtype != torch.uint8 or stored.data.numel() != rows * line:
        return None
    packed = replace(stored, shape=(rows, line * 8 // bits), kind=kind, dtype=torch.int8 if bits == 4 else torch.uint8)
    return packed.whole()[:, :blocks]


def _plain(output: str, source: str) -> str:
    """The parameter's name out of what a quantiser called its parts."""
    for name in (output, source):
        match = _CODES.fullmatch(name)
        base = match["base"] if match else name
        if _is_named(base):
            return base
    match = _CODES.fullmatch(source)
    return match["base"] if match else source


def _broadcast(stored: Stored, shape: tuple[int, ...], *, axis: int) -> torch.Tensor | None:
    """``stored`` with the rank of ``shape``: along ``axis`` if a vector, per block if sizes divide; None if neither."""
    rank = len(shape)
    if math.prod(stored.shape) > max(_SMALL, math.prod(shape) // 4):
        return None  # as large as the codes: no quantiser's scale, and it would be held in memory
    parameter = stored.whole()
    if parameter.numel() == 1:
        return parameter.reshape((1,) * rank)
    if parameter.dim() == 1 and -rank <= axis < rank:
        parameter = parameter.reshape([-1 if i == axis % rank else 1 for i in range(rank)])
    fits = parameter.dim() == rank and all(
        p == 1 or (p and s % p == 0) for p, s in zip(parameter.shape, shape, strict=True)
    )
    return parameter if fits else None


def _settled(
    value: Value, consumers: Mapping[str, list[tuple[Node, int]]], tensors: Mapping[str, Stored], taken: set[str]
) -> Value:
    """Name and orientation of one weight."""
    if value.named:
        return replace(value, swapped=False)
    right = _right_uses(value)
    if len(value.codes.shape) != 2 or not right:
        return replace(value, swapped=False)
    reversed_gemm = right[0].ints.get("transB", (0,))[0] == 1
    swapped = (not reversed_gemm) != value.swapped
    out = value.codes.shape[1] if swapped else value.codes.shape[0]
    for node in right:
        name = _by_bias(node, out, consumers, tensors) or _by_scope(node.name)
        if name and name not in taken:
            taken.add(name)
            return replace(value, name=name, swapped=swapped)
    return replace(value, swapped=swapped)


def _by_bias(
    node: Node, out: int, consumers: Mapping[str, list[tuple[Node, int]]], tensors: Mapping[str, Stored]
) -> str | None:
    """``x.weight`` when ``x.bias`` is added to the product."""
    biases = _bias_names(node.inputs[2:], out, tensors)
    frontier = list(node.outputs)
    for _ in range(_HOPS):
        readers = [reader for name in frontier for reader, _ in consumers.get(name, ())]
        for reader in readers:
            if reader.op == "Add":
                biases += _bias_names(reader.inputs, out, tensors)
        if biases:
            return biases[0].removesuffix("bias") + "weight"
        frontier = [name for reader in readers if reader.op in _THROUGH for name in reader.outputs][:16]
    return None


def _bias_names(names: Iterable[str], out: int, tensors: Mapping[str, Stored]) -> list[str]:
    return [n for n in names if n.endswith(".bias") and _is_named(n) and n in tensors and tensors[n].shape == (out,)]


def _by_scope(name: str) -> str | None:
    """``model.layers.0.mlp.up_proj.weight`` out of torch's ``/model/layers.0/mlp/up_proj/MatMul``."""
    parts = name.split("/")
    if len(parts) < 3 or parts[0] or not all(re.fullmatch(r"\w+(\.\w+)*", part) for part in parts[1:]):
        return None
    return ".".join([*parts[1:-1], "weight"])
