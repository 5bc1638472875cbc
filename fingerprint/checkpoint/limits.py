"""How much a checkpoint may ask of us; every bound is checked before the allocation it guards.

Checkpoints come from competitors, so a number in a header is a claim. Each bound sits well above what published models
need (the source is beside it) and low enough that refusing a hostile file costs under a second and 300 MB.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds for ``open_checkpoint``; raise one deliberately when an honest model meets it.

    Attributes:
        header_bytes: Safetensors or GGUF header. The format's own bound is 100 MB; parsing that takes seconds and
            gigabytes, and 30,000 packed experts fit in 4 MB.
        header_strings: Strings in a GGUF header (Gemma 3: 262,144 tokens, 514,906 merges).
        json_bytes: ``config.json`` and shard indexes (DeepSeek-V3's index: 8.9 MB for 91,991 tensors).
        json_commas: Values in one JSON document, counted before parsing.
        json_containers: Objects and arrays in one JSON document, counted before parsing.
        json_depth: Nesting of a JSON document.
        tokenizer_bytes: ``tokenizer.json`` (Gemma 3: 33 MB).
        tokenizer_values: Commas in it, and objects and arrays (Gemma 3: 1,300,000 and 515,000).
        vocabulary: Token ids (Gemma: 262,144).
        tensors: Tensors in a checkpoint (DeepSeek-V3: 91,991).
        rank: Axes of a tensor.
        name_bytes: UTF-8 bytes of a tensor's name.
        folder_entries: Names in a checkpoint folder.
        shards: Files of a sharded set (DeepSeek-V3: 163).
        pickle_bytes: ``data.pkl`` of a torch file (about 150 bytes a tensor).
        pickle_opcodes: Opcodes in it (about 45 a tensor).
        pickle_memory: Address space beyond the import of torch, for the process that unpickles.
        pickle_seconds: Its time on the clock and on the CPU.
        archive_bytes: Sum of unpacked sizes of a zip of a checkpoint folder.
        archive_members: Members of a zip, a torch file's included.
        archive_ratio: Unpacked over packed size of one member of such a zip; float weights compress by 1.1 to 2.
        onnx_fields: Protobuf fields walked in an ONNX file (about 10 a node); each costs one to three microseconds.
    """

    header_bytes: int = 16_000_000
    header_strings: int = 1_200_000
    json_bytes: int = 16_000_000
    json_commas: int = 800_000
    json_containers: int = 400_000
    json_depth: int = 32
    tokenizer_bytes: int = 48_000_000
    tokenizer_values: int = 2_000_000
    vocabulary: int = 2_000_000
    tensors: int = 100_000
    rank: int = 8
    name_bytes: int = 1_024
    folder_entries: int = 10_000
    shards: int = 2_000
    pickle_bytes: int = 16_000_000
    pickle_opcodes: int = 600_000
    pickle_memory: int = 1 << 30
    pickle_seconds: int = 20
    archive_bytes: int = 16 << 30
    archive_members: int = 100_000
    archive_ratio: int = 64
    onnx_fields: int = 250_000


DEFAULT_LIMITS = Limits()

FORMAT_HEADER_BYTES = 100_000_000
"""The safetensors format's own bound on a header (safetensors/src/tensor.rs, MAX_HEADER_SIZE)."""
