"""HtmlPage: the runs of a command as one HTML file that needs nothing else: no network, no server, no other file.

The page's own parts stand in the folder `page`. Its policy allows the one style sheet and the one script by their
hashes and nothing else at all; what was recorded is inert JSON, read by the script when a run is opened and shown as
text only.
"""

import base64
import contextlib
import hashlib
import html
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import IO, Any, Final

from compass_otel.collected_run import CollectedRun
from compass_otel.command_options import STDIO
from compass_otel.jsonout import encode_json
from compass_otel.page_run import FATE_ORDER, LineValue, fate_values, page_run
from compass_otel.scrubbing import scrub
from compass_otel.view_text import count_words

_SPOOL_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024
_RUNS_HERE: Final = "<!-- runs -->"
"""Where the template takes the runs: behind the script, so that the list shows while they are still being read."""
_POLICY: Final = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


class Output:
    """Where a page goes: a new file that takes its place only when it is whole, or a stream that is there already."""

    def __init__(self, target: str) -> None:
        """Open it. Raises OSError."""
        self._path: Path | None = None
        self._whole: Path | None = None
        if target == STDIO:
            self.stream: IO[bytes] = sys.stdout.buffer
            return
        path = Path(os.path.realpath(target))
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            # A device or a pipe is written to, never replaced; for a folder this raises, as it should.
            self.stream = path.open("wb")
            return
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        # mkstemp makes it readable and writable for its owner alone, whatever the umask says.
        self.stream = os.fdopen(handle, "wb")
        self._path, self._whole = path, Path(name)

    def commit(self) -> None:
        """Put it in its place. Raises OSError."""
        self.stream.flush()
        if self._path is not None and self._whole is not None:
            os.fsync(self.stream.fileno())
            self.stream.close()
            self._whole.replace(self._path)
            self._whole = None

    def discard(self) -> None:
        """Close it, and remove what was not put in its place. Idempotent."""
        if self.stream is not sys.stdout.buffer:
            # What a full disk did not take is not wanted any more.
            with contextlib.suppress(OSError):
                self.stream.close()
        if self._whole is not None:
            self._whole.unlink(missing_ok=True)
            self._whole = None


class HtmlPage:
    """Collects runs and writes the page at the end; memory holds a line of each run, the rest waits in a file.

    Not thread-safe; blocks as the disk does. Call `finish` once, or `abandon`.
    """

    def __init__(self, target: str) -> None:
        """Begin a page that `finish` puts at *target*, a path or `-` for standard output.

        Raises OSError at once when it cannot be written there.
        """
        self._out = Output(target)
        # The file's life is that of this object.
        self._runs: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_SPOOL_IN_MEMORY_BYTES)  # noqa: SIM115
        self._lines: list[tuple[tuple[int, int], LineValue]] = []
        self._source = ("", "")

    def add_run(self, run: CollectedRun, source: str) -> None:
        """Add a run that was read from *source*. Raises OSError when the temporary folder is full."""
        if source != self._source[0]:
            self._source = source, scrub(source)
        drawable, hidden = run.drawable()
        made = page_run(drawable, number=len(self._lines), source=self._source[1], hidden=hidden)
        self._lines.append((made.order, made.line))
        self._runs.write(data_block(f"run-{made.line['number']}", made.page))

    def finish(self, closing: Sequence[str]) -> None:
        """Write the page, *closing* lines at its foot. Raises OSError; then nothing stands at the target."""
        lines = [line for _, line in sorted(self._lines, key=lambda each: each[0])]
        start, end = page_frame(lines, closing)
        try:
            self._out.stream.write(start)
            self._runs.seek(0)
            shutil.copyfileobj(self._runs, self._out.stream)
            self._out.stream.write(end)
            self._out.commit()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Forget everything, and leave what stands at the target. Idempotent."""
        self._runs.close()
        self._out.discard()


def page_frame(lines: Sequence[LineValue], closing: Sequence[str]) -> tuple[bytes, bytes]:
    """Give the page up to the data of its runs, and what follows them."""
    folder = resources.files("compass_otel") / "page"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    page = Template((folder / "page.html").read_text(encoding="utf-8")).substitute(
        policy=_POLICY.format(style=_hash(style), script=_hash(script)),
        title=html.escape(_title(lines)),
        style=style,
        script=script,
        index=data_block("index", {"fates": fate_values(), "runs": lines, "closing": list(closing)}).decode(),
    )
    start, marker, end = page.partition(_RUNS_HERE)
    return (start + marker).encode(), end.encode()


def data_block(name: str, value: Any) -> bytes:
    """Give a value as a block of JSON that no text inside can end, nor turn into anything but data."""
    return b'<script type="application/json" id="%s">%s</script>\n' % (
        name.encode(),
        encode_json(value).replace(b"<", b"\\u003c"),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _title(lines: Sequence[LineValue]) -> str:
    worst = next((fate for fate in FATE_ORDER if any(line["fate"] == fate for line in lines)), None)
    total = count_words(len(lines), "run")
    return f"{sum(line['fate'] == worst for line in lines):,} {worst} of {total}" if worst else total
