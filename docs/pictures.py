"""Draw the figures of seeing.md with the code on that page: `make docs-figures`."""

import re
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))
from browser import Browser, find_chromium  # noqa: E402

PLOTS = ("plot", "manhattan", "reading_map", "compare")  # in the order on the page


def main():
    """Run the code of the page, save its plots, and take screenshots of its report."""
    chromium = find_chromium() or sys.exit("The screenshots of the report need Chromium: make browser")
    mpl.use("Agg")
    code = re.findall(r"```python\n(.*?)```", (DOCS / "seeing.md").read_text("utf-8"), flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):  # the first run loads the compiled kernels, which would affect the times
            plt.close("all")
            with chdir(folder):
                exec("\n".join(code), {})
        for number, name in zip(plt.get_fignums(), PLOTS, strict=True):
            plt.figure(number).savefig(
                DOCS / "figures" / f"{name}.png", dpi=80, pil_kwargs={"optimize": True}
            )
        browser = Browser(chromium, Path(folder) / "profile")
        windows = {"report": (1000, 1300, False), "report_phone": (390, 844, True)}
        for name, (width, height, dark) in windows.items():
            browser.open(Path(folder) / "report.html", width=width, height=height, dark=dark)
            browser.wait_for("document.documentElement.dataset.ready === '1'")
            browser.screenshot(DOCS / "figures" / f"{name}.png", whole=False)
        browser.close()


if __name__ == "__main__":
    main()
