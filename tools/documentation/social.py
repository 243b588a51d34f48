"""The picture that others show beside a link to the site: its title and what it is about, and a fleet as squares."""

import random
import textwrap
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 1200, 630
MARGIN = 72
SQUARE, GAP = 28, 8
COLUMNS = 11
BACKGROUND, TITLE, TEXT = "#0f172a", "#ffffff", "#cbd5e1"
READY, PROCESSING, WARNING = "#22c55e", "#38bdf8", "#f59e0b"


def write_picture(path: Path, *, title: str, description: str, version: str) -> None:
    """Draw the picture, without anything of the network: the font is Pillow's own."""
    image = Image.new("RGB", (WIDTH, HEIGHT), BACKGROUND)
    draw = ImageDraw.Draw(image)
    for left, top, colour in _squares():
        draw.rounded_rectangle((left, top, left + SQUARE, top + SQUARE), radius=5, fill=colour)
    y = float(MARGIN)
    for size, colour, text in (
        (68, TITLE, textwrap.fill(title, 18)),
        (32, TEXT, textwrap.fill(description, 40)),
    ):
        font = ImageFont.load_default(size)
        draw.multiline_text((MARGIN, y), text, fill=colour, font=font, spacing=14)
        y = draw.multiline_textbbox((MARGIN, y), text, font=font, spacing=14)[3] + 40
    footer = ImageFont.load_default(28)
    draw.text((MARGIN, HEIGHT - MARGIN), f"Version {version}", fill=TEXT, font=footer, anchor="ls")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, optimize=True)


def _squares() -> Iterator[tuple[int, int, str]]:
    """Yield the squares of the clusters, in the columns at the right edge."""
    chance = random.Random(1)  # noqa: S311 - the same picture in every build
    step = SQUARE + GAP
    first = WIDTH - MARGIN - COLUMNS * step + GAP
    for row in range((HEIGHT - 2 * MARGIN + GAP) // step):
        for column in range(COLUMNS):
            (colour,) = chance.choices((READY, PROCESSING, WARNING), weights=(88, 9, 3))
            yield first + column * step, MARGIN + row * step, colour
