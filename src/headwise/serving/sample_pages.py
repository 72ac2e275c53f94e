"""Pages of a run's sample outputs: the best model at each of them, as it was inside."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from headwise.errors import HeadwiseError
from headwise.run_folder.paths import WEIGHTS, model_path
from headwise.serving.inspected_model import open_model
from headwise.serving.recorded_questions import record_page
from headwise.storage import make_folder, write_text
from headwise.wording import without_surrogates

FOLDER = "inspection"
"""Folder of the pages in a run folder."""

MAX_PAGES = 3
MAX_PAGE_BYTES = 4_000_000
"""Most bytes of the answers of one page."""

MAX_SECONDS = 20.0
"""After that no other page is begun, and what a page has not computed is left out."""

MAX_MODEL_BYTES = 1_000_000_000
"""Largest weights file of a model that is loaded again, on the CPU, to look inside."""


class OutOfTimeError(HeadwiseError):
    """The time for all pages is over."""


def write_sample_pages(
    folder: Path, sources: Iterable[str], *, max_seconds: float = MAX_SECONDS
) -> dict[str, str]:
    """Write ``inspection/sample-N.html`` into a run folder, of each source.

    Returns source -> path of its page from the run folder. Pages of an earlier call are
    removed. Of what cannot be looked into, or would take too long or too much space,
    there is no page. The views that are too large or too slow are left out of a page.
    """
    end = time.monotonic() + max_seconds

    def check_stop() -> None:
        if time.monotonic() > end:
            raise OutOfTimeError("there is no time left")

    for old in (folder / FOLDER).glob("sample-*.html"):
        old.unlink()
    if (model_path(folder) / WEIGHTS).stat().st_size > MAX_MODEL_BYTES:
        return {}
    model = open_model(folder, "cpu")
    found: dict[str, str] = {}
    for number, source in enumerate(list(dict.fromkeys(sources))[:MAX_PAGES], 1):
        if not model.views or not source.strip():
            continue
        try:
            check_stop()
            page = record_page(
                model,
                {"text": source},
                {"text": source},
                check_stop=check_stop,
                max_bytes=MAX_PAGE_BYTES,
            )
        except HeadwiseError:
            continue
        make_folder(folder / FOLDER)
        path = f"{FOLDER}/sample-{number}.html"
        write_text(folder / path, without_surrogates(page))
        found[source] = path
    return found
