from __future__ import annotations

import pytest

from detectors.overfit.results import Row
from forensics.errors import BadInput
from forensics.results.table import ResultsFile, read_clusters

HEAD = "epoch,hotkey,environment,item,exposed,score"
ALICE = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
ALICE_POLKADOT = "15oF4uVJwmo4TdGW7VfQxNLavjCXviqxT9S1MgbjMNHr6Sp5"


def read(tmp_path, *lines, head=HEAD):
    path = tmp_path / "results.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    file = ResultsFile(path)
    return list(file.rows()), file


def test_a_row_is_what_its_line_says(tmp_path):
    rows, _ = read(tmp_path, "7,ada,sat,12,1,0.5", "7,ada,sat,13,False,1e-3")
    assert rows == [Row(7, "ada", "sat", "12", True, 0.5, None, 2), Row(7, "ada", "sat", "13", False, 1e-3, None, 3)]


def test_one_key_under_two_prefixes_is_one_miner(tmp_path):
    rows, _ = read(tmp_path, f"7,{ALICE},sat,12,1,0.5", f"7,{ALICE_POLKADOT},sat,13,1,0.5")
    assert {row.hotkey for row in rows} == {ALICE}


def test_tracers_and_clusters_are_read_and_other_columns_reported(tmp_path):
    head = HEAD + ",validator,cluster,seconds"
    rows, file = read(tmp_path, "7,ada,sat,12,0,1,val,gang,9", "7,bob,sat,12,0,1,val,,9", head=head)
    assert [row.validator for row in rows] == ["val", "val"]
    assert file.clusters == {"ada": "gang"}
    assert file.unknown == ("seconds",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x,ada,sat,1,1,1", "line 2: epoch: not an epoch, got x"),
        ("-1,ada,sat,1,1,1", "line 2: epoch"),
        ("9007199254740992,ada,sat,1,1,1", "line 2: epoch"),
        ("1,,sat,1,1,1", "line 2: hotkey: not a name, got nothing"),
        ("1,a b,sat,1,1,1", "line 2: hotkey: not a hotkey"),
        ("1,ada,,1,1,1", "line 2: environment"),
        ("1,ada,s\u202eat,1,1,1", "line 2: environment: not a name"),
        ("1,ada,sat,,1,1", "line 2: item"),
        ("1,ada,sat,1,maybe,1", "line 2: exposed: not a yes or no, got maybe, expected 0, 1, true or false"),
        ("1,ada,sat,1,1,nan", "line 2: score: not a number, got nan"),
        ("1,ada,sat,1,1,inf", "line 2: score"),
        ("1,ada,sat,1,1,1_0", "line 2: score"),
        ("1,ada,sat,1,1,", "line 2: score: not a number, got nothing"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column(tmp_path, line, message):
    with pytest.raises(BadInput, match=message):
        read(tmp_path, line)


def test_a_hotkey_in_two_clusters_is_refused(tmp_path):
    with pytest.raises(BadInput, match="line 3: cluster"):
        read(tmp_path, "1,ada,sat,1,1,1,x", "1,ada,sat,2,1,1,y", head=HEAD + ",cluster")


@pytest.mark.parametrize("head", ["hotkey,cluster", "address,cluster,score,reason"])
def test_clusters_come_as_the_sybil_command_writes_them(tmp_path, head):
    path = tmp_path / "clusters.csv"
    extra = ",0.9,funding" if "score" in head else ""
    path.write_text(f"{head}\nada,3{extra}\nbob,{extra}\n")
    assert read_clusters(path) == {"ada": "3"}
    path.write_text(f"{head}\nada,3{extra}\nada,4{extra}\n")
    with pytest.raises(BadInput, match="two clusters"):
        read_clusters(path)
