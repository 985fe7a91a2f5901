"""Text for a terminal: made harmless, measured in cells, wrapped to a width; figures in words a person reads.

Pure. A *line* is a list of pieces, each a text and a style name of `rich`; nothing here writes anything.
"""

import unicodedata
from typing import Final, TypeAlias

from rich.cells import cell_len, chop_cells

Piece: TypeAlias = tuple[str, str]
"""A text and the style it has; the empty style is the terminal's own."""
Line: TypeAlias = list[Piece]

_SEPARATORS: Final = frozenset({"", "·", ","})
"""What stands between two facts, blanks aside: neither begins a row nor ends one."""
_WHOLE_CELLS: Final = 24
"""A piece up to this wide is one fact (`attempt 2`, `160 ms`) and is not broken at its blanks."""
_WORTH_CELLS: Final = 8
"""A word wider than a row begins in the row before if there are so many cells left."""
_TAB: Final = "    "
# Controls, formats (bidi marks and zero-width characters among them), surrogates, line and paragraph separators.
_HARMFUL_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_MS_NS: Final = 1_000_000
_S_NS: Final = 1_000_000_000


def harmless(text: str, encoding: str = "utf-8") -> str:
    """Replace by a visible escape whatever could steer a terminal, and what *encoding* cannot show; keeps line ends."""
    text = text.replace("\r\n", "\n").replace("\t", _TAB)
    shown = "".join(character if _is_harmless(character) else _escape(character) for character in text)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def _is_harmless(character: str) -> bool:
    return character == "\n" or " " <= character <= "~" or unicodedata.category(character) not in _HARMFUL_CATEGORIES


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004  # the last code of one byte


def one_line(text: str) -> str:
    """Give the text on a single line, each run of white space one blank."""
    return " ".join(text.split())


def width_of(line: Line) -> int:
    """Cells that the line takes."""
    return sum(cell_len(text) for text, _ in line)


def wrap(line: Line, width: int) -> list[Line]:
    """Break the line into rows of at most *width* cells, at blanks where there are any, inside a word where not."""
    rows: list[Line] = [[]]
    used = 0
    for text, style in line:
        for word in [text] if len(text) <= min(_WHOLE_CELLS, width) else _words(text):
            size = cell_len(word)
            fits = used + size <= width
            if used and not fits and (size <= width or width - used < _WORTH_CELLS):
                rows.append([])
                used = 0
            if word.strip() in _SEPARATORS and not used and len(rows) > 1:
                continue
            first, *further = [word] if fits or size <= width else _chopped(word, width - used, width)
            rows[-1].append((first, style))
            rows += [[(piece, style)] for piece in further]
            used = cell_len(further[-1]) if further else used + cell_len(first)
    return [_joined(_trimmed(row) if index < len(rows) - 1 else row) for index, row in enumerate(rows)]


def _chopped(word: str, first_cells: int, cells: int) -> list[str]:
    """Cut a word that is wider than a row: the first piece fills the row that it begins in."""
    first = chop_cells(word, max(first_cells, 2))[0]
    return [first, *chop_cells(word[len(first) :], max(cells, 2))]


def _trimmed(row: Line) -> Line:
    """Leave out the separators at the end of a row that another one follows."""
    while row and row[-1][0].strip() in _SEPARATORS:
        row = row[:-1]
    return row


def _words(text: str) -> list[str]:
    words: list[str] = []
    for index, word in enumerate(text.split(" ")):
        if index:
            words.append(" ")
        if word:
            words.append(word)
    return words


def _joined(row: Line) -> Line:
    joined: Line = []
    for text, style in row:
        if joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        else:
            joined.append((text, style))
    return joined


def wrap_text(text: str, style: str, width: int, max_rows: int) -> list[Line]:
    """Wrap a text of several lines; beyond *max_rows* rows it ends with a row that says how much more there is."""
    rows: list[Line] = []
    shown_chars = 0
    # Enough for every row even if each character took one cell only: a megabyte of text costs no more than a page.
    head = text[: max_rows * (width + 1)]
    for line in head.split("\n"):
        for row in wrap([(line, style)], width):
            if len(rows) == max_rows:
                return [*rows, _more(len(text) - shown_chars)]
            rows.append(row)
            shown_chars += sum(len(piece) for piece, _ in row)
        shown_chars += 1
    return [*rows, _more(len(text) - len(head))] if len(text) > len(head) else rows


def _more(chars: int) -> Line:
    return [(f"[{chars:,} more characters, see --json]", "dim")]


def duration_words(duration_ns: int) -> str:
    """Say how long, in the unit that fits: `312 ms`, `1.2 s`, `2 min 05 s`, `1 h 02 min`."""
    if duration_ns < _S_NS:
        return f"{duration_ns / _MS_NS:.0f} ms"
    seconds = duration_ns / _S_NS
    if seconds < 9.95:  # noqa: PLR2004  # below it one decimal tells something
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest_s} s"
    hours, rest_min = divmod(minutes, 60)
    return f"{hours} h {rest_min:02d} min" if hours else f"{minutes} min {rest_s:02d} s"


def cost_words(cost_usd: float) -> str:
    """Say what it cost in US dollars: two decimals, more for small sums."""
    if cost_usd == 0 or cost_usd >= 1:
        return f"${cost_usd:,.2f}"
    return f"${cost_usd:.4f}" if cost_usd >= 0.0001 else "<$0.0001"  # noqa: PLR2004  # the last digit shown


def count_words(count: int, one: str, many: str | None = None) -> str:
    """Say a number of things: `1 run`, `2 runs`, `2 retries`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
