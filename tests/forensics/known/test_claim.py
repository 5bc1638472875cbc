from __future__ import annotations

from datetime import UTC, datetime

import pytest

from forensics.errors import UsageError
from forensics.known.claim import Claim, Role, Submission, earliest

AT = datetime(2026, 1, 1, tzinfo=UTC)


def claim(id: int, block: int | None = None, extrinsic: int | None = None, *, base: bool = False, gone: bool = False):
    role = Role.BASE if base else Role.SUBMISSION
    return Submission(id, Claim(role, block=block, extrinsic=extrinsic), AT, AT if gone else None)


def test_block_then_extrinsic_decides_not_the_order_of_registration():
    assert earliest([claim(1, 9, 0), claim(2, 8, 5), claim(3, 8, 2)]).id == 3


def test_a_claim_without_a_block_never_beats_one_with():
    assert earliest([claim(1), claim(2, 10**9)]).id == 2


def test_a_public_base_comes_before_every_submission():
    assert earliest([claim(1, 0, 0), claim(2, base=True)]).id == 2


def test_a_withdrawn_claim_does_not_count():
    assert earliest([claim(1, 5, gone=True), claim(2, 6)]).id == 2
    assert earliest([claim(1, 5, gone=True)]) is None


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"block": -1}, "--block"),
        ({"block": 1 << 62}, "--block"),
        ({"block": 1, "extrinsic": -1}, "--extrinsic"),
        ({"extrinsic": 3}, "--extrinsic"),
        ({"revision": "main"}, "--revision"),
        ({"revision": "A" * 40}, "--revision"),
        ({"label": "x" * 401}, "--label"),
    ],
)
def test_a_field_out_of_range_names_its_option(fields, option):
    with pytest.raises(UsageError, match=option):
        Claim(Role.SUBMISSION, **fields).checked()
