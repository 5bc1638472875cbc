"""A Fingerprint as one JSON document and a few long arrays, and back.

Thousands of small arrays would spend more on their headers than on their contents, so equal parts of all slots and
layers are laid end to end. Reading trusts nothing: every array must have the expected dtype and shape, every element
must be used, and every number the comparison divides by must be finite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from fingerprint.architecture.interface import Dims, Role, Slot
from fingerprint.fingerprint import (
    Fingerprint,
    HeadInvariants,
    Lattice,
    LayerInvariants,
    Meta,
    SlotSketch,
    Statistics,
    TensorEntry,
    TokenCosines,
    UnitInvariants,
)
from fingerprint.invariants.heads import ORDERS
from fingerprint.sketch.linear import SIZES, VECTOR_SIZE
from fingerprint.sketch.topk import PERMUTATIONS

Document = dict[str, Any]
Arrays = dict[str, np.ndarray]

_UNITS = ("gate", "up", "down")
_DIGESTS = ("digest", "value", "multiset")


def encode(fingerprint: Fingerprint) -> tuple[Document, Arrays]:
    """Document and arrays; equal fingerprints give equal results."""
    arrays = _Writer()
    document = {
        "meta": _meta_out(fingerprint.meta),
        "tensors": [_tensor_out(t, arrays) for t in fingerprint.tensors],
        "slots": _slots_out(fingerprint, arrays),
        "layers": [[index, *_layer_out(layer, arrays)] for index, layer in fingerprint.layers.items()],
        "tokens": [[basis, _tokens_out(basis, t, arrays)] for basis, t in fingerprint.tokens.items()],
        "probe_gram": list(fingerprint.probe_gram),
    }
    for basis, gram in fingerprint.probe_gram.items():
        arrays.put(f"probe_gram/{basis}", gram, np.float32)
    arrays.put("global_vector", fingerprint.global_vector, np.float16)
    arrays.put("basis_vector", fingerprint.basis_vector, np.float16)
    return document, arrays.joined()


def decode(document: Document, arrays: Arrays) -> Fingerprint:
    """The fingerprint that ``encode`` was given.

    Raises:
        ValueError, KeyError, TypeError, IndexError: Anything is missing, left over, or not what it should be.
    """
    source = _Reader(arrays)
    _keys(document, {"meta", "tensors", "slots", "layers", "tokens", "probe_gram"})
    meta = _meta_in(document["meta"])
    tensors = tuple(_tensor_in(row, source) for row in document["tensors"])
    slots = dict(_slot_in(row, tensors, source) for row in document["slots"])
    layers = {_whole(row[0]): _layer_in(row[1:], source) for row in document["layers"]}
    tokens = {_text(row[0]): _tokens_in(row, source) for row in document["tokens"]}
    grams = {_text(basis): _square(source.all(f"probe_gram/{basis}", np.float32)) for basis in document["probe_gram"]}
    result = Fingerprint(
        meta=meta,
        tensors=tensors,
        slots=slots,
        layers=layers,
        tokens=tokens,
        probe_gram=grams,
        global_vector=source.all("global_vector", np.float16),
        basis_vector=source.all("basis_vector", np.float16),
    )
    source.finish()
    return result


class _Writer:
    """Collects parts by name; parts of one name are laid end to end along their first axis."""

    def __init__(self) -> None:
        self._parts: dict[str, list[np.ndarray]] = {}

    def put(self, name: str, part: np.ndarray | Sequence[Sequence[float]], dtype: type[np.generic]) -> None:
        self._parts.setdefault(name, []).append(np.ascontiguousarray(part, dtype=dtype))

    def joined(self) -> Arrays:
        return {name: np.concatenate(parts) for name, parts in sorted(self._parts.items())}


class _Reader:
    """Hands out consecutive rows of each array, and knows when one is left over or runs short."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays, self._at = arrays, dict.fromkeys(arrays, 0)

    def take(self, name: str, count: int, dtype: type[np.generic], *tail: int, finite: bool = True) -> np.ndarray:
        array = self._arrays.get(name)
        if array is None and count == 0:
            return np.zeros((0, *tail), dtype=dtype)
        if array is None or array.dtype != dtype or array.shape[1:] != tail:
            raise ValueError(f"{name} is {'missing' if array is None else 'of another type'}")
        start = self._at[name]
        if count < 0 or start + count > array.shape[0]:
            raise ValueError(f"{name} is too short")
        self._at[name] = start + count
        part = array[start : start + count].copy()
        if finite and part.dtype.kind == "f" and not np.isfinite(part).all():
            raise ValueError(f"{name} holds NaN or infinity")
        return part

    def all(self, name: str, dtype: type[np.generic]) -> np.ndarray:
        array = self._arrays[name]
        return self.take(name, array.shape[0], dtype, *array.shape[1:])

    def tail(self, name: str) -> tuple[int, ...]:
        """Shape of an array without its first axis; empty when it is absent."""
        array = self._arrays.get(name)
        return () if array is None else tuple(array.shape[1:])

    def finish(self) -> None:
        left = [name for name, array in self._arrays.items() if self._at[name] != array.shape[0]]
        if left:
            raise ValueError(f"{sorted(left)[0]} holds more than the document names")


