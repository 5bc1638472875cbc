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
from fingerprint.invariants.spans import KINDS
from fingerprint.invariants.spans import SIZES as SPAN_SIZES
from fingerprint.sketch import grid
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
        "grid_index": [[length, int(kept.size)] for length, kept in fingerprint.grid_index.items()],
    }
    for basis, gram in fingerprint.probe_gram.items():
        arrays.put(f"probe_gram/{basis}", gram, np.float32)
    for kept in fingerprint.grid_index.values():
        arrays.put("grid_index", kept, np.int32)
    arrays.put("global_vector", fingerprint.global_vector, np.float16)
    arrays.put("basis_vector", fingerprint.basis_vector, np.float16)
    return document, arrays.joined()


def decode(document: Document, arrays: Arrays) -> Fingerprint:
    """The fingerprint that ``encode`` was given.

    Raises:
        ValueError, KeyError, TypeError, IndexError: Anything is missing, left over, or not what it should be.
    """
    source = _Reader(arrays)
    _keys(document, {"meta", "tensors", "slots", "layers", "tokens", "probe_gram", "grid_index"})
    meta = _meta_in(document["meta"])
    tensors = tuple(_tensor_in(row, source) for row in document["tensors"])
    index = {
        _whole(n): _ascending(source.take("grid_index", _whole(k), np.int32), n) for n, k in document["grid_index"]
    }
    slots = dict(_slot_in(row, tensors, index, source) for row in document["slots"])
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
        grid_index=index,
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
    flags = [matrix, sketch.whole, sketch.minhash is not None, *_grid_out(sketch, arrays)]
    return [named, list(sketch.shape), place[sketch.tensor], flags, levels, numbers.nonfinite]


def _grid_out(sketch: SlotSketch, arrays: _Writer) -> list[bool]:
    """Write a slot's grid: whether there is one, whether two bytes a value are enough, whether it has gains."""
    if sketch.grid is None:
        return [False, False, False]
    short = grid.is_bfloat16(sketch.grid)
    if short:
        arrays.put("slots/grid16", grid.to_codes(sketch.grid).reshape(-1), np.uint16)
    else:
        arrays.put("slots/grid32", sketch.grid.reshape(-1), np.float32)
    if sketch.gain is not None:
        arrays.put("slots/gain", sketch.gain, np.float32)
    return [True, short, sketch.gain is not None]


