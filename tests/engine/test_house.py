"""What the figures of the code count."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.house import figures

TWO = "# a reason\nSame = int | str\n\n\ndef late():\n    from engine import one\n"
LONG = "def long():\n    '''Not\n    counted.'''\n" + "    pass\n" * 50
CODE = {
    "engine/__init__.py": '"""Nothing."""\n',
    "engine/one.py": "import engine.two\n\n\nclass Same:\n    pass\n\n\nsame = SAME = 1\n",
    "engine/two.py": "# a reason\nSame = int | str\n\n\ndef late():\n    from engine import one\n"
    + LONG,
    "tui/app.py": "import engine.one\n",
    "tui/services/textual_internals.py": 'PRIVATE: Final = {"textual": frozenset({"_a", "_b"})}\n',
    "tests/test_one.py": 'def test_words():\n    assert "a 7 text of four"\n'
    'def test_word():\n    assert "7 7 7 of two"\n    raise ValueError("not of an assert")\n',
}


def test_each_figure_counts_what_it_says(tmp_path: Path) -> None:
    for name, text in CODE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert list(figures(tmp_path).values()) == [
        *("70", "5", "5"),
        "1",  # 51 lines with that of its name, and without its docstring
        *("1", "1", "1", "1"),  # one imports two, which imports it when `late` is called
        "1.4%",
        *("1", "2"),
    ]