def _meta_out(meta: Meta) -> Document:
    return asdict(meta)


def _meta_in(document: Document) -> Meta:
    _keys(document, {f.name for f in fields(Meta)})
    _keys(document["dims"], {f.name for f in fields(Dims)})
    dims = Dims(**{name: _whole(value) for name, value in document["dims"].items()})
    return Meta(
        algorithm=_text(document["algorithm"]),
        key_id=_text(document["key_id"]),
        format=_text(document["format"]),
        family=_text(document["family"]),
        dims=dims,
        norm=_text(document["norm"]),
        positions=_text(document["positions"]),
        pre_norm=_flag(document["pre_norm"]),
        gated=_flag(document["gated"]),
        tied=_flag(document["tied"]),
        source=_text(document["source"]),
        ambiguous=tuple((_text(a), _text(b)) for a, b in document["ambiguous"]),
        notes=_texts(document["notes"]),
        transforms=_texts(document["transforms"]),
        parameters=_whole(document["parameters"]),
        files=tuple((_text(name), _whole(size)) for name, size in document["files"]),
        config=_text(document["config"]),
        tokenizer=_text(document["tokenizer"]),
        token_bases=_texts(document["token_bases"]),
    )


def _tensor_out(entry: TensorEntry, arrays: _Writer) -> list[Any]:
    for name in _DIGESTS:
        digest = getattr(entry, name)
        if digest:
            arrays.put(f"tensors/{name}", np.frombuffer(bytes.fromhex(digest), dtype=np.uint8)[None, :], np.uint8)
    return [entry.name, list(entry.shape), entry.dtype, entry.stored, bool(entry.multiset)]


def _tensor_in(row: Sequence[Any], source: _Reader) -> TensorEntry:
    name, shape, dtype, stored, with_multiset = row
    counts = (1, 1, int(_flag(with_multiset)))
    digest, value, multiset = (
        source.take(f"tensors/{kind}", count, np.uint8, 32).tobytes().hex()
        for kind, count in zip(_DIGESTS, counts, strict=True)
    )
    return TensorEntry(_text(name), _shape(shape), _text(dtype), _text(stored), digest, value, multiset)


def _slots_out(fingerprint: Fingerprint, arrays: _Writer) -> list[list[Any]]:
    place = {entry.name: i for i, entry in enumerate(fingerprint.tensors)}
    return [_slot_out(slot, sketch, place, arrays) for slot, sketch in fingerprint.slots.items()]


def _slot_out(slot: Slot, sketch: SlotSketch, place: Mapping[str, int], arrays: _Writer) -> list[Any]:
    numbers = sketch.statistics
    moments = [numbers.norm, numbers.mean, numbers.kurtosis, numbers.peak, numbers.zeros]
    arrays.put("slots/moments", [moments], np.float64)
    arrays.put("slots/rows", numbers.rows[None, :], np.float32)
    matrix = sketch.linear.ndim == 2
    arrays.put(
        "slots/matrices" if matrix else "slots/vectors", sketch.linear[None] if matrix else sketch.linear, np.float32
    )
    if sketch.minhash is not None:
        arrays.put("slots/minhash", sketch.minhash[None, :], np.uint32)
    levels: list[Any] = []
    if sketch.lattice is not None:
        arrays.put("slots/lattice", sketch.lattice.evidence[None, :], np.float32)
        levels = [sketch.lattice.bits, sketch.lattice.scheme]
    named = [slot.role.value, slot.layer, slot.expert, slot.name]
    flags = [matrix, sketch.whole, sketch.minhash is not None]
    return [named, list(sketch.shape), place[sketch.tensor], flags, levels, numbers.nonfinite]


def _slot_in(row: Sequence[Any], tensors: Sequence[TensorEntry], source: _Reader) -> tuple[Slot, SlotSketch]:
    (role, layer, expert, name), shape_, place, (matrix, whole, hashed), levels, nonfinite = row
    slot = Slot(Role(role), _whole(layer), _whole(expert), _text(name))
    shape = _shape(shape_)
    moments = source.take("slots/moments", 1, np.float64, 5)[0]
    rows = source.take("slots/rows", 1, np.float32, 9)[0]
    if _flag(matrix):
        sides = source.tail("slots/matrices")
        if len(sides) != 2 or not set(sides) <= set(SIZES):
            raise ValueError("sketches have unknown sides")
        linear = source.take("slots/matrices", 1, np.float32, *sides)[0]
    else:
        linear = source.take("slots/vectors", _numel(shape) if _flag(whole) else VECTOR_SIZE, np.float32)
    minhash = source.take("slots/minhash", 1, np.uint32, PERMUTATIONS)[0] if _flag(hashed) else None
    lattice = None
    if levels:
        bits, scheme = levels
        lattice = Lattice(_whole(bits), _text(scheme), source.take("slots/lattice", 1, np.float32, 9, finite=False)[0])
    norm, mean, kurtosis, peak, zeros = (float(v) for v in moments)
    statistics = Statistics(norm, mean, kurtosis, peak, zeros, rows, _whole(nonfinite))
    tensor = tensors[_index(place, len(tensors))].name
    return slot, SlotSketch(shape, statistics, lattice, linear, _flag(whole), minhash, tensor)


