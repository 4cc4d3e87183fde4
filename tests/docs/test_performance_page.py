"""docs/performance.md, its charts and README's table are made of bench/results, and README's words say the same figures."""

import json
import sys
import xml.etree.ElementTree

from blocks import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import performance_page as performance

README = performance.README.read_text()


def test_the_page_is_made_of_the_lines():
    assert performance.PAGE.read_text() == performance.page(), "run python tools/performance_page.py"
    assert performance.with_table(README, performance.front()) == README, "run python tools/performance_page.py"


def test_the_charts_are_made_of_the_lines():
    made = performance.charts()
    assert {path.name for path in performance.CHARTS.glob("*.svg")} == set(made), "run python tools/performance_page.py"
    for name, text in made.items():
        assert (performance.CHARTS / name).read_text() == text, "run python tools/performance_page.py"
        assert f"charts/{name})" in performance.PAGE.read_text()
        xml.etree.ElementTree.fromstring(text)


def test_readme_says_the_same_figures():
    for figure in performance.figures():
        assert figure in README, f"README.md has not {figure!r} any more"


def test_readme_is_short():
    assert len(README.splitlines()) <= 110


def line(row, peer, ms, time="2026-11-01", command="python bench/cpu.py", **more):
    return json.dumps({"row": row, "peer": peer, "ms": ms, "time": time, "command": command, **more}) + "\n"


def lines(folder, *texts):
    (folder / "intel-xeon-processor-2cores-avx512.jsonl").write_text("".join(texts))
    return performance.rows("intel-xeon-processor-2cores-avx512", folder)


def test_a_ratio_is_of_one_run(tmp_path):
    """A time of another day or command is not compared, and a run without ingot or without a peer says nothing."""
    found = lines(tmp_path, line("a", "ingot", 2), line("a", "openvino", 3), line("a", "ingot", 1, "2026-11-02"), line("a", "onnxruntime", 9, command="python bench/cpu.py --rows a"), line("b", "ingot", 1), line("b", "before", 2))
    assert set(found) == {"a"} and set(found["a"].ratios) == {"openvino"}
    ratio = found["a"].ratios["openvino"]
    assert (ratio.over, ratio.ms, ratio.date) == (1.5, 2, "2026-11-01")


def test_the_newest_run_counts(tmp_path):
    found = lines(tmp_path, line("a", "ingot", 2), line("a", "openvino", 3), line("a", "onnxruntime", 4), line("a", "ingot", 4, "2026-11-02"), line("a", "openvino", 2, "2026-11-02"))
    row = found["a"]
    assert row.ratios["openvino"].over == 0.5 and row.ratios["onnxruntime"].over == 2 and row.last.ms == 4
    assert row.best(("openvino", "onnxruntime")).peer == "openvino" and row.best(("eager",)) is None
    table = performance.table("intel-xeon-processor-2cores-avx512", found)
    assert table[-1] == "| a | 4.00 ms |  | 2.00x* | 0.50x | 2026-11-01 to 2026-11-02 |"


def test_means_are_geometric():
    assert performance.mean([0.5, 2, 1]) == 1


def test_bars_have_the_lengths_of_their_values():
    text = performance.chart("t", "n", [("b", 0.5, "0.50x"), ("<a>", 2.0, "2.00x")], 1.0)
    assert text.index("&lt;a>") < text.index(">b<") and 'width="430.0"' in text and 'width="107.5"' in text
    assert text.count("#c0603a") == text.count("#3f7d58") == 1
