"""Plots as SVG, written by hand: bars and lines are all that the report needs, and no library is worth its weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, ROW, TOP, LEFT, RIGHT = 760, 26, 46, 190, 90
HEIGHT, BOTTOM = 300, 40
COLOURS = ("#3b6ea5", "#c2571a", "#4b8b3b", "#7a4f9a", "#8a8a8a")
_TEXT = 'font-family="sans-serif" font-size="12" fill="#222"'


@dataclass(frozen=True, slots=True)
class Plot:
    """A finished picture: the file's name without its ending, what it shows, and its text."""

    name: str
    title: str
    svg: str


def bars(name: str, title: str, values: Sequence[tuple[str, float]], unit: str = "") -> Plot:
    """One horizontal bar for each value."""
    most = max((value for _, value in values), default=0.0) or 1.0
    parts = []
    for place, (label, value) in enumerate(values):
        y, length = TOP + place * ROW, (WIDTH - LEFT - RIGHT) * value / most
        colour = COLOURS[place % len(COLOURS)]
        parts += [
            _text(LEFT - 8, y + 14, label, "end"),
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="18" fill="{colour}"/>',
            _text(LEFT + length + 6, y + 14, f"{value:,.3g}{unit}" if value < 100 else f"{value:,.0f}{unit}"),
        ]
    return Plot(name, title, _page(title, TOP + len(values) * ROW + 10, parts))


def lines(
    name: str, title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]], axes: tuple[str, str]
) -> Plot:
    """One line for each series of (x, y); the y axis begins at 0, the x axis is logarithmic when it spans much."""
    points = [point for _, line in series for point in line]
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    y_high = max(y for _, y in points) * 1.1 or 1.0
    logarithmic = x_low > 0 and x_high / x_low >= 30

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        span = math.log(x_high / x_low) if logarithmic else (x_high - x_low) or 1.0
        at = math.log(x / x_low) if logarithmic else x - x_low
        return 70 + (WIDTH - 200) * at / (span or 1.0), TOP + (HEIGHT - TOP - BOTTOM) * (1 - y / y_high)

    parts = [_axes(y_high, axes)]
    for number, (label, line) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        dots = [place(point) for point in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(dots) <= 10:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in dots]
        parts.append(_text(WIDTH - 120, TOP + 16 * number, label, fill=colour))
    for x in sorted({x for x, _ in points}) if len(points) <= 40 else (x_low, x_high):
        parts.append(_text(place((x, 0.0))[0], HEIGHT - BOTTOM + 16, f"{x:,.0f}", "middle"))
    return Plot(name, title, _page(title, HEIGHT, parts))


def _axes(y_high: float, axes: tuple[str, str]) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - 130
    ticks = []
    for part in range(5):
        value = y_high * part / 4
        y = TOP + (bottom - TOP) * (1 - part / 4)
        ticks.append(f'<line x1="70" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
        ticks.append(_text(64, y + 4, f"{value:,.3g}" if value < 100 else f"{value:,.0f}", "end"))
    ticks.append(_text(right / 2, HEIGHT - 6, axes[0], "middle"))
    ticks.append(_text(8, TOP - 8, axes[1]))
    return "".join(ticks)


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#222") -> str:
    style = _TEXT.replace("#222", fill)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{escape(text)}</text>'


def _page(title: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    heading = _text(12, 20, title).replace('font-size="12"', 'font-size="14" font-weight="bold"')
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', heading, *parts, "</svg>", ""])