def _layer_out(layer: LayerInvariants, arrays: _Writer) -> list[Any]:
    return [
        None if layer.units is None else _units_out(layer.units, arrays),
        None if layer.heads is None else _heads_out(layer.heads, arrays),
    ]


def _layer_in(row: Sequence[Any], source: _Reader) -> LayerInvariants:
    units, heads = row
    return LayerInvariants(
        None if units is None else _units_in(units, source), None if heads is None else _heads_in(heads, source)
    )


def _units_out(units: UnitInvariants, arrays: _Writer) -> list[Any]:
    arrays.put("units/expert", units.expert, np.int32)
    arrays.put("units/index", units.index, np.int32)
    arrays.put("units/triples", units.triples, np.float16)
    arrays.put("units/norms", units.norms, np.float32)
    arrays.put("units/spread", units.spread[None, :], np.float32)
    bases = []
    for kind in _UNITS:
        probed: Mapping[str, np.ndarray] = getattr(units, kind)
        bases.append(list(probed))
        for basis, rows in probed.items():
            arrays.put(f"units/{kind}/{basis}", rows, np.float16)
    return [units.count, int(units.index.size), bases]


def _units_in(row: Sequence[Any], source: _Reader) -> UnitInvariants:
    count, kept, bases = _whole(row[0]), _whole(row[1]), row[2]
    probed = []
    for kind, names in zip(_UNITS, bases, strict=True):
        paths = {_text(basis): f"units/{kind}/{basis}" for basis in names}
        probed.append({b: source.take(path, kept, np.float16, *source.tail(path)[:1]) for b, path in paths.items()})
    return UnitInvariants(
        count=count,
        expert=source.take("units/expert", kept, np.int32),
        index=source.take("units/index", kept, np.int32),
        triples=source.take("units/triples", kept, np.float16, 3),
        norms=source.take("units/norms", kept, np.float32, 3),
        gate=probed[0],
        up=probed[1],
        down=probed[2],
        spread=source.take("units/spread", 1, np.float32, 9)[0],
    )


def _heads_out(heads: HeadInvariants, arrays: _Writer) -> list[Any]:
    arrays.put("heads/value_output", heads.value_output, np.float32)
    arrays.put("heads/value_output_scale", heads.value_output_scale, np.float32)
    arrays.put("heads/query_key", heads.query_key, np.float32)
    arrays.put("heads/query_key_scale", heads.query_key_scale, np.float32)
    return [heads.value_output.shape[0], heads.query_key.shape[0]]


def _heads_in(row: Sequence[Any], source: _Reader) -> HeadInvariants:
    value_output, query_key = (_whole(count) for count in row)
    return HeadInvariants(
        source.take("heads/value_output", value_output, np.float32, ORDERS),
        source.take("heads/value_output_scale", value_output, np.float32),
        source.take("heads/query_key", query_key, np.float32, ORDERS),
        source.take("heads/query_key_scale", query_key, np.float32),
    )


def _tokens_out(basis: str, tokens: TokenCosines, arrays: _Writer) -> bool:
    arrays.put(f"tokens/{basis}/ids", tokens.ids, np.int64)
    arrays.put(f"tokens/{basis}/hashes", tokens.hashes, np.uint64)
    arrays.put(f"tokens/{basis}/embed", tokens.embed, np.float16)
    if tokens.head is not None:
        arrays.put(f"tokens/{basis}/head", tokens.head, np.float16)
    return tokens.head is not None


def _tokens_in(row: Sequence[Any], source: _Reader) -> TokenCosines:
    basis, with_head = _text(row[0]), _flag(row[1])
    ids = source.all(f"tokens/{basis}/ids", np.int64)
    size = ids.size
    return TokenCosines(
        ids,
        source.take(f"tokens/{basis}/hashes", size, np.uint64),
        source.take(f"tokens/{basis}/embed", size, np.float16, size),
        source.take(f"tokens/{basis}/head", size, np.float16, size) if with_head else None,
    )


def _keys(document: object, expected: set[str]) -> None:
    if type(document) is not dict or document.keys() != expected:
        raise ValueError("document has other fields")


def _whole(value: object) -> int:
    if type(value) is not int or not -(1 << 62) < value < 1 << 62:
        raise ValueError("not an integer")
    return value


def _index(value: object, size: int) -> int:
    found = _whole(value)
    if not 0 <= found < size:
        raise ValueError("index out of range")
    return found


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError("not a string")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if type(value) is not list:
        raise ValueError("not a list")
    return tuple(_text(v) for v in value)


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("not a truth value")
    return value


def _shape(value: object) -> tuple[int, ...]:
    if type(value) is not list:
        raise ValueError("not a shape")
    shape = tuple(_whole(size) for size in value)
    if any(size < 0 for size in shape):
        raise ValueError("negative size")
    return shape


def _square(array: np.ndarray) -> np.ndarray:
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError("not square")
    return array


def _numel(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
