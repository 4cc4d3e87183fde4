"""What notebooks show of ingot's objects."""

from __future__ import annotations

_WIDTH = 120  # pixels of a whole bar: a column of a table


def bar(share: float) -> str:
    """HTML of a bar whose filled part is `share` of it, from 0 to 1; readable on light and dark pages."""
    outer = f"display:inline-block;width:{_WIDTH}px;height:0.7em;background:rgba(128,128,128,0.25)"
    return f'<span style="{outer}"><span style="display:block;width:{share:.1%};height:100%;background:#3b82f6"></span></span>'