def _grid_in(
    shape: tuple[int, ...], flags: Sequence[Any], index: Mapping[int, np.ndarray], source: _Reader
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Grid and gains of a slot."""
    there, short, scaled = (_flag(flag) for flag in flags)
    if not there:
        return None, None
    rows, columns = index[shape[0]].size, index[max(1, _numel(shape[1:]))].size
    if short:
        values = grid.from_codes(source.take("slots/grid16", rows * columns, np.uint16))
    else:
        values = source.take("slots/grid32", rows * columns, np.float32)
    if not np.isfinite(values).all():
        raise ValueError("slots/grid16 holds NaN or infinity")
    return values.reshape(rows, columns), source.take("slots/gain", columns, np.float32) if scaled else None


def _slot_in(
    row: Sequence[Any], tensors: Sequence[TensorEntry], index: Mapping[int, np.ndarray], source: _Reader
) -> tuple[Slot, SlotSketch]:
    (role, layer, expert, name), shape_, place, (matrix, whole, hashed, *gridded), levels, nonfinite = row
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
    values, gain = _grid_in(shape, gridded, index, source)
    return slot, SlotSketch(shape, statistics, lattice, linear, _flag(whole), minhash, tensor, values, gain)


def _layer_out(layer: LayerInvariants, arrays: _Writer) -> list[Any]:
    return [
        None if layer.units is None else _units_out(layer.units, arrays),
        None if layer.heads is None else _heads_out(layer.heads, arrays),
        [[role.value, _spans_out(kinds, arrays)] for role, kinds in sorted(layer.spans.items())],
    ]


def _layer_in(row: Sequence[Any], source: _Reader) -> LayerInvariants:
    units, heads, spans = row
    return LayerInvariants(
        None if units is None else _units_in(units, source),
        None if heads is None else _heads_in(heads, source),
        {Role(role): _spans_in(kinds, source) for role, kinds in spans},
    )


def _spans_out(kinds: Mapping[str, np.ndarray], arrays: _Writer) -> list[list[Any]]:
    for values in kinds.values():
        arrays.put("spans", values, np.float16)
    return [[kind, int(values.size)] for kind, values in kinds.items()]


def _spans_in(kinds: Sequence[Any], source: _Reader) -> dict[str, np.ndarray]:
    if any(kind not in KINDS or size not in TRIANGLES for kind, size in kinds):
        raise ValueError("spans of an unknown kind or size")
    return {_text(kind): source.take("spans", _whole(size), np.float16) for kind, size in kinds}


TRIANGLES = tuple(k * (k + 1) // 2 for k in SPAN_SIZES)


def _units_out(units: UnitInvariants, arrays: _Writer) -> list[Any]:
    arrays.put("units/expert", units.expert, np.int32)
    arrays.put("units/index", units.index, np.int32)
    arrays.put("units/triples", units.triples, np.float16)
    arrays.put("units/norms", units.norms, np.float32)
    upper = np.triu_indices(units.gram.shape[1], 1)
    arrays.put("units/gram", units.gram[:, upper[0], upper[1]].reshape(-1), np.float16)
    half = np.triu_indices(units.seen.shape[0])
    arrays.put("units/seen", units.seen[half], np.float16)
    for basis, mean in units.centre.items():
        arrays.put(f"units/centre/{basis}", mean, np.float32)
    arrays.put("units/spread", units.spread[None, :], np.float32)
    bases = []
    for kind in _UNITS:
        probed: Mapping[str, np.ndarray] = getattr(units, kind)
        bases.append(list(probed))
        for basis, rows in probed.items():
            arrays.put(f"units/{kind}/{basis}", rows, np.float16)
    return [units.count, int(units.index.size), bases, [*units.gram.shape[:2], units.seen.shape[0]]]


def _units_in(row: Sequence[Any], source: _Reader) -> UnitInvariants:
    count, kept, bases, (parts, among, seen) = _whole(row[0]), _whole(row[1]), row[2], (_whole(n) for n in row[3])
    if parts not in (2, 3) or not 0 <= among <= kept:
        raise ValueError("units have two or three parts")
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
        gram=_gram_in(parts, among, source),
        seen=_symmetric_in(seen, source),
        centre={b: source.take(f"units/centre/{b}", rows.shape[1], np.float32) for b, rows in probed[0].items()},
        spread=source.take("units/spread", 1, np.float32, 9)[0],
    )


def _gram_in(parts: int, kept: int, source: _Reader) -> np.ndarray:
    """Symmetric matrices of ones on the diagonal from their upper triangles."""
    upper = np.triu_indices(kept, 1)
    gram = np.zeros((parts, kept, kept), dtype=np.float16)
    gram[:, upper[0], upper[1]] = source.take("units/gram", parts * upper[0].size, np.float16).reshape(parts, -1)
    gram += gram.transpose(0, 2, 1)
    gram[:, np.arange(kept), np.arange(kept)] = 1
    return gram


def _symmetric_in(size: int, source: _Reader) -> np.ndarray:
    half = np.triu_indices(size)
    full = np.zeros((size, size), dtype=np.float16)
    full[half] = source.take("units/seen", half[0].size, np.float16)
    return np.where(np.tri(size, k=-1, dtype=bool), full.T, full)


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


def _ascending(kept: np.ndarray, length: int) -> np.ndarray:
    """Strictly ascending indices below ``length``."""
    if kept.size and (kept[0] < 0 or kept[-1] >= length or (np.diff(kept) <= 0).any()):
        raise ValueError("grid indices out of order")
    return kept


def _square(array: np.ndarray) -> np.ndarray:
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError("not square")
    return array


def _numel(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
