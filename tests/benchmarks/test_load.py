from __future__ import annotations

import pytest

from benchmarks.load import wrk

SAID = """Running 5s test @ http://127.0.0.1:1/
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.20ms    1.84ms  30.15ms   92.09%
    Req/Sec    14.8k     2.12k   18.55k    68.00%
  Latency Distribution
     50%  720.00us
     75%    1.10ms
     90%    2.60ms
     99%    7.13ms
  73981 requests in 5.00s, 12.35GB read
{more}Requests/sec:  14789.12
Transfer/sec:      2.47GB
"""


def test_what_wrk_prints_is_read():
    assert wrk.parse(SAID.format(more="")) == wrk.Run(14789.12, 0.72, 7.13, 0, 2470.0)


def test_refusals_and_broken_connections_count_as_errors():
    more = "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 90\n"
    assert wrk.parse(SAID.format(more=more)).errors == 100


def test_a_missing_figure_is_not_taken_for_zero():
    with pytest.raises(wrk.WrkFailed):
        wrk.parse(SAID.format(more="").replace("99%", "98%"))
