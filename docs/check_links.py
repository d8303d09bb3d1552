"""Check the built pages: links and anchors inside them exist, and nothing is loaded from a network.

python docs/check_links.py docs/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "srcset")}


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.update(values[key] for key in ("id", "name") if values.get(key))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        self.loaded += [value for key, value in attrs if (tag, key) in LOADED and value]


def dead_links(folder):
    """Yield a line for each link that leads nowhere, and for each file that is loaded from elsewhere."""
    pages = {
        path: Page(path.read_text("utf-8")) for path in folder.rglob("*.html") if "_static" not in path.parts
    }
    for path, page in pages.items():
        where = path.relative_to(folder)
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    yield f"{where}: loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{where}: no file {link}"
            elif (
                where.parts[0] == "_modules"
            ):  # Sphinx links source code to one name of an object, of several
                continue
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: no anchor {link}"


if __name__ == "__main__":
    found = sorted(set(dead_links(Path(sys.argv[1]).resolve())))
    print("\n".join(found) or "links: no dead ones")
    sys.exit(bool(found))
