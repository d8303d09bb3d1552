"""Sphinx configuration. The build needs no network: formulas are MathML, and inventories are files."""

import sys
from pathlib import Path

import banditsis

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))
sys.modules["banditsis.plots"] = banditsis.plots  # a public name of banditsis.show.plots

project = "banditsis"
author = "The banditsis developers"
copyright = "2026, the banditsis developers"
version = release = banditsis.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "summaries",
]
exclude_patterns = ["_build", "tutorials"]
templates_path = ["_templates"]
myst_enable_extensions = [
    "attrs_block",
    "attrs_inline",
    "colon_fence",
    "deflist",
    "dollarmath",
    "substitution",
]
myst_substitutions = {"version": release}
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"
html_math_renderer = "mathml"

# One page for each public object, written at build time.
autosummary_generate = True
autodoc_typehints = "none"  # types are in the numpydoc sections
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_aliases = {
    **dict.fromkeys(("bool", "boolean"), ":class:`python:bool`"),
    **dict.fromkeys(("sequence", "iterable"), "collections.abc.Sequence"),
    **dict.fromkeys(("array_like", "array-like"), "numpy.typing.ArrayLike"),
    "ndarray": "numpy.ndarray",
    "Generator": "numpy.random.Generator",
    "Axes": "matplotlib.axes.Axes",
    "Path": "pathlib.Path",
    **{name: f"banditsis.{name}" for name in banditsis.__all__},
    "Dataset": "banditsis.formats.dataset.Dataset",
    **{name: f"banditsis.results.evidence.{name}" for name in ("About", "Evidence", "Round")},
    "EvidenceStep": "banditsis.plans.keeping.EvidenceStep",
    "Step": "banditsis.plans.plan.Step",
}
numpydoc_xref_ignore = "all"  # other words of a type are words

# Inventories of the few names that are used, as text (version 1 of the format).
SITES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "sklearn": "https://scikit-learn.org/stable",
    "matplotlib": "https://matplotlib.org/stable",
}
intersphinx_mapping = {
    name: (site, str(DOCS / "inventories" / f"{name}.txt")) for name, site in SITES.items()
}

sphinx_gallery_conf = {
    "examples_dirs": "tutorials",  # scripts, which are run in the order of their names
    "gallery_dirs": "auto_tutorials",
    "filename_pattern": r"\.py$",  # run all of them
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": ["2x"],
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "banditsis"
html_static_path = ["_static"]
html_css_files = ["banditsis.css", "tutorials.css"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_center": [],  # all pages are in the sidebar
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
}
html_sidebars = {"**": ["contents"]}
html_show_sourcelink = False
