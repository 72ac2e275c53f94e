"""The page of a sweep in a real browser; skipped where there is none."""

import pytest
from tests.reports.browser import Browser, found

from headwise.sweep.pruning import Curve
from headwise.sweep.report import sweep_report
from headwise.sweep.table import make_table

pytestmark = pytest.mark.skipif(
    found() is None, reason="no browser here; apt-get install chromium brings one"
)


@pytest.fixture
def browser(tmp_path):
    browser = Browser(tmp_path / "browser")
    yield browser
    browser.close()


def test_a_pointer_reads_the_named_curves_and_nothing_is_blocked(
    browser, make_ledger, tmp_path
):
    """Six curves, of which four are named: the script reads no more than these."""
    ledger = make_ledger({n: [float(n)] for n in range(1, 7)})
    curves = {
        each.trial: Curve(each.combination, [(10, 1.0), (20, each.value)])
        for each in ledger.trials
    }
    page = tmp_path / "report.html"
    text = sweep_report(ledger, make_table(ledger), curves, is_running=False)
    page.write_text(text, "utf-8")

    browser.resize(1280)
    browser.open(page)
    browser.point("figure.plot .area", 10 / 20)

    assert browser.text(".plot .at") == "step 10"
    assert browser.texts("figure.plot .key b") == ["1"] * 4
    assert browser.complaints == []
    assert [each for each in browser.fetched if not each.startswith("file:")] == []
