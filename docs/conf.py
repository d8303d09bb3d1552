"""Sphinx configuration."""

import banditsis

project = "banditsis"
author = "the banditsis maintainers"
copyright = "2026, the banditsis maintainers"
version = release = banditsis.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"  # types are in the numpydoc sections
autodoc_member_order = "bysource"
exclude_patterns = ["_build", "tutorials"]
copybutton_exclude = ".linenos, .gp, .go"

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
    "header_links_before_dropdown": 4,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
}
html_sidebars = {"**": []}
html_show_sourcelink = False
